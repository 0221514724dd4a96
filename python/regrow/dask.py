"""Tasks of Dask in fresh processes: a plugin gives every worker of a cluster an executor of that kind.

    client.register_plugin(regrow.dask.FreshProcesses(preload=["pandas"]))
    with dask.annotate(executor="regrow"):
        future = client.submit(function, argument)

Dask sends functions that its workers do not have, so that they travel here by cloudpickle, as Dask has it.
"""

from __future__ import annotations

import concurrent.futures
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Optional

import cloudpickle
from distributed import Worker, WorkerPlugin

import regrow

__all__ = ["FreshProcesses"]


class _Executor(concurrent.futures.Executor):
    """Runs each call in a process of its own, whatever cloudpickle can carry."""

    def __init__(self, executor: regrow.Executor) -> None:
        self._executor = executor
        #: How often processes were made in which way.
        self.creations: Counter[Optional[str]] = Counter()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Starts a call."""
        outer: concurrent.futures.Future[Any] = concurrent.futures.Future()
        inner = self._executor.submit(_call, cloudpickle.dumps((fn, args, kwargs)))
        inner.add_done_callback(lambda done: self._set_outcome(outer, done))
        return outer

    def _set_outcome(self, outer: concurrent.futures.Future[Any], inner: Any) -> None:
        self.creations[inner.creation] += 1
        if inner.cancelled():
            outer.cancel()
            outer.set_running_or_notify_cancel()
            return
        error = inner.exception()
        if error is None:
            try:
                outer.set_result(cloudpickle.loads(inner.result()))
                return
            except Exception as refusal:
                # What loading a value raises is the outcome of the call.
                error = refusal
        outer.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no further calls."""
        self._executor.shutdown(wait, cancel_futures=cancel_futures)


def _call(order: bytes) -> bytes:
    """In the process: carries out a call."""
    function, args, kwargs = cloudpickle.loads(order)
    value: bytes = cloudpickle.dumps(function(*args, **kwargs))
    return value


class FreshProcesses(WorkerPlugin):
    """Gives each worker the executor `regrow`, which has as many processes at a time as the worker has threads.

    `preload` names modules that every process has imported; `timeout` is in seconds and `memory_limit` in bytes, as
    `regrow.Executor` has them."""

    name = "regrow"

    def __init__(
        self, preload: Sequence[str] = (), timeout: Optional[float] = None, memory_limit: Optional[int] = None
    ) -> None:
        # What the functions that a worker runs need is needed in every process.
        self._preload = ("distributed.worker", *preload)
        self._timeout = timeout
        self._memory_limit = memory_limit

    def setup(self, worker: Worker) -> None:
        """Called in each worker."""
        threads = worker.state.nthreads
        executor = regrow.Executor(threads, preload=self._preload, timeout=self._timeout, memory_limit=self._memory_limit)
        worker.executors[self.name] = _Executor(executor)

    def teardown(self, worker: Worker) -> None:
        """Called when a worker ends, or the plugin is taken back."""
        worker.executors.pop(self.name).shutdown(wait=False)
