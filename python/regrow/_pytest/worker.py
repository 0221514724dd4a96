"""Inside the process of a test: a pytest that has collected, and runs the tests that an order names.

A worker has two lives. It prepares itself: the same arguments, options and plugins as the pytest that was started, and
the same collection, without a terminal. In a warm image it then stops, and each run continues behind that point; in a
process that was executed the run follows at once. The run makes a *frame* of each test, which goes to its results descriptor
with a head in front, as soon as the test is over; a run of one test may have its only frame as its answer instead.

    8 bytes     length of what follows, little-endian
    pickle      (index of the test in the order, [events])

An event is a tuple: its kind, then plain values, as `RunRecorder` makes them. A test without a frame is the one that the
process has died in. A run that is ahead of its turn makes itself ready, and waits for a byte on its *gate*.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import struct
import sys
import traceback
from typing import TYPE_CHECKING, Any, Optional

import pytest
from _pytest import capture as pytest_capture
from _pytest._code.code import ExceptionRepr, TerminalRepr
from _pytest.config import _prepareconfig, create_terminal_writer
from _pytest.main import Session

import regrow
from regrow._pytest import answers, patterns
from regrow._pytest.capturing import Capturing, memory_file
from regrow._pytest.gates import wait_at
from regrow._pytest.leavings import Leavings
from regrow._pytest.practice import Loop, is_of_pytest, practise
from regrow._pytest.reports import as_plain

if TYPE_CHECKING:
    import warnings

Event = tuple[Any, ...]

# The index of the frame that a process sends before its first test, if its tests have a time limit.
READY = -1

FRAME_HEAD = struct.Struct("<Q")

# What the controller's options are replaced by: a worker starts no processes, opens no debugger, and shows nothing.
OWN_OPTIONS: dict[str, Any] = {"regrow": None, "numprocesses": None, "dist": "no", "tx": [], "usepdb": False}


class Sink:
    """The file that the terminal reporter of a worker writes to: its text is sent as events."""

    encoding = "utf-8"

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def write(self, text: str) -> int:
        self.events.append(("text", text))
        return len(text)

    def flush(self) -> None:
        """There is nothing to flush."""

    def isatty(self) -> bool:
        return False


class SilentReporter:
    """Stands for the terminal reporter: all that it can be asked for, and none of its hooks."""

    def __init__(self, reporter: object) -> None:
        self._reporter = reporter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reporter, name)


class RunRecorder:
    """The plugin that runs the tests of the order, and records what pytest says of them."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.events = worker.events
        self.has_parts = False
        # Whether no plugin gives reports a form of its own.
        hook = worker.config.hook
        forms = [*hook.pytest_report_to_serializable.get_hookimpls(), *hook.pytest_report_from_serializable.get_hookimpls()]
        self.is_plain = all(is_of_pytest(form.plugin) for form in forms)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.worker.run_tests()
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self.worker.config
        # Failed parts make a test fail where plugins are asked for its status: they know of the parts here alone.
        if type(report) is not pytest.TestReport:
            self.has_parts = True
        elif self.has_parts and report.when == "call":
            self.has_parts = False
            config.hook.pytest_report_teststatus(report=report, config=config)
        if self.is_plain and (fields := as_plain(report)) is not None:
            self.events.append(("plain", fields))
            return
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self.events.append(("report", data, self._as_shown(report.longrepr)))

    def _as_shown(self, longrepr: object) -> Optional[str]:
        """What a terminal shows of a failure, if pytest does not send its form but its words alone."""
        if isinstance(longrepr, ExceptionRepr) or not isinstance(longrepr, TerminalRepr):
            return None
        file = io.StringIO()
        writer = create_terminal_writer(self.worker.config, file)
        longrepr.toterminal(writer)
        return file.getvalue().rstrip("\n")

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: Optional[tuple[str, int, str]],
    ) -> None:
        category = warning_message.category
        what = (category.__module__, category.__qualname__, str(warning_message.message))
        where = (warning_message.filename, warning_message.lineno, warning_message.line)
        self.events.append(("warning", what, where, when, nodeid, location))


