"""How the processes of tests are started: out of a warm image, or by exec.

A *starter* starts a process for an order, that is for some tests, and gives it the descriptors that the order names. The
starter of choice keeps an image in which pytest has collected already. The other one executes the interpreter, whose
pytest then collects the tests of its order: it is correct wherever pytest is, and takes as long as pytest takes to start.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Optional, Protocol

from regrow._pytest import answers
from regrow._pytest.worker import run_tests

if TYPE_CHECKING:
    import pytest

    from regrow import _core

# The descriptors that a process sends its reports to, where one that is executed finds its order, where
# a recycled one finds the standard input of the session, if that is for it, and where it waits for its turn.
RESULTS, ORDER, INPUT, GATE = 3, 4, 5, 6

# Bodies beside one for each process that runs or is ahead: they are put back meanwhile.
SPARE_BODIES = 6

ALONE = "import sys; sys.path[:] = {path!r}; from regrow._pytest.worker import run_alone; run_alone({order})"


class Process(Protocol):
    """A process that runs tests."""

    #: Why it was not recycled although it was to be.
    why_exec: Optional[str]

    def fileno(self) -> int:
        """A descriptor that is readable when the process has ended."""

    def kill(self) -> None:
        """Ends the process at once."""

    def wait(self) -> int:
        """Waits for its end, and gives the exit status, or the negative number of the signal that killed it."""

    def take_answer(self) -> Optional[bytes]:
        """The frame that a process which has ended has answered, if it was to answer; gives back what it has held."""


class Starter(Protocol):
    """What starts processes."""

    #: Whether a process can answer at its end, and wait for its turn.
    answers: bool

    def start(self, order: dict[str, Any], results: Optional[int], gate: Optional[int]) -> Process:
        """Starts a process for an order, with the descriptors that the reports of its tests go to and that it waits at."""


class Executed:
    """A process that was started by exec."""

    why_exec: Optional[str] = None

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._descriptor = os.pidfd_open(pid)

    def fileno(self) -> int:
        return self._descriptor

    def kill(self) -> None:
        signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(status)

    def take_answer(self) -> Optional[bytes]:
        return None


class Executing:
    """Starts the interpreter for each order."""

    answers = False

    def __init__(self, setup: dict[str, Any]) -> None:
        self._setup = setup
        code = ALONE.format(path=setup["search_path"], order=ORDER)
        self._command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", code]  # type: ignore[attr-defined]

    def start(self, order: dict[str, Any], results: Optional[int], gate: Optional[int]) -> Process:
        assert results is not None
        memory = os.memfd_create("order")
        try:
            with open(memory, "w", closefd=False) as file:
                # Its standard input is there already.
                json.dump([self._setup, {**order, "input": None if order["input"] is None else 0}], file)
            os.lseek(memory, 0, os.SEEK_SET)
            return Executed(self._spawn(memory, results, order["input"] is not None))
        finally:
            os.close(memory)

    def _spawn(self, order: int, results: int, takes_input: bool) -> int:
        # The descriptors may be in each other's place: they are led past both.
        free = max(results, order, ORDER) + 1
        moves = [(results, free), (order, free + 1), (free, RESULTS), (free + 1, ORDER)]
        actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in moves]
        actions += [(os.POSIX_SPAWN_CLOSE, free), (os.POSIX_SPAWN_CLOSE, free + 1)]
        if not takes_input:
            actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        return os.posix_spawn(
            self._command[0],
            self._command,
            os.environ,
            file_actions=actions,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )


class Recycled:
    """A process out of a warm image, or one that the engine had to execute instead."""

    def __init__(self, process: _core.Process) -> None:
        self._process = process
        creation = process.creation
        self.why_exec: Optional[str] = None if creation.endswith("at warm") else creation

    def fileno(self) -> int:
        return self._process.pidfd()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        self._process.wait()
        status = self._process.returncode
        return 0 if status is None else status

    def take_answer(self) -> Optional[bytes]:
        answer = answers.frame_in(self._process.answer())
        self._process.close()
        return answer


class Recycling:
    """Keeps an image in which pytest has collected, and starts the processes out of it."""

    answers = True

    def __init__(self, setup: dict[str, Any], processes: int, ahead: int) -> None:
        self._argv: list[str] = setup["argv"]
        self._why: Optional[str] = None
        try:
            from regrow import _core
        except ImportError as why:
            self._why = f"the extension regrow._core cannot be loaded: {why}"
            return
        data = base64.b64encode(json.dumps(setup).encode()).decode()
        words = ["--setup", f"regrow._pytest.worker:prepare:{data}"]
        for directory in filter(os.path.isabs, setup["search_path"]):
            words += ["--path", directory]
        options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        # Tests may read any variable, and are named by paths that are relative to where pytest was started.
        self._image = _core.Image(sys.executable, options, words, variables=["*"], directory=os.getcwd(), unfollowed=True)
        # Both would be among the variables of every test, although pytest itself does not see them.
        answers.unset_sizes()
        # A test can do what it likes to pytest itself: to distrust its memory would take most of the time of a reset.
        self._pool = _core.Pool(processes + ahead + SPARE_BODIES, warm_only=True, trusts_runs=True)
        self._pool.set_user(0, "pytest", "", processes)
        self._maker = threading.Thread(target=self._make, name="regrow-image", daemon=True)
        self._maker.start()

    def _make(self) -> None:
        """Makes the image."""
        try:
            point, why = self._pool.prepare(self._image, self._argv, call=b"")
        except OSError as error:
            point, why = None, str(error)
        if point != "warm":
            self._why = why or f"an image of pytest can be made at the point {point} only"

    def why_not(self) -> Optional[str]:
        """Why no process is going to be recycled; None if they are. Waits for the image."""
        if self._why is None:
            self._maker.join()
        return self._why

    def start(self, order: dict[str, Any], results: Optional[int], gate: Optional[int]) -> Process:
        fds = [(mine, theirs) for mine, theirs in ((results, RESULTS), (gate, GATE)) if mine is not None]
        if order["input"] is not None:
            fds.append((order["input"], INPUT))
            order = {**order, "input": INPUT}
        started = self._pool.start(
            self._image,
            self._argv,
            call=answers.order_of(run_tests, order),
            answer=answers.ANSWER_FD,
            fds=fds,
            memory_limit=order["memory_bytes"],
        )
        return Recycled(started)


def setup_for(config: pytest.Config, search_path: list[str]) -> dict[str, Any]:
    """What a worker needs to start the same pytest, with a search path: plain data, which JSON can carry."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    options = {name: value for name, value in vars(config.option).items() if is_plain(value)}
    # A worker has no terminal: whether there are colours, and how wide lines are, is what it would see in one.
    options["color"] = "yes" if reporter is not None and reporter._tw.hasmarkup else "no"
    factory = getattr(config, "_tmp_path_factory", None)
    parameters = config.invocation_params
    return {
        "args": [str(word) for word in parameters.args],
        "plugins": [name for name in parameters.plugins or () if isinstance(name, str)],
        "argv": sys.argv,
        "search_path": search_path,
        "options": options,
        "width": reporter._tw.fullwidth if reporter is not None else 80,
        "basetemp": str(factory.getbasetemp()) if factory is not None else None,
        "workerinput": worker_input(config),
    }


def is_plain(value: object) -> bool:
    """Whether JSON gives the value back as it is."""
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(kept) for key, kept in value.items())
    return value is None or type(value) in (str, int, float, bool)


class Node:
    """What plugins are given to hand on their own state to a worker, by the hook that pytest-xdist has brought in."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.workerinput: dict[str, Any] = {
            "workerid": "gw0",
            "workercount": config.option.regrow_processes,
            "mainargv": sys.argv,
        }


def worker_input(config: pytest.Config) -> dict[str, Any]:
    """What `config.workerinput` is in a worker: by it plugins know that they are in one."""
    node = Node(config)
    if (hook := getattr(config.hook, "pytest_configure_node", None)) is not None:
        hook(node=node)
    return {name: value for name, value in node.workerinput.items() if is_plain(value)}
