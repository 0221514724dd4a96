"""An executor of which every call runs in a fresh process."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from regrow._call.calls import Calls
from regrow._call.future import Future
from regrow._call.order import Shared, order_with_buffers
from regrow._starter import Reuse, Starter, checked_preload, checked_reuse, worker_starter

if TYPE_CHECKING:
    from regrow._bar import Progress

T = TypeVar("T")


class Executor(concurrent.futures.Executor):
    """Runs each call in a process of its own, which nothing was run in before, and which ends with the call.

    `max_workers` processes run at a time, by default one for each processor. `preload` names modules that every process has
    imported when it starts. `initializer` is called with `initargs` once, in the interpreter that the processes are made
    from: what it does to the memory, every call finds. A call that takes longer than `timeout` seconds is killed, and its
    future raises `TimeoutError`. `memory_limit` is how many bytes of memory of its own that it can write to a process may
    have, with what was preloaded; beyond that Python raises `MemoryError`.

    Nothing is prepared before the first call is submitted: a module may make an executor while it is imported, the main
    module too, and a change of `sys.path` before that call counts.

    The memory of a process is put back when it has ended, and serves another call. With `reuse="never"` each process has a
    copy of the prepared interpreter alone, which is dropped with it: for calls that run code which you do not trust.

    A function, its arguments and its result are pickled, as with `concurrent.futures.ProcessPoolExecutor`. Arrays of numpy
    from 64 KiB on, and all else that gives pickles its buffers, are written once, to memory that the other side maps; whoever
    gets one may write to it, and nobody else sees that. A process that ends before its call returns is the error of that call
    alone, `BrokenProcess`.
    """

    def __init__(
        self,
        max_workers: Optional[int] = None,
        preload: Sequence[str] = (),
        initializer: Optional[Callable[..., object]] = None,
        initargs: Sequence[Any] = (),
        timeout: Optional[float] = None,
        memory_limit: Optional[int] = None,
        reuse: Reuse = "always",
    ) -> None:
        if max_workers is None:
            max_workers = os.cpu_count() or 1
        for name, value in (("max_workers", max_workers), ("timeout", timeout), ("memory_limit", memory_limit)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be callable")
        prepared = checked_preload(preload), initializer, tuple(initargs), checked_reuse(reuse)
        make_starter = functools.partial(self._make_starter, *prepared)
        self._calls = Calls(type(self).__name__, make_starter, max_workers, timeout, memory_limit)
        weakref.finalize(self, self._calls.close).atexit = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Starts `fn(*args, **kwargs)` in a process of its own, as soon as fewer than `max_workers` run."""
        try:
            order, shared = self._order_of(fn, args, kwargs)
        except Exception as error:
            failed: Future[T] = Future(self._calls)
            failed.set_exception(error)
            return failed
        return self._calls.submit(fn, order, shared)

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        chunksize: int = 1,
        progress: Progress = False,
        **more: Any,
    ) -> Iterator[T]:
        """The results of `fn` for the elements of `iterables`, in their order; see `concurrent.futures.Executor.map`.

        Each element has a process of its own, whatever `chunksize` says. With `progress` it is shown how many calls are over,
        how fast that goes and how many were recycled: by a bar in a notebook that has ipywidgets, else in text on standard
        error, which `"text"` asks for in any case."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if not progress:
            return super().map(fn, *iterables, timeout=timeout, chunksize=chunksize, **more)
        from regrow._bar import map_with_bar

        return map_with_bar(self.submit, progress, fn, iterables, {"timeout": timeout, "chunksize": chunksize, **more})

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no further calls; see `concurrent.futures.Executor.shutdown`.

        A callback of a future cannot wait for the end of the call that it belongs to: with `wait` that is a `RuntimeError`."""
        self._calls.close(wait, cancel_futures)

    # What other executors have otherwise.

    @staticmethod
    def _make_starter(
        preload: Sequence[str], initializer: Optional[Callable[..., object]], initargs: tuple[Any, ...], reuse: Reuse
    ) -> Starter:
        """What starts the processes. It is asked for when the first call is submitted."""
        pickled = None if initializer is None else pickle.dumps((initializer, initargs))
        return worker_starter(preload, pickled, reuse)

    def _order_of(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, Sequence[Shared]]:
        """What the process of a call is told, and what it has copies of the descriptors of."""
        return order_with_buffers(fn, args, kwargs)
