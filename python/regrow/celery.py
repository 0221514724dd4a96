"""A worker pool of Celery: every task in a fresh process, with the app imported.

    CELERY_CUSTOM_WORKER_POOL=regrow.celery:TaskPool celery -A app worker -P custom

The pool does what Celery's prefork pool does, in the same order and by the same callbacks, except that no process serves two
tasks. The worker's own thread starts processes and sees them end, in the event loop that it has for its broker.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any, Optional

from billiard.pool import LaxBoundedSemaphore
from celery.app import trace
from celery.concurrency.base import BasePool
from celery.utils.dispatch import Signal
from celery.utils.log import get_logger

from regrow._celery.engine import Engine
from regrow._celery.jobs import Callbacks, Job, Jobs
from regrow._celery.loops import HubLoop, ThreadLoop
from regrow._celery.setup import setup_of

__all__ = ["TaskPool", "image_init"]

logger = get_logger("celery.pool")

#: Sent once, in the interpreter that all processes of a worker begin with: the place to load what every task is to find in
#: memory. Connections and threads do not belong there; `celery.signals.worker_process_init` is sent in each process.
image_init = Signal(name="image_init", providing_args={"hostname"})

#: Functions that load the arguments of a task from its message.
_TRACERS = (trace.fast_trace_task, trace.trace_task_ret)
#: How long a process has to end itself at a cold shutdown, in seconds.
_GRACE = 2.0


class TaskPool(BasePool):  # type: ignore[misc]
    """Starts a process for each task; see `celery.concurrency.base.BasePool`.

    Of the options of the prefork pool `max_memory_per_child` is a limit for each task, and `max_tasks_per_child` is always 1.
    """

    #: The worker brings as many tasks as there are places.
    uses_semaphore = True

    _jobs: Optional[Jobs] = None

    # The life of the pool.

    def on_start(self) -> None:
        """Prepares the interpreter that processes begin with."""
        #: Whether the worker has no event loop.
        self._has_thread: bool = self.options.get("threads", True)
        self._semaphore = self.options.get("semaphore") or LaxBoundedSemaphore(self.limit)
        self._is_closed = False
        self._jobs = Jobs(self._make_engine(), self.limit, self._semaphore.release)
        if self._has_thread:
            self._jobs.loop = ThreadLoop()

    def _make_engine(self) -> Engine:
        initargs = self.options.get("initargs") or (self.app, "")
        kilobytes = self.options.get("max_memory_per_child")
        engine = Engine(setup_of(*initargs), self.limit, kilobytes * 1024 if kilobytes else None)
        engine.prepare()
        return engine

    def register_with_event_loop(self, hub: Any) -> None:
        """Uses the worker's event loop. Called again when the worker has connected to its broker again."""
        assert self._jobs is not None
        if isinstance(self._jobs.loop, HubLoop):
            self._jobs.loop.watch_again()
        else:
            self._jobs.loop = HubLoop(hub)

    def on_close(self) -> None:
        """Takes no further tasks."""
        if not self._is_closed:
            self._is_closed = True
            self._semaphore.clear()

    def on_stop(self) -> None:
        """Waits for the tasks that run: a warm shutdown."""
        self.on_close()
        if self._jobs is not None and self._jobs.loop is not None:
            self._jobs.loop.drain(self._jobs.is_idle)
        self._jobs = None

    def on_terminate(self) -> None:
        """Ends the tasks that run: a cold shutdown."""
        self._is_closed = True
        jobs = self._jobs
        if jobs is not None and jobs.loop is not None:
            jobs.loop.call(jobs.end_all, signal.SIGTERM)
            until = time.monotonic() + _GRACE

            def is_idle() -> bool:
                if time.monotonic() > until:
                    jobs.end_all(signal.SIGKILL)
                return jobs.is_idle()

            jobs.loop.drain(is_idle)
        self._jobs = None

    def restart(self) -> None:
        """Prepares the interpreter anew, for modules that have changed. Tasks that run go on."""
        assert self._jobs is not None
        self._jobs.engine = self._make_engine()

    def flush(self) -> None:
        """Called when the connection to the broker is lost."""
        if self._jobs is not None and self._jobs.loop is not None:
            self._jobs.loop.call(self._jobs.flush)

    # Tasks.

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Any = (),
        kwargs: Optional[dict[str, Any]] = None,
        callback: Optional[Callable[..., Any]] = None,
        error_callback: Optional[Callable[..., Any]] = None,
        accept_callback: Optional[Callable[..., Any]] = None,
        timeout_callback: Optional[Callable[..., Any]] = None,
        waitforslot: Optional[bool] = None,
        soft_timeout: Optional[float] = None,
        timeout: Optional[float] = None,
        callbacks_propagate: tuple[type[BaseException], ...] = (),
        correlation_id: Optional[str] = None,
        **_: Any,
    ) -> Optional[Job]:
        """Starts a call in a process of its own, as soon as there is a place; None when the pool is closed."""
        if self._is_closed:
            return None
        assert self._jobs is not None
        if self._has_thread and (self.putlocks if waitforslot is None else waitforslot):
            self._semaphore.acquire()
        callbacks = Callbacks(accept_callback, timeout_callback, callback, error_callback, callbacks_propagate)
        call = target, _without_arguments(target, tuple(args)), kwargs or {}
        soft = soft_timeout or self.options.get("soft_timeout")
        job = Job(call, callbacks, soft, timeout or self.options.get("timeout"), correlation_id)
        self._jobs.submit(job)
        return job

    def terminate_job(self, pid: int, signal: Optional[int] = None) -> None:
        """Ends a task by a signal to its process: `SIGTERM`, if none is given."""
        if self._jobs is not None:
            self._jobs.signal(pid, signal or _SIGTERM)

    # The size of the pool.

    def grow(self, n: int = 1) -> None:
        """Has more tasks run at a time."""
        assert self._jobs is not None
        self.limit += n
        self._jobs.limit = self.limit
        for _ in range(n):
            self._semaphore.grow()

    def shrink(self, n: int = 1) -> None:
        """Has fewer tasks run at a time. Raises `ValueError` when as many run as may."""
        assert self._jobs is not None
        for _ in range(n):
            if len(self._jobs.pids()) >= self.limit:
                raise ValueError("Can't shrink pool. All processes busy!")
            self.limit -= 1
            self._jobs.limit = self.limit
            self._semaphore.shrink()

    @property
    def num_processes(self) -> int:
        """How many tasks may run at a time."""
        return int(self.limit)

    def _get_info(self) -> dict[str, Any]:
        """What `celery inspect stats` shows of the pool."""
        info: dict[str, Any] = super()._get_info()
        jobs = self._jobs
        creations = {} if jobs is None else dict(jobs.creations)
        info.update(
            {
                "processes": [] if jobs is None else jobs.pids(),
                "max-tasks-per-child": 1,
                "put-guarded-by-semaphore": self.putlocks,
                "timeouts": (self.options.get("soft_timeout") or 0, self.options.get("timeout") or 0),
                "creations": creations,
                "recycled": _count(creations, "recycled"),
                "forked": _count(creations, "forked"),
                "executed": _count(creations, "exec"),
            }
        )
        return info


_SIGTERM = signal.SIGTERM


def _count(creations: dict[str, int], word: str) -> int:
    return sum(number for creation, number in creations.items() if creation.startswith(word))


def _without_arguments(target: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a tracer without those of the task, which the message has that it is given as well."""
    if target not in _TRACERS or len(args) < 3 or not isinstance(args[2], dict):
        return args
    request = {name: value for name, value in args[2].items() if name not in ("args", "kwargs")}
    return (*args[:2], request, *args[3:])
