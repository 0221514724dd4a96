"""An executor that a thread asks for again and again, in the place of loky's.

    get_reusable_executor ──same arguments──> the thread's executor, with as many calls at a time as are asked for
                          ──others, or it was shut down──> another executor; the one before takes no further calls

Functions are pickled by value where pickle cannot name them, so that the main module need not be imported, and the image
imports the modules that the calls need: those that the functions and classes of the calls come from. When a call needs
another one, the image is made anew, at most `_MOST_GROWTHS` times.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import context as mp_context
from multiprocessing import get_context
from typing import Any, Literal, Optional, Union

from regrow import _cloud, _spawning
from regrow._call.order import Shared, order_of
from regrow._call.prologue import Prologue
from regrow._process_pool import Initializer, ProcessPoolExecutor
from regrow._starter import Reuse, Starter, worker_starter

#: How often an image is made anew because a call needs a module that it has not.
_MOST_GROWTHS = 8


class Preparation:
    """What the image of a reusable executor has, beside what it is told to preload."""

    def __init__(self, initializer: Initializer, environment: dict[str, str], learns: bool = True) -> None:
        self.initializer = initializer
        self._learns = learns
        self.environment = environment
        self._lock = threading.Lock()
        self._growths = 0
        #: Names of modules, in the order in which calls have needed them. The first makes the pickles of values.
        self.modules: tuple[str, ...] = (_cloud.WARM,)
        #: As long as the last starter is held, its image is kept for the next executor.
        self.starter: Optional[Starter] = None

    def learn(self, modules: set[str]) -> bool:
        """Takes note of modules that a call needs. Whether an image that is there already is to be made anew."""
        if not self._learns or modules <= set(self.modules):
            return False
        with self._lock:
            others = sorted(modules.difference(self.modules))
            if not others or self._growths > _MOST_GROWTHS:
                return False
            self._growths += 1
            self.modules += tuple(others)
            return self._growths > 1


def _dumps(value: Any) -> bytes:
    return _cloud.dumps(value, _spawning.reducers())


class ReusableExecutor(ProcessPoolExecutor):
    """What `get_reusable_executor` returns: a `ProcessPoolExecutor` that takes lambdas, closures and functions of the main
    module by value, if cloudpickle is installed.

    `job_reducers` and `result_reducers` reduce the instances of types, on the way to the process and back. `env` are variables
    that the processes have beside the caller's, set before they import a module. `preload` names modules that every process
    has imported when it starts. Without it these are the modules that the calls need.
    """

    def __init__(
        self,
        max_workers: Optional[int] = None,
        *,
        job_reducers: Optional[_cloud.Reducers] = None,
        result_reducers: Optional[_cloud.Reducers] = None,
        initializer: Optional[Callable[..., object]] = None,
        initargs: Sequence[Any] = (),
        env: Optional[Mapping[str, str]] = None,
        preload: Sequence[str] = (),
        memory_limit: Optional[int] = None,
        reuse: Reuse = "always",
    ) -> None:
        self._learns = not preload
        self._env = {name: str(value) for name, value in (env or {}).items()}
        super().__init__(max_workers, None, initializer, initargs, preload=preload, memory_limit=memory_limit, reuse=reuse)
        self._job_reducers = job_reducers
        self._result_dumps = _cloud.Dumps(result_reducers)

    @property
    def is_shut_down(self) -> bool:
        """Whether it takes no further calls."""
        return self._calls.is_closed

    def resize(self, max_workers: int) -> None:
        """Has another number of calls run at a time. Calls that run go on."""
        self._calls.resize(max_workers)

    def shutdown(self, wait: bool = True, kill_workers: bool = False, *, cancel_futures: bool = False) -> None:
        """Takes no further calls. With `kill_workers` those that wait are cancelled, and the processes of the others killed."""
        if kill_workers:
            self.kill_workers()
        super().shutdown(wait, cancel_futures=cancel_futures)

    _dumps = staticmethod(_dumps)

    def _preparation(self) -> Any:
        self._prepared = Preparation(self._initializer, self._env, self._learns)
        return self._prepared

    @staticmethod
    def _make_starter(
        preload: Sequence[str], initializer: Optional[Callable[..., object]], initargs: tuple[Any, ...], reuse: Reuse
    ) -> Starter:
        (prepared,) = initargs
        prepared.starter = starter = worker_starter(
            preload,
            prepared.initializer.in_image(),
            reuse,
            # What is in it travels by value.
            imports_main=_cloud.cloudpickle_name() is None,
            environment=prepared.environment,
            likely=prepared.modules,
        )
        return starter

    def _job_reducers_of(self, shared: list[Shared]) -> Optional[_cloud.Reducers]:
        """What reduces the arguments of one call. The descriptors that its process needs are added to `shared`."""
        return self._job_reducers

    def _order_of(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, Sequence[Shared]]:
        initializer, given = self._initializer.in_call()
        shared = list(given)
        modules: set[str] = set()
        dumps = functools.partial(_cloud.dumps, reducers=self._job_reducers_of(shared), modules=modules)
        order = order_of(Prologue(initializer, self._prepared.environment, self._result_dumps), (fn, args, kwargs), {}, dumps)
        if self._prepared.learn(modules):
            self._calls.renew_starter()
        return order, shared


class _OfThread(threading.local):
    """The executor of a thread, and what it was asked for with."""

    executor: Optional[ReusableExecutor] = None
    arguments: Optional[tuple[Any, ...]] = None


_of_thread = _OfThread()


def get_reusable_executor(
    max_workers: Optional[int] = None,
    context: Union[mp_context.BaseContext, str, None] = None,
    timeout: Optional[float] = 10,
    kill_workers: bool = False,
    reuse: Union[Literal["auto"], bool] = "auto",
    job_reducers: Optional[_cloud.Reducers] = None,
    result_reducers: Optional[_cloud.Reducers] = None,
    initializer: Optional[Callable[..., object]] = None,
    initargs: Sequence[Any] = (),
    env: Optional[Mapping[str, str]] = None,
) -> ReusableExecutor:
    """The executor of this thread, for as many calls at a time as `max_workers` says; in the place of loky's function.

    Another one is made if there is none, if the one that there is was shut down, or if the other arguments differ from those
    that it was asked for with: `reuse` says that they are not to be compared (True) or that another one is made in any case
    (False). The one before is shut down then; with `kill_workers` its calls are killed, otherwise they are waited for.

    `context` and `timeout` are those of loky's workers, of which there are none: they are checked and compared. See
    `ReusableExecutor` for the other arguments.
    """
    _check_context(context)
    if max_workers is not None and max_workers <= 0:
        raise ValueError(f"max_workers must be greater than 0, got {max_workers}.")
    arguments = (context, timeout, job_reducers, result_reducers, initializer, initargs, env)
    executor = _of_thread.executor
    if executor is not None:
        is_same = _of_thread.arguments == arguments if reuse == "auto" else reuse
        if is_same and not executor.is_shut_down:
            if max_workers is not None or reuse is not True:
                executor.resize(max_workers or _processors())
            return executor
        executor.shutdown(wait=True, kill_workers=kill_workers)
    _of_thread.arguments = arguments
    _of_thread.executor = executor = ReusableExecutor(
        max_workers or _processors(),
        job_reducers=job_reducers,
        result_reducers=result_reducers,
        initializer=initializer,
        initargs=initargs,
        env=env,
    )
    return executor


def _check_context(context: Union[mp_context.BaseContext, str, None]) -> None:
    if isinstance(context, str) and context not in ("loky", "loky_init_main", "regrow"):
        context = get_context(context)
    if isinstance(context, mp_context.BaseContext) and context.get_start_method() == "fork":
        raise ValueError("Cannot use reusable executor with the 'fork' context")


def _processors() -> int:
    return len(os.sched_getaffinity(0))
