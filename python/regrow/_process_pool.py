"""What stands in the place of `concurrent.futures.ProcessPoolExecutor`: its arguments, and a fresh process for each call.

    initializer with arguments that can be pickled at any time    called once, in the image; every call finds its memory
    with locks, queues or pipes of `multiprocessing`              called in the process of each call, ahead of the function
    leaves a thread, a descriptor or a clean-up behind            no image is kept: called in the process of each call

The last of these is found out where the image is made; see `regrow._call.worker`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing import context
from typing import Any, Optional

from regrow._call.order import Shared, order_with_buffers
from regrow._call.prologue import Prologue
from regrow._executor import Executor
from regrow._spawning import dumps, is_for_spawning, pickle_for_spawning
from regrow._starter import Reuse, Starter, worker_starter


class Initializer:
    """An initializer, and where it is called: in the image, or in the process of each call. It is pickled when that is
    asked."""

    def __init__(self, function: Optional[Callable[..., object]], args: Sequence[Any], dumps: Callable[[Any], bytes]) -> None:
        self._function = function
        self._args = tuple(args)
        self._dumps = dumps
        self._lock = threading.Lock()
        self._is_pickled = False
        self._in_image: Optional[bytes] = None
        self._in_call: Optional[bytes] = None
        self._shared: Sequence[Shared] = ()

    def in_image(self) -> Optional[bytes]:
        """The pickle of what the image calls."""
        self._pickle()
        return self._in_image

    def in_call(self) -> tuple[Optional[bytes], Sequence[Shared]]:
        """The pickle of what the process of each call calls, and what it shares with this process."""
        self._pickle()
        return self._in_call, self._shared

    def _pickle(self) -> None:
        with self._lock:
            if self._is_pickled or self._function is None:
                return
            value = self._function, self._args
            spawned = pickle_for_spawning(value, self._dumps)
            if is_for_spawning(value, spawned, self._dumps):
                self._in_call, self._shared = spawned
            else:
                self._in_image = spawned.data
            self._is_pickled = True


class ProcessPoolExecutor(Executor):
    """A `concurrent.futures.ProcessPoolExecutor` of which every call runs in a fresh process; see `Executor`.

    `mp_context` is a context of `multiprocessing` or None. The processes are Regrow's whatever it is. `max_tasks_per_child`
    may be any number from 1: no process has more than one task. `preload`, `timeout`, `memory_limit` and `reuse` are those
    of `Executor`.

    `initializer` is called once in the interpreter that the processes are made from, and every call finds what it did to the
    memory. It is called in the process of each call instead if `initargs` hold locks, queues or pipes of `multiprocessing`, or
    if it leaves a thread, an open descriptor or something that is cleaned up at the end of a process.

    A process that ends before its call returns is the error of that call alone: `BrokenProcess`, a `BrokenProcessPool`.
    """

    def __init__(
        self,
        max_workers: Optional[int] = None,
        mp_context: Optional[context.BaseContext] = None,
        initializer: Optional[Callable[..., object]] = None,
        initargs: Sequence[Any] = (),
        *,
        max_tasks_per_child: Optional[int] = None,
        preload: Sequence[str] = (),
        timeout: Optional[float] = None,
        memory_limit: Optional[int] = None,
        reuse: Reuse = "always",
    ) -> None:
        if mp_context is not None and not isinstance(mp_context, context.BaseContext):
            raise TypeError("mp_context must be a context of multiprocessing")
        if max_tasks_per_child is not None:
            if not isinstance(max_tasks_per_child, int):
                raise TypeError("max_tasks_per_child must be an integer")
            if max_tasks_per_child < 1:
                raise ValueError("max_tasks_per_child must be >= 1")
        self._initializer = Initializer(initializer, initargs, self._dumps)
        # What makes the starter is given this in the place of the initializer's arguments.
        given = self._preparation()
        super().__init__(max_workers, preload, initializer, (given,), timeout, memory_limit, reuse)

    def terminate_workers(self) -> None:
        """Takes no further calls, cancels those that wait, and asks the processes of the others to end (`SIGTERM`)."""
        self._end_workers(signal.SIGTERM)

    def kill_workers(self) -> None:
        """Takes no further calls, cancels those that wait, and kills the processes of the others."""
        self._end_workers(signal.SIGKILL)

    def _end_workers(self, number: signal.Signals) -> None:
        self._calls.close(cancel_waiting=True)
        self._calls.end_running(number)

    #: What pickles the initializer and its arguments.
    _dumps = staticmethod(dumps)

    def _preparation(self) -> Any:
        """What the starter is made of."""
        return self._initializer

    @staticmethod
    def _make_starter(
        preload: Sequence[str], initializer: Optional[Callable[..., object]], initargs: tuple[Any, ...], reuse: Reuse
    ) -> Starter:
        (given,) = initargs
        return worker_starter(preload, given.in_image(), reuse)

    def _order_of(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, Sequence[Shared]]:
        initializer, shared = self._initializer.in_call()
        if initializer is None:
            return order_with_buffers(fn, args, kwargs, shared)
        return order_with_buffers(Prologue(initializer), (fn, args, kwargs), {}, shared)
