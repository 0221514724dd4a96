"""A backend of joblib: every task in a fresh process.

    import regrow.joblib

    with joblib.parallel_config(backend="regrow", n_jobs=4):
        joblib.Parallel()(joblib.delayed(function)(number) for number in range(10))

Each call of a `Parallel` has an executor of its own, so that what it aborts is its own calls. What the images of these
executors have imported is one record for all of them: equal executors have one image.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

import joblib
from joblib.parallel import FallbackToBackend, ParallelBackendBase, SequentialBackend

from regrow._call.future import Future
from regrow._call.order import Shared
from regrow._cloud import Reducers
from regrow._process_pool import Initializer
from regrow._reusable import Preparation, ReusableExecutor
from regrow._spawning import dumps
from regrow._starter import Reuse, checked_preload, checked_reuse

#: joblib does not need numpy, and neither does the backend.
_HAS_NUMPY = importlib.util.find_spec("numpy") is not None
if _HAS_NUMPY or TYPE_CHECKING:
    import numpy as np

    from regrow import _arrays

#: What the processes have in common that have one image: modules, variables, the limit of memory, and the reuse.
_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...], Reuse]

_lock = threading.Lock()
#: What the images have imported, the last one that was used behind the others.
_preparations: dict[_Key, Preparation] = {}
#: What every image has.
_OWN = ("regrow.joblib",)
#: How many images are kept for later calls.
_MOST_KEPT = 4


def _leave_to_parent() -> None:
    global _lock, _preparations
    _lock = threading.Lock()
    _preparations = {}


os.register_at_fork(after_in_child=_leave_to_parent)


class _Executor(ReusableExecutor):
    """The executor of one call of a `Parallel`, with the arrays of its tasks."""

    def __init__(self, max_workers: int, preparation: Preparation, arrays: Optional[_arrays.Arrays], **more: Any) -> None:
        self._given = preparation
        self._arrays = arrays
        reducers: Optional[Reducers] = {np.memmap: _arrays.reduce_result} if _HAS_NUMPY else None
        super().__init__(max_workers, result_reducers=reducers, **more)

    def _preparation(self) -> Preparation:
        self._prepared = self._given
        return self._prepared

    def _job_reducers_of(self, shared: list[Shared]) -> Any:
        return None if self._arrays is None else self._arrays.reducers(shared)


def _executor_of(max_workers: int, key: _Key, arrays: Optional[_arrays.Arrays], memory_limit: Optional[int]) -> _Executor:
    """An executor for one call of a `Parallel`."""
    preload, variables, reuse = key
    with _lock:
        preparation = _preparations.pop(key, None)
        if preparation is None:
            preparation = Preparation(Initializer(None, (), dumps), dict(variables), learns=preload == _OWN)
        _preparations[key] = preparation
        for oldest in list(_preparations)[:-_MOST_KEPT]:
            del _preparations[oldest]
    return _Executor(max_workers, preparation, arrays, preload=preload, memory_limit=memory_limit, reuse=reuse)


def _arrays_of(max_nbytes: Optional[float], mmap_mode: Optional[str]) -> _arrays.Arrays:
    """The arrays of one call of a `Parallel`."""
    # Numpy's "w+" would empty what is mapped.
    modes: Mapping[Optional[str], _arrays.Mode] = {"r": "r", "c": "c", "r+": "r+", "w+": "r+"}
    return _arrays.Arrays(max_nbytes if mmap_mode is not None else None, modes.get(mmap_mode, "r"))


class RegrowBackend(ParallelBackendBase):  # type: ignore[misc]
    """Runs each task in a fresh process; `joblib.parallel_config(backend="regrow")`.

    `preload` names modules that every process has imported. Without it these are the modules that the tasks need.
    `memory_limit` and `reuse` are those of `regrow.Executor`. A task is one process, unless `batch_size` of the `Parallel` says
    that several tasks are to have one.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    supports_sharedmem = False
    uses_threads = False

    def __init__(
        self,
        nesting_level: Optional[int] = None,
        inner_max_num_threads: Optional[int] = None,
        preload: Sequence[str] = (),
        memory_limit: Optional[int] = None,
        reuse: Reuse = "always",
        **more: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **more)
        # A task that names the backend finds it.
        self._preload = (*checked_preload(preload), *_OWN)
        self._memory_limit = memory_limit
        self._reuse = checked_reuse(reuse)
        self._executor: Optional[_Executor] = None
        self._arrays: Optional[_arrays.Arrays] = None

    def effective_n_jobs(self, n_jobs: Optional[int]) -> int:
        """How many tasks run at a time; a negative number counts from the number of processors."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs < 0:
            return max(int(joblib.cpu_count()) + 1 + n_jobs, 1)
        return n_jobs

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        max_nbytes: Optional[float] = 1e6,
        mmap_mode: Optional[str] = "r",
        **others: Any,
    ) -> int:
        """Gets ready for a call of a `Parallel`: how many of its tasks run at a time."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._arrays = _arrays_of(max_nbytes, mmap_mode) if _HAS_NUMPY else None
        variables = self._prepare_worker_env(n_jobs=n_jobs)
        key = (self._preload, tuple(sorted(variables.items())), self._reuse)
        self._executor = _executor_of(n_jobs, key, self._arrays, self._memory_limit)
        return n_jobs

    def start_call(self) -> None:
        """Arrays may have changed since an earlier call."""
        if self._arrays is not None:
            self._arrays.forget()

    def submit(self, func: Callable[[], Any], callback: Optional[Callable[[Future[Any]], object]] = None) -> Future[Any]:
        """Starts a task, or a batch of tasks, in a process of its own."""
        assert self._executor is not None
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)  # type: ignore[arg-type]
        return future

    # What joblib before 1.5 calls it.
    apply_async = submit

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """The value of a task that is over, or what it raised."""
        return out.result()

    def terminate(self) -> None:
        """Ends a call of a `Parallel`. Its image is kept for the next one."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        self._leave()

    def _leave(self) -> None:
        """Lets the executor go, and the memory of the arrays."""
        if self._arrays is not None:
            self._arrays.forget()
        self._executor = self._arrays = None

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Kills the tasks that run, and begins none of those that wait."""
        if self._executor is not None:
            self._executor.kill_workers()
        self._leave()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel, **self.parallel._backend_kwargs)


joblib.register_parallel_backend("regrow", RegrowBackend)