class Worker:
    """A pytest session that stands behind its collection."""

    def __init__(self, setup: dict[str, Any], only: Optional[list[str]] = None) -> None:
        """Starts pytest as `setup` says and collects, everything or `only` the files of the tests with these ids."""
        self.events: list[Event] = []
        self.order: dict[str, Any] = {}
        # The frame of a run that has no results descriptor.
        self.answer = b""
        # What is around the loop over tests, in an image.
        self.loop: Optional[Loop] = None
        # What `re` has compiled before a test.
        self.compiled: frozenset[Any] = frozenset()
        sys.path[:] = setup["search_path"]
        sys.argv[:] = setup["argv"]
        # By these words pytest knows a module whose assertions it does not rewrite: it would warn that it comes too late.
        regrow.__doc__ = f"{regrow.__doc__}\nPYTEST_DONT_REWRITE"
        # The session has begun the log file; each process adds to it.
        self.config = _prepareconfig([*setup["args"], "-o", "log_file_mode=a"], setup["plugins"])
        for name, value in {**setup["options"], **OWN_OPTIONS}.items():
            setattr(self.config.option, name, value)
        self.config.workerinput = setup["workerinput"]  # type: ignore[attr-defined]
        self._configure()
        self._silence(setup["width"])
        self._share_base_directory(setup["basetemp"])
        self.session = Session.from_config(self.config)
        self.config.hook.pytest_sessionstart(session=self.session)
        if only is not None:
            files = dict.fromkeys(nodeid.split("::")[0] for nodeid in only)
            self.config.args = [os.path.join(self.config.rootpath, file) for file in files]
            self.config.option.pyargs = False
        self.config.hook.pytest_collection(session=self.session)
        self.items = {item.nodeid: item for item in self.session.items}
        self.capturing = Capturing(self.config.pluginmanager.getplugin("capturemanager"))
        self.recorder = RunRecorder(self)
        self.config.pluginmanager.register(self.recorder, "regrow-recorder")

    def _configure(self) -> None:
        """Has the plugins configured. The log file, which each test may add to, is opened at the first record alone."""
        option = self.config.option
        path = getattr(option, "log_file", None) or self.config.getini("log_file") if hasattr(option, "log_file") else None
        if path:
            option.log_file = os.devnull
        self.config._do_configure()
        handler = self._log_handler()
        if path and handler is not None:
            option.log_file = path
            handler.close()
            handler.baseFilename = os.path.abspath(path)

    def _log_handler(self) -> Any:
        """What writes to the log file, if pytest's own logging is there."""
        return getattr(self.config.pluginmanager.getplugin("logging-plugin"), "log_file_handler", None)

    def _silence(self, width: int) -> None:
        """Takes the terminal reporter's hooks away, and leads to the events what others let it write."""
        manager = self.config.pluginmanager
        reporter = manager.getplugin("terminalreporter")
        if reporter is None:
            return
        manager.unregister(reporter)
        manager.register(SilentReporter(reporter), "terminalreporter")
        reporter._tw._file = Sink(self.events)
        reporter._tw.fullwidth = width

    def _share_base_directory(self, directory: Optional[str]) -> None:
        """Makes `tmp_path` of all processes a directory in that of the session."""
        factory = getattr(self.config, "_tmp_path_factory", None)
        if factory is not None and directory is not None:
            factory._basetemp = self.config.rootpath.__class__(directory)

    def park(self) -> None:
        """Closes what may not be open at the stop: `wake` opens it again."""
        manager = self.config.pluginmanager
        self.capturing.park()
        if (faults := manager.getplugin("faulthandler")) is not None:
            faults.pytest_unconfigure(self.config)
        if (handler := self._log_handler()) is not None:
            # A handler without a stream opens its file at the first record.
            handler.close()

    def wake(self) -> None:
        """Puts back what `park` has taken away, in the process of a run."""
        manager = self.config.pluginmanager
        if (faults := manager.getplugin("faulthandler")) is not None:
            faults.pytest_configure(self.config)
        self.capturing.wake()

    def run(self, order: dict[str, Any]) -> None:
        """Runs the tests that the order names, and sends a frame for each."""
        self.order = order
        self.answer = b""
        for name in ("results", "gate"):
            if order[name] is not None:
                os.set_inheritable(order[name], False)
        if (number := order["input"]) is not None:
            take_input(number)
        self.events.clear()
        slot = order["slot"] if order["gate"] is None else wait_at(order["gate"])
        if slot is None:
            os._exit(1)
        self.config.workerinput["workerid"] = f"gw{slot}"  # type: ignore[attr-defined]
        if order["tell_ready"]:
            self._send(READY, [])
        if self.loop is not None and self.loop.is_begun:
            self.run_tests()
            self.loop.end()
        else:
            self.config.hook.pytest_runtestloop(session=self.session)
        self.capturing.restore()

    def run_tests(self) -> None:
        """The loop over the order's tests; fixtures of a wider scope live as long as their tests follow each other."""
        ids = self.order["tests"]
        here = [(index, self.items[nodeid]) for index, nodeid in enumerate(ids) if nodeid in self.items]
        for index in sorted(set(range(len(ids))).difference(index for index, _ in here)):
            self._send(index, [("missing",)])
        self.run_in_turn(here, self.config.hook)

    def run_in_turn(self, tests: list[tuple[int, pytest.Item]], hook: Any) -> None:
        """Runs tests, and sends a frame for each with its index in the order."""
        before = Leavings(self._log_files())
        for place, (index, item) in enumerate(tests):
            following = tests[place + 1][1] if place + 1 < len(tests) else None
            go_on = self._run_test(item, following, hook)
            if following is None:
                self._tell_of_process(before, len(tests))
            self._send(index, self.events)
            self.events.clear()
            if not go_on:
                break

    def _log_files(self) -> set[str]:
        """The files that pytest's own logging may open at any time."""
        handler = self._log_handler()
        return {handler.baseFilename} if handler is not None else set()

    def _tell_of_process(self, before: Leavings, tests: int) -> None:
        """Adds to the events of a process's last test what the process has compiled, and what its tests have left behind."""
        if new := patterns.compiled_since(self.compiled):
            self.events.append(("patterns", new))
        outcomes = [event[1].get("outcome") for event in self.events if event[0] in ("report", "plain")]
        if "failed" not in outcomes and (left := before.found()):
            self.events.append(("left", tests, left))

    def _run_test(self, item: pytest.Item, following: Optional[pytest.Item], hook: Any) -> bool:
        """Runs one test. What ends a whole session is an event as well; then no further test is run."""
        try:
            hook.pytest_runtest_protocol(item=item, nextitem=following)
        except KeyboardInterrupt:
            self.events.append(("interrupt",))
            return False
        except pytest.exit.Exception as leave:
            self.events.append(("exit", str(leave.msg), leave.returncode))
            return False
        except BaseException:
            self.events.append(("internal", traceback.format_exc()))
            return False
        if self.session.shouldfail or self.session.shouldstop:
            self.events.append(("stop", self.session.shouldfail, self.session.shouldstop))
        return True

    def _send(self, index: int, events: list[Event]) -> None:
        """Writes a frame, or keeps it for the answer; what cannot be pickled is said instead."""
        try:
            body = pickle.dumps((index, events), pickle.HIGHEST_PROTOCOL)
        except Exception as why:
            text = f"the report of this test cannot be sent: {type(why).__name__}: {why}"
            body = pickle.dumps((index, [("internal", text)]), pickle.HIGHEST_PROTOCOL)
        if self.order["results"] is None:
            self.answer = body
            return
        rest = memoryview(FRAME_HEAD.pack(len(body)) + body)
        while rest:
            rest = rest[os.write(self.order["results"], rest) :]


