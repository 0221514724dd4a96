"""The future of a call that runs in a process of its own.

A thread that asks a future for its result serves the call itself. `regrow._core.Calls` sets what it needs of a future: `call`
when the call is submitted, `_state` when it begins, `_result` when it is over and nobody has looked at the future yet.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import operator
import threading
import time
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from regrow import _core

if TYPE_CHECKING:
    from regrow._call.calls import Calls

T = TypeVar("T")

#: The states of a future whose call is not over.
_LASTING = ("PENDING", "RUNNING")


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

    def __init__(self, calls: Calls) -> None:
        # Not by the standard library's `__init__`: it makes a condition, which most futures never need.
        self._state = "PENDING"
        self._result: Any = None
        self._exception: Optional[BaseException] = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        #: The condition, once anybody has looked at the future.
        self._own_condition: Optional[_Condition] = None
        #: The call, once it is submitted.
        self.call: Optional[_core.Call] = None
        self._calls = calls
        self.family = calls.family
        #: What loading the answer raised that asks for the end of the program.
        self.refusal: Optional[BaseException] = None

    @property
    def creation(self) -> Optional[str]:
        """How the process of the call was made, in words; None while it has none."""
        return None if self.call is None else self.call.creation

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        """What whoever looks at a future takes first, `concurrent.futures.wait` for example: the call is attended then."""
        condition = self._own_condition
        if condition is None:
            with self._calls.lock:
                condition = self._own_condition = self._own_condition or _Condition()
        if self.call is not None and self._state in _LASTING and self.family is self._calls.family:
            self._calls.core.attend(self, self.call)
        return condition

    def result(self, timeout: Optional[float] = None) -> T:
        """The value of the call, or the exception that it raised; see `concurrent.futures.Future.result`."""
        left = self._served(timeout)
        if self._state == "FINISHED" and self._exception is None:
            return self._result  # type: ignore[no-any-return]
        return super().result(left)

    def set_outcome(self, value: Any, error: Optional[BaseException]) -> None:
        """Sets what has become of the call, unless it was cancelled."""
        if error is not None:
            self._calls.note_failure()
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

    def begin(self) -> None:
        """Notes that the call is no longer to wait."""
        with self._condition:
            if self._state == "PENDING":
                self._state = "RUNNING"

    def become_cancelled(self) -> None:
        """Notes that the call was cancelled before it had a process, and tells whoever waits for it."""
        self.cancel_pending()
        if self._state == "CANCELLED":
            self.set_running_or_notify_cancel()

    def cancel_pending(self) -> bool:
        """Cancels a call that has not begun, as far as the future is concerned."""
        return super().cancel()

    def cancel_running(self) -> bool:
        """Cancels a call that has begun, and kills its process."""
        with self._condition:
            if self.is_over():
                return self.was_cancelled()
            self._state = "CANCELLED_AND_NOTIFIED"
            for waiter in self._waiters:
                waiter.add_cancelled(self)
            self._condition.notify_all()
        # A callback may wait for the end of the process.
        assert self.call is not None
        self._calls.core.kill(self.call)
        self._invoke_callbacks()  # type: ignore[attr-defined]
        return True
