"""Builds and shell tests below `regrow env`, beside the same without: `below_env.py REGROW SOURCES OUTPUT`.

Both sides run in turn, in folders of one path, with one `PATH`. Every program that may have a launcher has one (`--all`),
whatever a loaded machine has taught. The first round warms both up and is not counted. A benchmark fails when the two sides
write different files, or when nothing was recycled.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import figures

ROUNDS = int(os.environ.get("REGROW_BENCH_ROUNDS", "5"))
# A subset of the tasks, by parts of their names.
ONLY = os.environ.get("REGROW_BENCH_ONLY", "")
SYSTEM = "/usr/bin:/bin"
# Starts of a command that starts nothing.
STARTS = 200
# The figure of such a command.
COST = "regrow env -- /bin/true, more than /bin/true"
# What differs between any two builds: the elements of PATH in a log, temporary files of gcc and of zlib's configure, dates.
VARYING = (
    re.compile(rb"^PATH: .*\n", re.MULTILINE),
    re.compile(rb"/tmp/cc[A-Za-z0-9]{6}"),
    re.compile(rb"ztest\d+"),
    re.compile(rb"\b\w{3} \w{3} [ 0-9]\d \d\d:\d\d:\d\d (?:(?:AM|PM) )?[A-Z]+ \d{4}"),
)


class Task(NamedTuple):
    """Something to run, in a folder that is a copy of `source` or empty."""

    name: str
    source: Path | None
    before: list[str] | None
    command: list[str]
    asked: float


class Bench:
    """A daemon, and where both sides run."""

    def __init__(self, regrow: Path, folder: Path) -> None:
        self.regrow = regrow
        self.work = folder / "work"
        self.environment = {
            "PATH": SYSTEM,
            "HOME": str(folder),
            "LC_ALL": "C",
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.daemon = subprocess.Popen(
            [regrow, "daemon", "--idle", "0"], env=self.environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        while not (folder / "regrow.sock").exists():
            time.sleep(0.01)

    def run(self, command: list[str]) -> tuple[float, bytes]:
        """Runs a command, and returns its seconds and its output."""
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            check=False,
        )
        took = time.perf_counter() - began
        if done.returncode != 0:
            sys.exit(f"{command}: {done.returncode}: {done.stdout.decode(errors='replace')[-2000:]}")
        return took, done.stdout

    def recycled(self) -> int:
        """How many runs the daemon has recycled."""
        status = [str(self.regrow), "status", "--json"]
        done = subprocess.run(status, env=self.environment, stdout=subprocess.PIPE, check=True)
        creations = json.loads(done.stdout)["pool"]["creations"]
        return sum(sum(creations[way].values()) for way in ("recycled", "forked_body"))

    def once(self, task: Task, below: bool) -> tuple[float, dict[str, bytes]]:
        """Runs a task on one side. Returns its seconds and all that it has written."""
        shutil.rmtree(self.work, ignore_errors=True)
        if task.source is None:
            self.work.mkdir()
        else:
            shutil.copytree(task.source, self.work, symlinks=True)
        if task.before:
            self.run(task.before)
        front = [str(self.regrow), "env", "--all", "--"] if below else []
        took, output = self.run(front + task.command)
        return took, written(self.work) | {"output": varying_left_out(output)}

    def stop(self) -> None:
        """Ends the daemon."""
        subprocess.run([self.regrow, "stop"], env=self.environment, check=False)
        self.daemon.wait(60)


def varying_left_out(content: bytes) -> bytes:
    """A file's content without what differs between any two builds."""
    for pattern in VARYING:
        content = pattern.sub(b"", content)
    return content


def written(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by their paths."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): varying_left_out(path.read_bytes()) for path in files}


def compare(task: Task, plain: dict[str, bytes], below: dict[str, bytes]) -> None:
    """Ends the benchmark when both sides have not written the same."""
    names = sorted(name for name in plain.keys() | below.keys() if plain.get(name) != below.get(name))
    # Where make has two jobs, their lines stand in no certain order.
    if "make" in task.name:
        names = [name for name in names if name != "output"]
    for name in names:
        for side, content in (("without", plain.get(name)), ("below", below.get(name))):
            Path(f"/tmp/bench-env-{side}").write_bytes(content or b"")
        difference = subprocess.run(
            ["diff", "/tmp/bench-env-without", "/tmp/bench-env-below"], stdout=subprocess.PIPE, check=False
        ).stdout.decode(errors="replace")
        sys.exit(f"{task.name}: {name} differs:\n{difference[:2000]}")


def measure(bench: Bench, task: Task) -> list[figures.Figure]:
    """Measures a task on both sides, in turn."""
    times: dict[bool, list[float]] = {False: [], True: []}
    recycled = 0
    for number in range(ROUNDS + 1):
        sides: dict[bool, dict[str, bytes]] = {}
        for below in (False, True):
            before = bench.recycled()
            took, sides[below] = bench.once(task, below)
            if number > 0:
                times[below].append(took)
                recycled += bench.recycled() - before
        compare(task, sides[False], sides[True])
    if recycled == 0:
        sys.exit(f"{task.name}: nothing was recycled")
    plain, below_median = (statistics.median(times[side]) for side in (False, True))
    return [
        figures.figure(f"{task.name}, without", plain, None, "s"),
        figures.figure(f"{task.name}, below regrow env", below_median, None, "s"),
        figures.figure(f"{task.name}, without / below regrow env", plain / below_median, task.asked, "x"),
        figures.figure(f"{task.name}, recycled runs in one go", recycled / ROUNDS, None, "runs"),
    ]


def cost(bench: Bench) -> figures.Figure:
    """What `regrow env` costs that starts nothing."""
    times: dict[bool, list[float]] = {False: [], True: []}
    bench.work.mkdir(exist_ok=True)
    for number in range(STARTS + 1):
        for below in (False, True):
            front = [str(bench.regrow), "env", "--"] if below else []
            took, _ = bench.run([*front, "/bin/true"])
            if number > 0:
                times[below].append(took)
    plain, below_median = (statistics.median(times[side]) for side in (False, True))
    return figures.figure(COST, (below_median - plain) * 1e3, 2.0, "ms", at_most=True)


def tasks(sources: Path) -> list[Task]:
    """All tasks."""
    here = Path(__file__).resolve().parent
    zlib = sources / "libz-sys/src/zlib"
    jemalloc = sources / "tikv-jemalloc-sys/jemalloc"
    configure = ["sh", "./configure"]
    make = ["make", "-j2"]
    return [
        Task("configure of zlib", zlib, None, configure, 1.3),
        Task("configure of jemalloc", jemalloc, None, configure, 1.3),
        Task("1,000 shell tests", None, None, ["sh", str(here / "suite.sh"), str(here / "cases.sh")], 2.0),
        Task("make -j2 of zlib", zlib, configure, make, 1.1),
        Task("make -j2 of jemalloc", jemalloc, configure, make, 1.1),
    ]


def main() -> None:
    """Measures everything."""
    regrow, sources, output = (Path(argument).resolve() for argument in sys.argv[1:])
    all_figures = []
    with tempfile.TemporaryDirectory(prefix="regrow-bench-env-") as folder:
        bench = Bench(regrow, Path(folder))
        try:
            for task in tasks(sources):
                if ONLY in task.name:
                    all_figures += measure(bench, task)
                    for one in all_figures[-4:]:
                        figures.show(one)
            if ONLY in COST:
                all_figures.append(cost(bench))
                figures.show(all_figures[-1])
        finally:
            bench.stop()
    figures.write(output, all_figures)


main()
