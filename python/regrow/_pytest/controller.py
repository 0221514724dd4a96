"""In the pytest that was started: hands tests out to processes, and shows their reports.

    session.items ──groups──> waiting ──start──> running ──frames──> reported ──in order──> pytest's own hooks

Tests are grouped by what shares a process (`regrow._pytest.units`) and started in the order of collection. Their reports
are kept until all tests before them have been shown, so that pytest sees what it sees without processes: `-x` stops at
the same test, and the output is the same whatever ends first. A process is waited for before the next one takes its
place, and the next one takes it before the reports of the last one are shown: both go on at the same time.

Where there are processors that tests do not take, the next processes are *ahead*: they are started while tests run, make
themselves ready, and wait at a gate (`regrow._pytest.gates`) until their turn has come. What ends the session, ends them
before they have begun their tests.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from typing import Any, Optional

import pytest

from regrow._pytest.gates import Gate
from regrow._pytest.patterns import KEY, Patterns
from regrow._pytest.processes import GATE, RESULTS, Executing, Recycling, Starter, setup_for
from regrow._pytest.replay import is_calm, replay
from regrow._pytest.runs import Run
from regrow._pytest.units import grouped, limits_of
from regrow._pytest.watching import Watch
from regrow._pytest.worker import READY, Event

# How many lines there are at most on what tests have left behind.
MOST_LEAVINGS = 10

# So few bytes of a pipe are not the beginning of many.
FEW_BYTES = 1 << 14

# A test's last event, when its process runs no further ones although it could.
LEFT_EARLY = ("interrupt", "exit", "internal")

# Why a test is started by exec after a recycled process has not found it.
NOT_IN_IMAGE = "the collection in the image has no test of this name"

# What is wrong when it is not found there either.
NOT_FOUND = "a pytest that is started for this test alone does not collect it: its name changes from one start to the next"


class Controller:
    """The plugin of the pytest that was started, for one session."""

    def __init__(self, config: pytest.Config, search_path: list[str], timeout_s: Optional[float]) -> None:
        self.config = config
        self.search_path = search_path
        self.timeout_s = timeout_s
        self.processes: int = config.option.regrow_processes
        self.not_recycled: Counter[str] = Counter()
        # The last test of a process, how many ran there, and what they have left behind.
        self.left: list[tuple[str, int, list[str]]] = []
        cache = getattr(config, "cache", None)
        self.patterns = Patterns(None if cache is None else cache.get(KEY, None))

    def pytest_report_header(self) -> str:
        at_once = "one at a time" if self.processes == 1 else f"{self.processes} at a time"
        return f"regrow: a fresh process for each {self.config.option.regrow}, {at_once}"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Begins with the image: it collects while this session does."""
        setup = setup_for(self.config, self.search_path)
        self.executing = Executing(setup)
        self.recycling = Recycling(setup, self.processes, most_ahead(self.processes))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            errors = "1 error" if session.testsfailed == 1 else f"{session.testsfailed} errors"
            raise session.Interrupted(f"{errors} during collection")
        if session.items:
            Schedule(self, session).run()
        if (kept := self.patterns.worth_keeping()) is not None and (cache := getattr(self.config, "cache", None)) is not None:
            cache.set(KEY, kept)
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for why, count in self.not_recycled.items():
            tests = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.write_line(f"regrow: {tests} not recycled: {why}")
        for nodeid, count, left in self.left[:MOST_LEAVINGS]:
            who = nodeid if count == 1 else f"{nodeid}, or another test of its process,"
            terminalreporter.write_line(f"regrow: {who} leaves behind {', '.join(left)}")
        if len(self.left) > MOST_LEAVINGS:
            terminalreporter.write_line(f"regrow: {len(self.left) - MOST_LEAVINGS} more tests leave something behind")


