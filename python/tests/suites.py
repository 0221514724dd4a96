"""Runs the test suites of packages under plain pytest and under `pytest --regrow`, and compares them test by test.

    suites.py [--folder FOLDER] [--times] [NAME]...

Each suite has a folder in FOLDER, which is kept between runs: the package's source archive, as pip fetches it, and an
environment in which the package is installed from it. The suites are not changed. A line for each suite says how many
tests there were, and how long a test took beyond plain pytest. With `--times` each session runs twice and the second one
counts, and one with `-n 2` follows. The exit status is 1 if a test has another outcome that nothing here explains.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional
from xml.etree import ElementTree

import regrow

# The tests of a session that may be started by exec: an image is made again when a test changes a file that it was made of.
MOST_NOT_RECYCLED = 0.03

# No session takes as long, in seconds, unless its suite says so.
HANGS_S = 1200


@dataclass
class Suite:
    """A package whose source archive has tests."""

    name: str
    #: What the tests need beside the package and pytest.
    needs: tuple[str, ...] = ()
    #: What pytest is called with, in the folder of the sources.
    words: tuple[str, ...] = ()
    #: What has a process: a fixture of the session that takes long, as a server that starts, is for more than one test.
    unit: str = "test"
    #: A module beside this file that both sessions have as a plugin.
    plugin: str = ""
    #: Tests that must differ, by a pattern of their name, and why.
    explained: dict[str, str] = field(default_factory=dict)
    #: No session takes as long.
    hangs_s: float = HANGS_S


# pydantic is not among them: its tests need the core of the same commit, which is built with a Rust toolchain.
SUITES = [
    Suite("markupsafe"),
    Suite("pluggy"),
    Suite("more-itertools"),
    Suite("pyyaml"),
    Suite("jinja2", needs=("trio",)),
    Suite("click"),
    Suite("attrs", needs=("hypothesis", "cloudpickle", "pympler")),
    Suite("packaging", needs=("pretend", "tomli_w", "hypothesis"), words=("tests/test_utils.py", "tests/test_metadata.py")),
    Suite("networkx", words=("networkx/classes",)),
    Suite("requests", needs=("pytest-httpbin", "httpbin", "pytest-mock", "trustme", "PySocks"), unit="module"),
    # All of its tests take many minutes in plain pytest: these are of events, results, exceptions, examples and tutorials, on
    # SQLite. Its own plugin takes part in a session of several processes by the hooks of pytest-xdist alone.
    Suite("sqlalchemy", needs=("pytest-xdist",), words=("test/base",), plugin="sqlalchemy_let_go"),
]


@dataclass
class Session:
    """What a session of pytest has said."""

    seconds: float
    #: The outcomes of each name; a name may be that of several tests.
    outcomes: dict[str, list[str]]
    not_recycled: int

    @property
    def tests(self) -> int:
        """How many tests there were."""
        return sum(map(len, self.outcomes.values()))


class Place:
    """Where a suite is: its archive, its sources and its environment."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite = suite
        self.folder = folder / suite.name
        self.python = self.folder / "venv" / "bin" / "python"

    def make(self) -> None:
        """Fetches and installs what is not there."""
        if (self.folder / "made").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        call([sys.executable, "-m", "venv", str(self.folder / "venv")])
        pip = [str(self.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        name = self.suite.name
        call([*pip, "download", "--no-deps", "--no-binary", name, "--dest", str(self.folder), name])
        (archive,) = self.folder.glob("*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(self.folder / "sources")
        call([*pip, "install", "pytest", *self.suite.needs, str(archive)])
        packages = call([str(self.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        # The package under test alone: what else is installed beside it is not for the suite.
        os.symlink(Path(regrow.__file__).parent, Path(packages, "regrow"))
        if self.suite.plugin:
            name = f"{self.suite.plugin}.py"
            os.symlink(Path(__file__).resolve().with_name(name), Path(packages, name))
        (self.folder / "made").touch()

    def run(self, *flags: str) -> Session:
        """A session of the suite."""
        (sources,) = (self.folder / "sources").iterdir()
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        plugin = ("-p", self.suite.plugin) if self.suite.plugin else ()
        words = [str(self.python), "-m", "pytest", "-q", f"--junitxml={report}", *plugin, *flags, *self.suite.words]
        # As on any machine: modules are compiled once.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        limit = self.suite.hangs_s
        started = time.perf_counter()
        done = subprocess.run(words, cwd=sources, env=environment, capture_output=True, text=True, timeout=limit, check=False)
        seconds = time.perf_counter() - started
        if not report.exists():
            raise RuntimeError(f"{' '.join(words)} has ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        lines = [line for line in done.stdout.splitlines() if line.startswith("regrow: ") and " not recycled: " in line]
        return Session(seconds, outcomes_of(report), sum(int(line.split()[1]) for line in lines))


def call(words: Sequence[str]) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} has ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def outcomes_of(report: Path) -> dict[str, list[str]]:
    """The outcomes of all tests of a report."""
    found: dict[str, list[str]] = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        parts = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
        found[f"{case.get('classname')}::{case.get('name')}"].append("+".join(parts) or "passed")
    return {name: sorted(outcomes) for name, outcomes in found.items()}


def differences(suite: Suite, plain: Session, isolated: Session) -> dict[str, str]:
    """The tests whose outcomes differ without an explanation, each with words about it."""
    found = {}
    for name in sorted(plain.outcomes.keys() | isolated.outcomes.keys()):
        before, after = plain.outcomes.get(name), isolated.outcomes.get(name)
        if before != after and not any(fnmatch.fnmatchcase(name, pattern) for pattern in suite.explained):
            found[name] = f"{name}: {before} without Regrow, {after} with it"
    return found


def compare(suite: Suite, folder: Path, with_times: bool = False) -> tuple[str, list[str]]:
    """Runs a suite; a line about it, and what is wrong."""
    place = Place(suite, folder)
    place.make()
    plugin = ("-p", "regrow.pytest_plugin", f"--regrow={suite.unit}")
    # The first session compiles modules.
    sessions = [place.run(), *([place.run()] if with_times else [])]
    sessions += [place.run(*plugin), *([place.run(*plugin), place.run(*plugin, "-n", "2")] if with_times else [])]
    plain, isolated = (sessions[1], sessions[3]) if with_times else sessions
    wrong = [*differences(suite, plain, isolated).values()]
    if isolated.not_recycled > max(4, MOST_NOT_RECYCLED * isolated.tests):
        wrong.append(f"{isolated.not_recycled} of {isolated.tests} tests were not recycled")
    beyond_ms = (isolated.seconds - plain.seconds) / max(1, plain.tests) * 1e3
    line = f"{suite.name:15} {plain.tests:6} tests {plain.seconds:7.1f} s plain {isolated.seconds:7.1f} s isolated"
    line += f" {beyond_ms:6.1f} ms more a test"
    return line + (f" {sessions[4].seconds:7.1f} s with -n 2" if with_times else ""), wrong


def main(words: Optional[Sequence[str]] = None) -> int:
    """Runs the suites that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("target/python/suites"))
    parser.add_argument("--times", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args(words)
    by_name = {suite.name: suite for suite in SUITES}
    status = 0
    for name in asked.names or by_name:
        line, wrong = compare(by_name[name], asked.folder.absolute(), asked.times)
        print("\n  ".join([line, *wrong]), flush=True)
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
