#!/usr/bin/python3
"""The test suites of bash and make below `regrow schedule`: the same results as without, and their processes were seen.

    check.py TARGET REGROW [--short]      TARGET is cargo's folder, in which the suites are kept; REGROW is the command;
                                          --short: some of the scripts of each

The suites are those of the distribution's source packages, and test the distribution's programs. Each script runs as it is and below the
command, in turn, each time in a fresh copy of its folder. A script that comes to something else when it runs the same way twice says nothing: it is
counted, and may not be one of many.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# A script that takes longer hangs.
LIMIT_S = 300
# What bash's tests call, beside bash.
HELPERS = ("recho", "zecho", "printenv", "xcase")
# These run others, or want a terminal.
NOT_BASH = {"run-all", "run-minimal", "run-gprof", "run-read", "run-jobs"}
SHORT_BASH = (
    "run-alias",
    "run-comsub",
    "run-execscript",
    "run-heredoc",
    "run-procsub",
    "run-redir",
)
SHORT_MAKE = (
    "features/errors",
    "features/jobserver",
    "features/recursion",
    "functions/shell",
    "targets/ONESHELL",
)
# Fewer would say that the suites are not what they were.
LEAST = {"bash": (60, 5), "make": (90, 4)}
# Processes that are to be seen.
LEAST_PROCESSES = (5000, 250)
SEEN = re.compile(r"^regrow: (\d+) processes were created", re.MULTILINE)


@dataclass
class Tally:
    """What has come of the scripts."""

    equal: int = 0
    unsteady: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    processes: int = 0


def must(words: list[str], folder: Path) -> None:
    """Runs a command that must succeed."""
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(words)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def source(package: str, folder: Path) -> Path:
    """The sources of a package, fetched once."""
    whole = folder / f"{package}.whole"
    if not whole.exists():
        shutil.rmtree(folder / package, ignore_errors=True)
        must(
            [
                str(ROOT / "scripts/install-deps"),
                "source",
                package,
                str(folder / package),
            ],
            ROOT,
        )
        whole.touch()
    found = [path for path in (folder / package).iterdir() if (path / "tests").is_dir()]
    if len(found) != 1:
        sys.exit(f"{package}: its tests are not in {folder / package}")
    return found[0]


def outcome(
    words: list[str], tests: Path, below: list[str], variables: dict[str, str]
) -> tuple[int, str, int]:
    """Status and output of a script in a fresh copy of its folder, and how many processes were seen."""
    with tempfile.TemporaryDirectory(prefix="creations-") as place:
        copy = Path(place) / "tests"
        shutil.copytree(tests, copy, symlinks=True)
        path = f"{copy}:{os.environ['PATH']}"
        done = subprocess.run(
            [*below, *words],
            cwd=copy,
            env={**os.environ, "PATH": path, "LC_ALL": "C", **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        said = done.stdout.decode(errors="replace").replace(place, "PLACE")
        seen = SEEN.search(done.stderr.decode(errors="replace"))
        return done.returncode, said, int(seen[1]) if seen else 0


def compare(
    tally: Tally,
    name: str,
    words: list[str],
    tests: Path,
    regrow: str,
    variables: dict[str, str],
) -> None:
    """Runs a script as it is and below the command."""
    plain = outcome(words, tests, [], variables)
    below = [regrow, "schedule", "--fresh", "--long-nice", "5", "--"]
    watched = outcome(words, tests, below, variables)
    tally.processes += watched[2]
    if watched[:2] == plain[:2]:
        tally.equal += 1
    elif (
        outcome(words, tests, [], variables)[:2] != plain[:2]
        or outcome(words, tests, below, variables)[:2] == plain[:2]
    ):
        tally.unsteady.append(name)
    else:
        tally.differing.append(f"{name}: {plain[:2]} without, {watched[:2]} with")


def bash(folder: Path, regrow: str, is_short: bool) -> Tally:
    """The scripts of bash."""
    root = source("bash", folder)
    tests = root / "tests"
    for helper in HELPERS:
        if not (tests / helper).exists():
            # What `configure` would have found: nothing of it is asked here.
            (root / "config.h").touch()
            words = [
                "gcc",
                "-w",
                "-O1",
                "-DHAVE_STRING_H",
                "-DHAVE_STDLIB_H",
                "-DHAVE_UNISTD_H",
                "-I.",
                "-Iinclude",
            ]
            must([*words, "-o", str(tests / helper), f"support/{helper}.c"], root)
    scripts = sorted(
        path.name for path in tests.glob("run-*") if path.name not in NOT_BASH
    )
    tally = Tally()
    for name in scripts:
        if not is_short or name in SHORT_BASH:
            variables = {"THIS_SH": "/bin/bash", "BASH_TSTOUT": "tstout"}
            compare(tally, name, ["sh", name], tests, regrow, variables)
    return tally


def make(folder: Path, regrow: str, is_short: bool) -> Tally:
    """The scripts of make."""
    root = source("make-dfsg", folder)
    tests = root / "tests"
    flags = tests / "config-flags.pm"
    if not flags.exists():
        text = (tests / "config-flags.pm.in").read_text()
        flags.write_text(re.sub(r"@\w+@", "", text))
    names = sorted(
        f"{path.parent.name}/{path.name}"
        for path in (tests / "scripts").glob("*/*")
        if path.is_file() and path.parent.name != "vms"
    )
    tally = Tally()
    for name in names:
        if not is_short or name in SHORT_MAKE:
            words = [
                "perl",
                "./run_make_tests.pl",
                "-make",
                "/usr/bin/make",
                f"scripts/{name}",
            ]
            compare(tally, name, words, tests, regrow, {})
    return tally


def main() -> None:
    """Runs both, and says what has come of it."""
    target, regrow = Path(sys.argv[1]).resolve(), str(Path(sys.argv[2]).resolve())
    is_short = "--short" in sys.argv[3:]
    folder = target / "creations"
    folder.mkdir(parents=True, exist_ok=True)
    failures, processes = [], 0
    for name, run in (("bash", bash), ("make", make)):
        tally = run(folder, regrow, is_short)
        processes += tally.processes
        print(
            f"{name}: {tally.equal} scripts come to the same below `regrow schedule`, "
            f"{len(tally.unsteady)} not even by themselves, {len(tally.differing)} to something else"
        )
        failures.extend(f"{name}, {what}" for what in tally.differing)
        if tally.equal < LEAST[name][is_short]:
            failures.append(
                f"{name}: {tally.equal} scripts are equal; unsteady: {', '.join(tally.unsteady)}"
            )
    print(f"{processes} processes were seen")
    if processes < LEAST_PROCESSES[is_short]:
        failures.append(
            f"{processes} processes were seen, not {LEAST_PROCESSES[is_short]}"
        )
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
