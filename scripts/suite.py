#!/usr/bin/python3
"""Runs the parts of a suite side by side, and says at the end how each one ended.

    scripts/suite.py SUITE [TEXT ...]    runs the parts of a suite whose names contain a text, with what these need
    scripts/suite.py --list SUITE        names the parts

SUITE is a key of SUITES in suite_parts.py, where the parts stand. Each lane runs one part at a time.

A part that fails stops no other part. The parts that need what it builds do not run, and count as failed. What a part prints
goes to target/suite/NAME.log; the end of that is shown when the part fails.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from suite_parts import SUITES, Part

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
TARGET = TARGET if TARGET.is_absolute() else ROOT / TARGET
LOGS = TARGET / "suite"
# What the tests have to say at the end: the large ones add a line each.
SUMMARY = LOGS / "summary"
# How much of the output of a failed part is shown.
SHOWN_LINES = 60
# How much of it is looked at.
READ_BYTES = 4 << 20
# Words of a line that tells of a failure, and how many such lines are printed again at the end.
FAILURE_WORDS = ("FAILED", "panicked at", "Error:")
SHOWN_FAILURES = 6


@dataclass
class Running:
    """A part that runs."""

    part: Part
    process: subprocess.Popen[bytes]
    started: float
    is_killed: bool = False

    def kill(self) -> None:
        """Ends it and whatever is in its group."""
        self.is_killed = True
        os.killpg(self.process.pid, signal.SIGKILL)


@dataclass
class Ended:
    """How a part ended."""

    part: Part
    # Nothing when it passed.
    failure: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0


@dataclass
class Suite:
    """The parts, those that run, and those that have ended."""

    waiting: list[Part]
    lanes: int
    running: dict[int, Running] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def run(self) -> None:
        """Runs all of them."""
        try:
            while self.waiting or self.running:
                self.drop_what_cannot_run()
                while (part := self.next()) is not None:
                    self.start(part)
                self.wait()
        finally:
            for running in self.running.values():
                running.kill()

    def drop_what_cannot_run(self) -> None:
        """Has every part fail that needs one that has failed."""
        failed = {ended.part.name for ended in self.ended if ended.failure}
        for part in list(self.waiting):
            missing = failed.intersection(part.needs)
            if missing:
                self.waiting.remove(part)
                self.end(Ended(part, f"was not run: {', '.join(sorted(missing))} failed"))
                failed.add(part.name)

    def next(self) -> Part | None:
        """The part that may start."""
        if len(self.running) >= self.lanes or any(running.part.alone for running in self.running.values()):
            return None
        held = {running.part.lock for running in self.running.values() if running.part.lock}
        passed = {ended.part.name for ended in self.ended if not ended.failure}
        free = (
            part
            for part in self.waiting
            if part.lock not in held and passed.issuperset(part.needs) and not (part.alone and self.running)
        )
        return next(free, None)

    def start(self, part: Part) -> None:
        """Starts a part in a session of its own."""
        self.waiting.remove(part)
        try:
            command = part.command(TARGET)
        except LookupError as error:
            self.end(Ended(part, str(error)))
            return
        environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "REGROW_SUMMARY": str(SUMMARY), **part.variables}
        with self.log(part).open("wb") as log:
            process = subprocess.Popen(
                # Whoever starts the suite in the background may have had it ignore these signals.
                ["env", "--default-signal=HUP,INT,QUIT", *command],
                cwd=ROOT / part.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running[process.pid] = Running(part, process, time.monotonic())

    def wait(self) -> None:
        """Waits until a part ends, or has hung for long enough."""
        while self.running:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid in self.running:
                running = self.running.pop(pid)
                running.process.returncode = os.waitstatus_to_exitcode(status)
                wall_s = time.monotonic() - running.started
                self.judge(running, Ended(running.part, "", wall_s, usage.ru_utime + usage.ru_stime))
                return
            for running in self.running.values():
                if not running.is_killed and time.monotonic() - running.started > running.part.limit_s:
                    running.kill()
            time.sleep(0.05)

    def judge(self, running: Running, ended: Ended) -> None:
        """Notes how a part ended."""
        if running.is_killed:
            ended.failure = f"was killed after {running.part.limit_s} s"
        elif running.process.returncode != 0:
            ended.failure = f"ended with {running.process.returncode}"
        self.end(ended)

    def end(self, ended: Ended) -> None:
        """Tells how a part ended."""
        self.ended.append(ended)
        word = "FAILED" if ended.failure else "ok"
        print(f"{word:6} {ended.wall_s:7.1f} s {ended.cpu_s:7.1f} s of processors  {ended.part.name}", flush=True)
        if ended.failure and ended.wall_s:
            lines = self.words(ended.part)
            print(*(f"       | {line}" for line in lines[-SHOWN_LINES:]), sep="\n", flush=True)

    def failures(self, ended: Ended) -> list[str]:
        """The lines in the output of a part that tell of a failure, each with the one behind it."""
        if not ended.wall_s:
            return []
        lines = self.words(ended.part)
        told = [at for at, line in enumerate(lines) if any(word in line for word in FAILURE_WORDS)]
        return [line for at in told[:SHOWN_FAILURES] for line in lines[at : at + 2]]

    def words(self, part: Part) -> list[str]:
        """What a part has printed; the end of it, if that was much."""
        with self.log(part).open("rb") as log:
            length = log.seek(0, os.SEEK_END)
            log.seek(max(0, length - READ_BYTES))
            return log.read().decode(errors="replace").splitlines()

    def log(self, part: Part) -> Path:
        """Where the output of a part goes."""
        return LOGS / f"{part.name.replace('/', '-').replace(' ', '-')}.log"


def chosen(parts: list[Part], texts: list[str]) -> list[Part]:
    """The parts whose names contain one of the texts, and what they need; all of them without a text."""
    if not texts:
        return parts
    wanted = {part.name for part in parts if any(text in part.name for text in texts)}
    for part in reversed(parts):
        if part.name in wanted:
            wanted.update(part.needs)
    return [part for part in parts if part.name in wanted]


def tell(suite: Suite, seconds: float) -> bool:
    """Prints what the tests had to say, and the parts that failed. True when none did."""
    if SUMMARY.exists():
        print(f"\n{SUMMARY.read_text()}", end="")
    failed = [ended for ended in suite.ended if ended.failure]
    if failed:
        print("\nfailed:")
    for ended in failed:
        print(f"  {ended.part.name} {ended.failure}: {suite.log(ended.part)}")
        for line in suite.failures(ended):
            print(f"    | {line}")
    cpu_s = sum(ended.cpu_s for ended in suite.ended)
    print(f"\n{seconds:.0f} s in {suite.lanes} lanes, {cpu_s:.0f} s of processors")
    print(f"{len(suite.ended) - len(failed)} passed, {len(failed)} failed")
    return not failed


def main() -> int:
    """Runs the suite that the arguments name."""
    words = [word for word in sys.argv[1:] if word != "--list"]
    if not words or words[0] not in SUITES:
        print(f"usage: suite.py [--list] {'|'.join(SUITES)} [TEXT ...]", file=sys.stderr)
        return 2
    parts = chosen(SUITES[words[0]](), words[1:])
    if "--list" in sys.argv:
        print(*(f"{part.name:24} {part.says}" for part in parts), sep="\n")
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    # Two of them would write over one another's output.
    lock = (LOGS / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"another suite runs in {TARGET}", file=sys.stderr)
        return 2
    SUMMARY.unlink(missing_ok=True)
    # Whoever ends it ends the parts with it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # A shell has what it starts in the background ignore these two, and tests send them. No part inherits a handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # What make tells those that it calls is not for the parts.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        os.environ.pop(name, None)
    # More than there are processors: some parts wait for what they have started, and others than these may have work.
    suite = Suite(parts, 2 * len(os.sched_getaffinity(0)))
    started = time.monotonic()
    suite.run()
    return 0 if tell(suite, time.monotonic() - started) else 1


if __name__ == "__main__":
    sys.exit(main())