def take_input(number: int) -> None:
    """Makes a descriptor the standard input. What is read ahead would be lost for the next process: nothing is."""
    if number != 0:
        os.dup2(number, 0)
        os.close(number)
    if sys.__stdin__ is not None:
        sys.__stdin__._CHUNK_SIZE = 1  # type: ignore[attr-defined]


_setup: dict[str, Any] = {}
_prepared: Optional[Worker] = None


def prepare(data: bytes) -> Optional[answers.Runner]:
    """Prepares a warm image: called by the front end before it stops. Returns what carries out the orders of most runs."""
    global _prepared
    pytest_capture.TemporaryFile = memory_file  # type: ignore[assignment,attr-defined]
    _setup.update(json.loads(data))
    _prepared = Worker(_setup)
    _prepared.park()
    cache = getattr(_prepared.config, "cache", None)
    if cache is not None:
        patterns.compile_ahead(cache.get(patterns.KEY, None))
    practise(_prepared, _prepared.recorder)
    _prepared.loop = Loop(_prepared, _prepared.recorder)
    _prepared.compiled = frozenset(patterns.cached())
    return answers.prepare()


def run_tests(order: dict[str, Any]) -> bytes:
    """Runs the tests of an order, as the call of a run; returns what is its answer."""
    if _prepared is None:
        worker = Worker(_setup, only=order["tests"])
    else:
        worker = _prepared
        worker.wake()
    own = os.getpid()
    worker.run(order)
    if os.getpid() != own:
        # A copy that a test has made of its process, and that has come here: its parent answers.
        answers.answer_no_more()
    answers.answer_early(worker.answer)
    return worker.answer


def run_alone(descriptor: int) -> None:
    """Prepares for the tests of one order and runs them, in a process that was executed for that."""
    with open(descriptor, "rb") as file:
        setup, order = json.load(file)
    os.set_inheritable(order["results"], False)
    if (most := order["memory_bytes"]) is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    Worker(setup, only=order["tests"]).run(order)
