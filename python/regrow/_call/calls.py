"""Calls in processes of their own: the calls of one executor, and the thread that polls for them.

`regrow._core.Calls` starts and serves them, and says how. Here is what Python has to do for it: the starter is made and
prepared when the first call is submitted, the thread is begun, and the list of pools is told.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

from regrow import _core
from regrow._call import lives
from regrow._call.answer import Unclear
from regrow._call.future import Future
from regrow._call.order import Shared, place_of, prepare, shared_fds
from regrow._errors import BrokenProcess
from regrow._starter import Starter

#: What `_core.Calls.poll` says is to be done next.
_TELL = 1
_OVER = 2

#: How long the polling thread does nothing after something has raised in it, in seconds.
_PAUSE = 0.01

#: How long a thread may take to begin, in seconds.
_BEGINS_WITHIN = 1.0


def begins(thread: threading.Thread) -> bool:
    """Whether a thread begins within a second."""
    until = time.monotonic() + _BEGINS_WITHIN
    while not thread.is_alive() and time.monotonic() < until:
        time.sleep(0.001)
    return thread.is_alive()


class Calls:
    """The calls of one executor."""

    def __init__(
        self,
        name: str,
        make_starter: Callable[[], Starter],
        slots: int,
        timeout: Optional[float],
        memory_limit: Optional[int],
    ) -> None:
        #: What it is called in the list of pools.
        self._name = name
        self._failed = 0
        self._make_starter = make_starter
        #: Made for the first call, and not before: an executor may be made while the main module is still imported.
        self._starter: Optional[Starter] = None
        self._slots = slots
        self._timeout = timeout
        # No process can have more than a descriptor of 64 bits counts.
        self._memory_limit = None if memory_limit is None else min(memory_limit, 2**64 - 1)
        self._closed = False
        self.leave_to_parent()
        lives.every.add(self)

    def leave_to_parent(self) -> None:
        """Forgets all calls: the executor is new, or a forked copy of one whose calls are the original's."""
        #: Changes when the process is a forked copy, in which no call of the original's can be served.
        self.family = object()
        self.lock = threading.RLock()
        self.core = _core.Calls(self._slots, self._timeout, self._memory_limit)
        #: What the calls of that are started from.
        self._from: Optional[Starter] = None
        #: The polling thread, also when it has ended.
        self._thread: Optional[threading.Thread] = None
        if self._closed:
            self.core.close()

    # Submitting.

    def submit(self, function: Any, order: bytes, shared: Sequence[Shared] = ()) -> Future[Any]:
        """Starts a call, or has it wait for a slot."""
        if self._from is None or not self._from.is_prepared():
            self._prepare()
        future: Future[Any] = Future(self)
        self.core.submit(future, getattr(sys, "argv", []), order, place_of(function), shared_fds(shared), shared or None)
        return future

    def _prepare(self) -> None:
        """Has the image made that calls are started from."""
        with self.lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            starter = self._starter = self._starter or self._make_starter()
        if not starter.is_prepared():
            prepare(starter)
            self._tell()
        self.core.start_from(starter.pool, starter.image)
        self._from = starter

    # Changing.

    @property
    def is_closed(self) -> bool:
        """Whether no further calls are taken."""
        return self._closed

    def resize(self, slots: int) -> None:
        """Has another number of calls run at a time. Calls that run go on."""
        self._slots = slots
        self._tell()
        self.core.resize(slots)

    def renew_starter(self) -> None:
        """Has the next calls come from an image that is made anew."""
        starter = self._make_starter()
        with self.lock:
            self._starter = starter
            self._from = None

    def note_failure(self) -> None:
        """Counts a call that has failed."""
        self._failed += 1
        self._tell()

    def _tell(self) -> None:
        """Brings the list of pools up to date."""
        starter = self._starter
        if starter is not None and not self._closed:
            starter.tell(self._name, self._slots, self.core.count_waiting(), self._failed)

    # Serving.

    def serve(self, future: Future[Any], until: Optional[float]) -> None:
        """Serves the call of a future until its end or that time, unless another thread does so."""
        if future.family is not self.family:
            raise BrokenProcess("the call belongs to the process that this one was forked from")
        if future.call is None:
            return
        try:
            self.core.serve(future, future.call, None if until is None else until - time.monotonic())
        except Unclear as unclear:
            error = unclear.error
        else:
            return
        self._clear_up(future, error, until)

    def _clear_up(self, future: Future[Any], error: BaseException, until: Optional[float]) -> None:
        """Raises what was raised while an answer was loaded, unless it is the answer's: the polling thread meets that too."""
        left = None if until is None else max(0.0, until - time.monotonic())
        with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            concurrent.futures.Future.exception(future, left)
        if future.refusal is None:
            raise error

    def ensure_thread(self) -> None:
        """Has the polling thread begin, unless it has."""
        with self.lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=_poll, args=(self, self.core), name="regrow-calls", daemon=True)
            try:
                self._thread.start()
            except BaseException as error:
                # A signal handler may have raised before the thread was started, or after.
                if isinstance(error, RuntimeError) or not begins(self._thread):
                    self._thread = None
                raise

    # Ending.

    def cancel(self, future: Future[Any]) -> bool:
        """Cancels a call."""
        if future.call is None or future.family is not self.family:
            return future.cancel_pending()
        return self.core.cancel(future.call) or future.cancel_running()

    def end_running(self, number: int) -> None:
        """Sends a signal to the processes of all calls. Those that are being started are killed."""
        self.core.end_running(number)

    def close(self, wait: bool = False, cancel_waiting: bool = False) -> None:
        """Takes no further calls. With `wait`, returns when all calls are over and the polling thread has ended."""
        self._closed = True
        if self.core.close():
            self.ensure_thread()
        if cancel_waiting:
            for future in self.core.waiting():
                future.cancel()
        if self._starter is not None:
            self._starter.tell_no_more()
        if wait:
            if self.core.is_served_here():
                # A callback of a future's: the call is over when the callback has returned. `threading` says the same.
                raise RuntimeError("cannot join current thread")
            thread = self._thread
            if thread is not None:
                thread.join()


def _poll(calls: Calls, core: _core.Calls) -> None:
    """The polling thread. It goes on whatever a callback of a future's raises."""
    while True:
        try:
            done = core.poll()
            if done == _TELL:
                calls._tell()
        except BaseException:
            # The program's own hook may raise as well.
            with contextlib.suppress(BaseException):
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            # What has raised may do so again at once.
            time.sleep(_PAUSE)
            continue
        if done == _OVER:
            return
