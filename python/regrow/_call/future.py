"""The future of a call that runs in a process of its own, and the call once it has that process.

A thread that asks a future for its result serves the call itself; see `regrow._call.calls`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import operator
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from regrow import _core
from regrow._call.order import Shared

if TYPE_CHECKING:
    from regrow._call.calls import Calls

T = TypeVar("T")

#: The states of a future whose call is not over.
_LASTING = ("PENDING", "RUNNING")

#: How often a call is looked at of which nothing is heard, in seconds.
LOOK = 1.0


class _Condition(threading.Condition):
    """A condition of which `with` takes and gives back the lock itself, without a step in Python.

    In one of `threading` a signal handler can raise between the lock and the block that gives it back: it is locked for good.
    """

    __enter__ = property(operator.attrgetter("_lock.__enter__"))
    __exit__ = property(operator.attrgetter("_lock.__exit__"))


class Future(concurrent.futures.Future[T]):
    """The result of a call that runs in a process of its own.

    Unlike other futures it can be cancelled while the call runs: its process is killed. `creation` says in words how the
    process was made: `recycled at warm`, for example.
    """

    def __init__(self, calls: Calls, order: bytes, place: str, shared: Sequence[Shared] = ()) -> None:
        # Not by the standard library's `__init__`: it makes a condition, which most futures never need.
        self._state = "PENDING"
        self._result: Any = None
        self._exception: Optional[BaseException] = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        #: The condition, once anybody has looked at the future.
        self._own_condition: Optional[_Condition] = None
        #: The call, once it has a process.
        self.call: Optional[Running] = None
        self._calls = calls
        self.family = calls.family
        #: What the process is told, until it is.
        self.order = order
        #: What the process has copies of the descriptors of, until it has them.
        self.shared = shared
        #: Where the call is asked for; see `regrow._call.order.place_of`.
        self.place = place
        #: Whether the call may have begun, or never will: it is not to be begun again.
        self.is_given = False
        #: How the process of the call was made, in words; None while it has none.
        self.creation: Optional[str] = None
        #: Whether the call was cancelled while it was being started.
        self.is_doomed = False

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        """What whoever looks at a future takes first, `concurrent.futures.wait` for example: the call is attended then."""
        condition = self._own_condition
        if condition is None:
            with self._calls.lock:
                condition = self._own_condition = self._own_condition or _Condition()
        running = self.call
        if running is not None and not (running.is_watched or running.claimed):
            self._calls.attend(running)
        return condition

    def result(self, timeout: Optional[float] = None) -> T:
        """The value of the call, or the exception that it raised; see `concurrent.futures.Future.result`."""
        left = self._served(timeout)
        if self._state == "FINISHED" and self._exception is None:
            return self._result  # type: ignore[no-any-return]
        return super().result(left)

    def set_outcome(self, value: Any, error: Optional[BaseException]) -> None:
        """Sets what has become of the call, unless it was cancelled."""
        with self._calls.lock:
            if self._own_condition is None and self._state == "RUNNING":
                # Nobody has looked at it: there is nobody to tell.
                self._result = value
                self._exception = error
                self._state = "FINISHED"
                return
        # It may be cancelled in this moment.
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)

    def is_over(self) -> bool:
        """Whether it is known what has become of the call. To ask so is not to look at it."""
        return self._state not in _LASTING

    def has_failed(self) -> bool:
        """Whether the call has raised an exception. To ask so is not to look at it."""
        return self._exception is not None

    def was_cancelled(self) -> bool:
        """Whether the call was cancelled. To ask so is not to look at it."""
        return self._state.startswith("CANCELLED")

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """The exception that the call raised; see `concurrent.futures.Future.exception`."""
        return super().exception(self._served(timeout))

    def cancel(self) -> bool:
        """Cancels the call, and kills its process if it runs. False when the call is over."""
        return self._calls.cancel(self)

    def _served(self, timeout: Optional[float]) -> Optional[float]:
        """Serves the call, if nobody does; what of the timeout is left then."""
        if self.is_over():
            return timeout
        if timeout is None:
            self._calls.serve(self, None)
            return None
        until = time.monotonic() + timeout
        self._calls.serve(self, until)
        return max(0.0, until - time.monotonic())

    def begins(self) -> bool:
        """Notes that the call is no longer to wait. False when it was cancelled."""
        with self._calls.lock:
            if self._own_condition is None:
                # Nobody has cancelled it, or looks at it.
                self._state = "RUNNING"
                return True
        return self._state == "RUNNING" or (self._state != "CANCELLED_AND_NOTIFIED" and self.set_running_or_notify_cancel())

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
        # A callback may wait for the end of the process.
        self._calls.kill(self)
        self._invoke_callbacks()  # type: ignore[attr-defined]
        return True


class Running:
    """A call whose process has been started and not been seen to end."""

    __slots__ = (
        "claimed",
        "deadline",
        "due",
        "finisher",
        "future",
        "has_ended",
        "is_late",
        "is_watched",
        "process",
        "refusal",
        "watched",
    )

    def __init__(self, future: Future[Any], process: _core.Process, deadline: Optional[float]) -> None:
        self.future = future
        self.process = process
        self.deadline = deadline
        #: The descriptor that the poller knows it by; -1 before it does.
        self.watched = -1
        #: When it is looked at although nothing is heard of it.
        self.due = 0.0
        #: Whether the poller waits for it.
        self.is_watched = False
        self.claimed = False
        #: Whether it has left its slot, as its process has ended.
        self.has_ended = False
        self.is_late = False
        #: The thread that sets the future and calls its callbacks; 0 while there is none.
        self.finisher = 0
        #: What loading the answer raised that asks for the end of the program.
        self.refusal: Optional[BaseException] = None

    def next_look(self, now: float) -> float:
        """When the call is looked at although nothing is heard of it."""
        return now + LOOK if self.deadline is None else min(now + LOOK, self.deadline)
