"""The calls of all executors of a process: at its end they are waited for, and a forked copy leaves them to its parent."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Calls(Protocol):
    """The calls of one executor."""

    def close(self, wait: bool = ..., cancel_waiting: bool = ...) -> None:
        """Takes no further calls; with `wait`, returns when all are over."""

    def leave_to_parent(self) -> None:
        """In a forked copy: forgets what is the original's."""


every: weakref.WeakSet[Calls] = weakref.WeakSet()


def _end_all() -> None:
    """At the end of the interpreter: all calls are waited for, as `concurrent.futures` does."""
    all_calls = list(every)
    for calls in all_calls:
        calls.close()
    for calls in all_calls:
        calls.close(wait=True)


def _leave_to_parent() -> None:
    for calls in list(every):
        calls.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
# Called before the interpreter waits for its threads, and before `atexit`.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]