class Schedule:
    """The tests of a session on their way through processes. A test is named by its index in the session's items."""

    def __init__(self, controller: Controller, session: pytest.Session) -> None:
        self.session = session
        self.items = session.items
        self.limits_s = limits_of(session.items, controller.timeout_s)
        self.is_limited = any(limit_s is not None for limit_s in self.limits_s)
        self.not_recycled = controller.not_recycled
        self.controller = controller
        self.memory_bytes: Optional[int] = session.config.option.regrow_memory_limit
        self.recycling: Starter = controller.recycling
        self.executing: Starter = controller.executing
        self.why_exec = controller.recycling.why_not()
        self.free = list(range(controller.processes))
        # With output that is not captured, a test may not write before the reports of the one before it are shown.
        self.in_step = session.config.option.capture == "no" and controller.processes == 1
        # How many processes may be ahead, those that are, in the order of their turns, and gates at which nobody waits.
        self.most_ahead = most_ahead(controller.processes) if self.why_exec is None and not self.in_step else 0
        self.ahead: deque[Run] = deque()
        self.gates: list[Gate] = []
        # Groups of tests, and why they are not to be recycled.
        self.waiting: deque[tuple[list[int], Optional[str]]] = deque()
        option = session.config.option
        for tests in grouped(session.items, option.regrow, by_xdist=option.regrow_by_xdist):
            self.waiting.append((tests, self.why_exec))
        self.running: list[Run] = []
        self.watch = Watch()
        # Whether several frames may be taken at once: a time limit counts from frames, and a failure may end the session.
        self.may_rest = not (self.is_limited or option.maxfail or getattr(option, "stepwise", False))
        # The events of each test that is over, and the first test that has not been shown.
        self.reported: list[Optional[list[Event]]] = [None] * len(self.items)
        self.head = 0
        self.announced = -1
        # The hooks of that test's directory.
        self.hook = session.ihook
        # Whether showing what is over may end the session, so that nothing is started before.
        self.hold = False

    def run(self) -> None:
        """Runs all tests, or those up to where the session is to stop."""
        try:
            while self.head < len(self.items):
                self.announce()
                self.fill()
                self.show()
                self.take()
        finally:
            for run in self.running:
                run.process.kill()
                run.process.wait()
                if run.results is not None:
                    os.close(run.results)
                self.close_gate(run)
            for gate in self.gates:
                gate.close()
            self.watch.close()

    def announce(self) -> None:
        """Tells pytest of the test that is shown next, while it runs."""
        if self.announced < self.head:
            self.announced = self.head
            item = self.items[self.head]
            self.hook = item.ihook
            self.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)

    def fill(self) -> None:
        """Has those ahead begin whose turn has come, and starts what waits, as far as there is room."""
        while not self.is_held():
            if self.ahead and self.free:
                self.let_go(self.ahead.popleft())
            elif self.waiting and (self.free or self.may_be_ahead()):
                tests, why_exec = self.waiting[0]
                if self.in_step:
                    if tests[0] != self.head:
                        return
                    sys.stdout.flush()
                self.waiting.popleft()
                self.start(tests, why_exec)
            else:
                return

    def is_held(self) -> bool:
        """Whether what is over has to be shown before anything else begins."""
        self.hold = self.hold and self.reported[self.head] is not None
        return self.hold

    def may_be_ahead(self) -> bool:
        """Whether the next process may be started before its turn."""
        return len(self.ahead) < self.most_ahead and self.waiting[0][1] is None

    def let_go(self, run: Run) -> None:
        """Has a process that was ahead begin its tests."""
        assert run.gate is not None
        run.slot = self.free.pop(0)
        run.since = time.perf_counter()
        run.gate.open_for(run.slot)

    def close_gate(self, run: Run) -> None:
        """Closes the gate of a process that may not have taken what is in it."""
        if run.gate is not None:
            run.gate.close()
            run.gate = None

    def start(self, tests: list[int], why_exec: Optional[str]) -> None:
        """Starts a process for these tests, ahead where none is free."""
        starter = self.recycling if why_exec is None else self.executing
        slot = self.free.pop(0) if self.free else None
        gate = (self.gates.pop() if self.gates else Gate()) if slot is None else None
        results, theirs = (None, None) if starter.answers and len(tests) == 1 and not self.is_limited else os.pipe()
        try:
            process = starter.start(self.order(tests, slot, theirs), theirs, None if gate is None else gate.theirs)
        except BaseException:
            if results is not None:
                os.close(results)
            if gate is not None:
                gate.close()
            raise
        finally:
            if theirs is not None:
                os.close(theirs)
        run = Run(process, tests, results, slot, why_exec)
        self.running.append(run)
        if gate is not None:
            run.gate = gate
            self.ahead.append(run)
        self.watch.add(run, process.fileno())
        if results is not None:
            os.set_blocking(results, False)
            self.watch.add(run, results)
        if run.why_exec is not None:
            self.not_recycled[run.why_exec] += len(tests)

    def order(self, tests: list[int], slot: Optional[int], results: Optional[int]) -> dict[str, Any]:
        """What a process is told; where it has no slot, its gate tells it that."""
        return {
            "tests": [self.items[test].nodeid for test in tests],
            "slot": slot,
            "results": None if results is None else RESULTS,
            "gate": GATE if slot is None else None,
            "tell_ready": self.is_limited,
            "memory_bytes": self.memory_bytes,
            "input": 0 if self.in_step and is_open(0) else None,
        }

    def show(self) -> None:
        """Gives pytest the events of the next test, if it is over."""
        events = self.reported[self.head]
        if events is None:
            return
        item = self.items[self.head]
        for event in events:
            replay(event, item, self.hook, self.controller)
        self.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self.reported[self.head] = []
        self.head += 1
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def take(self) -> None:
        """Takes what processes have sent, and their ends; waits for that while there is nothing to show."""
        for run, source in self.watch.ready(self.patience_s()) if self.running else ():
            if source == run.results:
                self.read(run)
            else:
                self.end(run)
        if self.is_limited:
            now = time.perf_counter()
            for run in self.running:
                if run.deadline is not None and run.deadline <= now and not run.timed_out:
                    run.timed_out = True
                    run.process.kill()

    def patience_s(self) -> Optional[float]:
        """For how long there is nothing else to do."""
        # What was held begins as soon as it is held no more.
        is_room = bool(self.free and (self.ahead or self.waiting))
        if self.head == len(self.items) or self.reported[self.head] is not None or is_room:
            return 0.0
        deadlines = [run.deadline for run in self.running if run.deadline is not None and not run.timed_out]
        return max(0.0, min(deadlines) - time.perf_counter()) if deadlines else None

    def read(self, run: Run) -> None:
        """Takes the frames that have come. The last one is kept until the process is over, which may still go wrong."""
        if run.results is not None:
            if not run.read():
                self.watch.forget(run.results)
            elif self.may_rest and len(run.unread) < FEW_BYTES:
                self.watch.rest(run.results)
        for index, events in run.frames():
            if index != READY:
                test = run.tests[index]
                run.reported[test] = events
                if len(run.reported) < len(run.tests) and events != [("missing",)]:
                    self.reported[test] = events
            run.since = time.perf_counter()
            if self.is_limited:
                run.deadline = self.deadline_of(run)

    def deadline_of(self, run: Run) -> Optional[float]:
        """Until when the test that a process runs may take; None when it has run all, or there is no limit."""
        limit_s = next((self.limits_s[test] for test in run.tests if test not in run.reported), None)
        return None if limit_s is None else run.since + limit_s

    def end(self, run: Run) -> None:
        """Takes the end of a process: it frees its slot, and what it has not run goes to others."""
        if run.results is not None:
            self.read(run)
            self.watch.forget(run.results)
            os.close(run.results)
        self.watch.forget(run.process.fileno())
        status = run.process.wait()
        if (frame := run.process.take_answer()) is not None:
            run.take(frame)
        self.running.remove(run)
        if run.slot is None:
            self.ahead.remove(run)
        else:
            self.free.append(run.slot)
        rest = [test for test in run.tests if test not in run.reported]
        if rest:
            self.withdraw()
            self.close_gate(run)
        elif run.gate is not None:
            self.gates.append(run.gate)
        if rest and not any(events and events[-1][0] in LEFT_EARLY for events in run.reported.values()):
            seconds = time.perf_counter() - run.since
            test = rest.pop(0)
            run.reported[test] = [("ended", run.how_it_ended(status, self.limits_s[test]), "call", seconds)]
        elif not rest and status < 0:
            run.reported[run.tests[-1]].append(("ended", run.how_it_ended(status, None), "teardown", 0.0))
        if rest:
            self.waiting.appendleft((rest, self.why_exec))
        self.publish(run)

    def publish(self, run: Run) -> None:
        """Has the reports of a process shown; tests that it does not know are started by exec."""
        for test in reversed(run.tests):
            events = run.reported.get(test)
            if events == [("missing",)]:
                if run.why_exec is None:
                    self.withdraw()
                    self.waiting.appendleft(([test], NOT_IN_IMAGE))
                    continue
                events = [("ended", NOT_FOUND, "setup", 0.0)]
            if events is not None:
                self.reported[test] = events
                self.hold = self.hold or not all(map(is_calm, events))

    def withdraw(self) -> None:
        """Ends the processes that are ahead, and puts their tests back: others come before them."""
        while self.ahead:
            run = self.ahead.pop()
            run.process.kill()
            self.watch.forget(run.process.fileno())
            if run.results is not None:
                self.watch.forget(run.results)
                os.close(run.results)
            run.process.wait()
            run.process.take_answer()
            self.close_gate(run)
            self.running.remove(run)
            self.waiting.appendleft((run.tests, None))


def most_ahead(processes: int) -> int:
    """How many processes are ahead where this many run at a time: one for each, as far as there are processors left for them.

    Where tests take all processors nobody waits for a process that makes itself ready, and each body that is held beside those
    that run pushes their memory out of the caches.
    """
    return max(0, min(processes, len(os.sched_getaffinity(0)) - processes))


def is_open(number: int) -> bool:
    """Whether there is a descriptor of this number."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
