"""Calls in processes of their own: how they are started, served, and ended.

    submit ──slot free──> start ──> running ──end seen──> finish: the future is set, the slot goes to the next call
           ──no slot────> waiting ───────────────────────────┘

A running call is served by one thread at a time. A thread that asks a future for its result serves that call itself: it
reads the answer where it waits for it, and no other thread has to wake. All other calls are served by one thread of their
executor, which polls for them, and kills those whose time is over.

Invariants: a call has a slot from its start to its end; whoever sets `claimed` under the lock is the one that touches the
process until he clears it; what a claimed call is watched by is not in the poller, unless the claimer is the polling thread.

A signal handler of the main thread may raise between any two steps of it, which are the interpreter's: after a call, at the
head of a function, at a jump back. What belongs together here is therefore written as stores and deletions that follow each
other without such a place, and not as calls of methods; what is left undone is found by the polling thread, which no handler
runs in.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import operator
import os
import pickle
import select
import sys
import threading
import time
import weakref
from collections import deque
from multiprocessing import process as mp_process
from typing import Any, Optional, TypeVar

from regrow import _core
from regrow._errors import BrokenProcess, RemoteError, RemoteTraceback, how_it_ended
from regrow._starter import Starter
from regrow._worker import ANSWER_FD, ORDER_FD, UNPREPARED, VALUE

T = TypeVar("T")

#: How often a call is looked at of which nothing is heard, in seconds.
_LOOK = 1.0
#: The longest order of which the bytes are part of the start; a longer one is in a file.
_LONGEST_ORDER = 32 * 1024
_HEAD = 9
_FUNCTION = b"regrow._worker:call\n"

#: Those whose thread runs: they are waited for at the end of the interpreter.
_active: set[Calls] = set()
_all: weakref.WeakSet[Calls] = weakref.WeakSet()


class _Condition(threading.Condition):
    """A condition of which `with` takes and gives back the lock itself, without a step in Python.

    In one of `threading` a signal handler can raise between the lock and the block that gives it back: it is locked for good.
    """

    __enter__ = property(operator.attrgetter("_lock.__enter__"))
    __exit__ = property(operator.attrgetter("_lock.__exit__"))


class Future(concurrent.futures.Future[T]):
    """The result of a call that runs in a process of its own.

    Unlike other futures it can be cancelled while the call runs: its process is killed.
    """

    def __init__(self, calls: Calls, order: bytes) -> None:
        super().__init__()
        self._condition = _Condition()
        self._calls = calls
        self.family = calls.family
        #: What the process is told, until it is.
        self.order = order
        #: Whether the call may have begun, or never will: it is not to be begun again.
        self.is_given = False
        #: The call, once it has a process.
        self.call: Optional[Running] = None
        #: Whether the call was cancelled while it was being started.
        self.is_doomed = False

    def result(self, timeout: Optional[float] = None) -> T:
        """The value of the call, or the exception that it raised; see `concurrent.futures.Future.result`."""
        return super().result(self._served(timeout))

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """The exception that the call raised; see `concurrent.futures.Future.exception`."""
        return super().exception(self._served(timeout))

    def cancel(self) -> bool:
        """Cancels the call, and kills its process if it runs. False when the call is over."""
        return self._calls.cancel(self)

    def _served(self, timeout: Optional[float]) -> Optional[float]:
        """Serves the call, if nobody does; what of the timeout is left then."""
        if self.done():
            return timeout
        if timeout is None:
            self._calls.serve(self, None)
            return None
        until = time.monotonic() + timeout
        self._calls.serve(self, until)
        return max(0.0, until - time.monotonic())

    def begins(self) -> bool:
        """Notes that the call is no longer to wait. False when it was cancelled."""
        return self._state != "CANCELLED_AND_NOTIFIED" and self.set_running_or_notify_cancel()

    def _cancel_waiting(self) -> bool:
        return super().cancel()

    def _cancel_running(self) -> bool:
        """Cancels a call that runs, as far as the future is concerned."""
        with self._condition:
            if self._state != "RUNNING":
                return self.cancelled()
            self._state = "CANCELLED_AND_NOTIFIED"
            for waiter in self._waiters:
                waiter.add_cancelled(self)
            self._condition.notify_all()
        self._invoke_callbacks()  # type: ignore[attr-defined]
        return True


class Running:
    """A call whose process has been started and not been seen to end."""

    __slots__ = ("claimed", "deadline", "due", "future", "is_late", "process", "watched")

    def __init__(self, future: Future[Any], process: _core.Process, deadline: Optional[float]) -> None:
        self.future = future
        self.process = process
        self.deadline = deadline
        #: The descriptor that the poller knows it by.
        self.watched = process.readable()[0]
        #: When it is looked at although nothing is heard of it.
        self.due = 0.0
        self.claimed = False
        self.is_late = False


class Calls:
    """The calls of one executor."""

    def __init__(self, starter: Starter, slots: int, timeout: Optional[float], memory_limit: Optional[int]) -> None:
        self._starter = starter
        self._slots = slots
        self._timeout = timeout
        self._memory_limit = memory_limit
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        #: Changes when the process is a forked copy, in which no call of the original's can be served.
        self.family = object()
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._waiting: deque[Future[Any]] = deque()
        self._running: dict[int, Running] = {}
        #: What has a slot and no process yet.
        self._starting: dict[Future[Any], None] = {}
        self._thread: Optional[threading.Thread] = None
        self._poller: Optional[select.epoll] = None
        self._wake_fds = (-1, -1)
        #: When the thread wakes although nothing happens; 0 while it is awake.
        self._wakes_at = 0.0
        self._was_used = False
        self._closed = False

    # Submitting and starting.

    def submit(self, order: bytes) -> Future[Any]:
        """Starts a call, or has it wait for a slot."""
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
        if not self._starter.is_prepared():
            self._starter.prepare(_words(), _FUNCTION)
        future: Future[Any] = Future(self, order)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._ensure_thread()
            self._waiting.append(future)
        self._start_waiting()
        return future

    def _start_waiting(self) -> None:
        """Gives free slots to calls that wait for one. Where a signal handler raises, each call has its slot or waits."""
        while True:
            future: Optional[Future[Any]] = None
            try:
                with self._lock:
                    if not self._waiting or len(self._starting) + len(self._running) >= self._slots:
                        return
                    future = self._waiting[0]
                    self._starting[future] = None
                    del self._waiting[0]
                self._start(future)
            finally:
                if future is not None and future in self._starting:
                    del self._starting[future]
                    if not future.is_given:
                        self._waiting.appendleft(future)
                    with self._lock:
                        self._idle.notify_all()

    def _start(self, future: Future[Any]) -> None:
        """Starts the process of a call that has a slot."""
        if not (future.running() or future.begins()):
            future.is_given = True
            return
        process = None
        try:
            future.is_given = True
            process = self._start_process(future.order)
            self._enter(future, process)
        except BaseException as error:
            if future.call is None:
                if process is not None:
                    process.kill()
                    process.wait(_LOOK)
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise

    def _enter(self, future: Future[Any], process: _core.Process) -> None:
        """Takes a call into the table of those that run."""
        future.order = b""
        now = time.monotonic()
        deadline = None if self._timeout is None else now + self._timeout
        running = Running(future, process, deadline)
        with self._lock:
            self._watch(running, now)
            self._running[running.watched] = running
            future.call = running
            del self._starting[future]
            is_doomed = future.is_doomed
        if is_doomed:
            process.kill()

    def _start_process(self, order: bytes) -> _core.Process:
        if len(order) <= _LONGEST_ORDER:
            return self._start_with(_FUNCTION + order, [])
        file = os.memfd_create("regrow-call", os.MFD_CLOEXEC)
        try:
            rest = memoryview(order)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.lseek(file, 0, os.SEEK_SET)
            return self._start_with(_FUNCTION, [(file, ORDER_FD)])
        finally:
            os.close(file)

    def _start_with(self, call: bytes, fds: list[tuple[int, int]]) -> _core.Process:
        return self._starter.start(_words(), call=call, outputs=[ANSWER_FD], fds=fds, memory_limit=self._memory_limit)

    # Serving.

    def serve(self, future: Future[Any], until: Optional[float]) -> None:
        """Serves the call of a future until its end or that time, unless another thread does so."""
        if future.family is not self.family:
            raise BrokenProcess("the call belongs to the process that this one was forked from")
        running = future.call
        if running is None:
            return
        is_mine = False
        try:
            with self._lock:
                if running.claimed or self._running.get(running.watched) is not running:
                    return
                running.claimed = is_mine = True
                self._unwatch(running)
            if self._await(running, until):
                self._finish(running)
                is_mine = False
        finally:
            # The time is over, or a signal handler has raised: the polling thread goes on with whatever is left.
            if is_mine:
                self._hand_over(running)

    def _await(self, running: Running, until: Optional[float]) -> bool:
        """Waits for the end of a claimed call. False when the time is over first."""
        deadline = running.deadline
        if deadline is None:
            return running.process.wait(None if until is None else until - time.monotonic())
        first = deadline if until is None else min(deadline, until)
        if running.process.wait(first - time.monotonic()):
            return True
        if time.monotonic() < deadline:
            return False
        self._kill_late(running)
        return running.process.wait(None if until is None else max(_LOOK, until - time.monotonic()))

    def _kill_late(self, running: Running) -> None:
        running.is_late = True
        running.process.kill()

    def _hand_over(self, running: Running) -> None:
        """Leaves what is left of a call that was claimed to the polling thread."""
        running.due = 0.0
        running.claimed = False
        with self._lock:
            self._wake()

    def _finish(self, running: Running) -> None:
        """Sets the future of a claimed call that has ended, and starts the next one. Each step may have been done before."""
        future = running.future
        if not future.done():
            self._settle(future, running)
        with self._lock:
            if self._running.get(running.watched) is running:
                del self._running[running.watched]
                self._idle.notify_all()
            has_waiting = bool(self._waiting)
        if has_waiting:
            self._start_waiting()

    def _settle(self, future: Future[Any], running: Running) -> None:
        """Sets the future of a call that has ended."""
        value, error = self._outcome(running)
        # It may be cancelled in this moment.
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def _outcome(self, running: Running) -> tuple[Any, Optional[BaseException]]:
        """What a call returned, or what it raised."""
        process = running.process
        if running.is_late:
            return None, TimeoutError(f"the call took longer than {self._timeout} s and was killed")
        answer = process.output(0)
        if len(answer) < _HEAD or len(answer) != _HEAD + int.from_bytes(answer[1:_HEAD], "little"):
            code = process.returncode
            return None, BrokenProcess(f"the process {how_it_ended(code)} before the call returned", code)
        kind, data = answer[:1], memoryview(answer)[_HEAD:]
        if kind == VALUE:
            try:
                return pickle.loads(data), None
            except Exception as error:
                return None, error
        raised = _exception(data)
        if kind == UNPREPARED:
            broken = BrokenProcess("the process of the call could not be prepared")
            broken.__cause__ = raised
            return None, broken
        return None, raised

    # Ending.

    def cancel(self, future: Future[Any]) -> bool:
        """Cancels a call."""
        if future._cancel_waiting():
            return True
        if future.family is not self.family:
            return False
        if not future._cancel_running():
            return False
        with self._lock:
            future.is_doomed = True
            running = future.call
        if running is not None:
            running.process.kill()
        return True

    def close(self, wait: bool = False, cancel_waiting: bool = False) -> None:
        """Takes no further calls. With `wait`, returns when all calls are over."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting) if cancel_waiting else []
            self._wake()
        for future in waiting:
            future.cancel()
        if wait:
            with self._lock:
                while self._thread is not None and self._is_busy():
                    # Whoever was to notify it may have been interrupted.
                    self._idle.wait(_LOOK)

    # Polling. What follows down to the loop is called with the lock held.

    def _ensure_thread(self) -> None:
        if self._thread is not None:
            return
        self._poller = select.epoll()
        self._wake_fds = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poller.register(self._wake_fds[0], select.EPOLLIN)
        self._thread = threading.Thread(target=self._poll, name="regrow-calls", daemon=True)
        _active.add(self)
        self._thread.start()

    def _watch(self, running: Running, now: float) -> None:
        assert self._poller is not None
        running.due = _due(running, now)
        # It is there already if a signal handler raised before it was taken out.
        with contextlib.suppress(FileExistsError):
            self._poller.register(running.watched, select.EPOLLIN)
        self._was_used = True
        if running.due < self._wakes_at:
            self._wake()

    def _unwatch(self, running: Running) -> None:
        assert self._poller is not None
        with contextlib.suppress(FileNotFoundError):
            self._poller.unregister(running.watched)

    def _wake(self) -> None:
        if self._thread is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_fds[1], b"\0")

    def _is_busy(self) -> bool:
        return bool(self._starting or self._running or self._waiting)

    def _next_look(self) -> float:
        """When the poll is to end, if nothing happens. It goes on for a while without a call, so that the next one need not
        wake the thread."""
        is_used = self._was_used or self._waiting or self._starting
        nothing = time.monotonic() + _LOOK if is_used else float("inf")
        self._was_used = False
        return min((running.due for running in self._running.values()), default=nothing)

    # The loop of the thread.

    def _poll(self) -> None:
        poller, wake_fd = self._poller, self._wake_fds[0]
        assert poller is not None
        while True:
            with self._lock:
                if self._closed and not self._is_busy():
                    self._end_thread()
                    return
                self._wakes_at = self._next_look()
            left = self._wakes_at - time.monotonic()
            events = poller.poll(None if left == float("inf") else max(0.0, left))
            self._wakes_at = 0.0
            for fd, _ in events:
                if fd == wake_fd:
                    os.read(wake_fd, 4096)
                else:
                    self._look_at(fd)
            self._look_at_due()
            self._start_waiting()

    def _end_thread(self) -> None:
        assert self._poller is not None
        self._poller.close()
        for fd in self._wake_fds:
            os.close(fd)
        self._thread = None
        _active.discard(self)
        self._idle.notify_all()

    def _look_at_due(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [fd for fd, running in self._running.items() if running.due <= now and not running.claimed]
            for running in self._running.values():
                if running.claimed and running.due <= now:
                    running.due = now + _LOOK
        for fd in due:
            self._look_at(fd)

    def _look_at(self, fd: int) -> None:
        """Serves a call without waiting."""
        with self._lock:
            running = self._running.get(fd)
            if running is None or running.claimed:
                return
            running.claimed = True
        over = running.process.wait(0)
        now = time.monotonic()
        if not over and running.deadline is not None and now >= running.deadline:
            self._kill_late(running)
            running.deadline = None
        with self._lock:
            if over:
                self._unwatch(running)
            else:
                running.claimed = False
                self._watch_again(running, now)
        if over:
            self._finish(running)

    def _watch_again(self, running: Running, now: float) -> None:
        """A call whose process has closed its output without ending is known by the process then."""
        if not running.process.readable():
            try:
                pidfd = running.process.pidfd()
            except OSError:
                # No descriptor is free for it: it is looked at from time to time.
                self._unwatch(running)
                running.due = _due(running, now)
                return
            if pidfd != running.watched:
                self._unwatch(running)
                del self._running[running.watched]
                running.watched = pidfd
                self._running[pidfd] = running
        self._watch(running, now)


def _due(running: Running, now: float) -> float:
    """When a call is looked at although nothing is heard of it."""
    return now + _LOOK if running.deadline is None else min(now + _LOOK, running.deadline)


def _words() -> list[str]:
    """What the process of a call has as `sys.argv`."""
    return list(getattr(sys, "argv", []))


def _exception(data: memoryview) -> BaseException:
    """The exception that an answer describes."""
    pickled, text, trace = pickle.loads(data)
    error: BaseException = RemoteError(text)
    if pickled is not None:
        try:
            loaded = pickle.loads(pickled)
        except Exception:
            pass
        else:
            if isinstance(loaded, BaseException):
                error = loaded
    error.__cause__ = RemoteTraceback(trace)
    return error


def order_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The order of a call; see `regrow._worker`."""
    key = bytes(mp_process.current_process().authkey)
    return len(key).to_bytes(2, "little") + key + pickle.dumps((function, args, kwargs), pickle.HIGHEST_PROTOCOL)


def _end_all() -> None:
    """At the end of the interpreter: all calls are waited for, as `concurrent.futures` does."""
    for calls in list(_active):
        calls.close()
    for calls in list(_active):
        calls.close(wait=True)


def _leave_to_parent() -> None:
    _active.clear()
    for calls in list(_all):
        calls._reset()


os.register_at_fork(after_in_child=_leave_to_parent)
# Called before the interpreter waits for its threads, and before `atexit`.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]
