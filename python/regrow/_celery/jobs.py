"""The tasks that a worker has given to its pool.

    submit ──fewer than `limit` run──> start ──> running ──process ended──> settled
           ──else──> waiting ───────────┘           └──hard time limit──> settled, killed ──> process ended

A job is settled once: one of its callbacks is told the outcome, as billiard tells it. A job has its place from its start to the
end of its process; then the place goes to the next job, and the worker is told that it may bring another one. Everything but
`submit`, `signal` and `is_idle` is called in the thread of the loop.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from billiard.common import human_status
from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.utils.log import get_logger

from regrow._celery.engine import Engine, Run
from regrow._celery.loops import Loop

logger = get_logger("celery.pool")

_numbers = itertools.count()


class Callbacks(NamedTuple):
    """Whom the worker wants to be told; see `celery.worker.request.Request`."""

    accept: Optional[Callable[..., object]]
    timeout: Optional[Callable[..., object]]
    value: Optional[Callable[..., object]]
    error: Optional[Callable[..., object]]
    #: The exceptions of them that the pool passes on.
    propagate: tuple[type[BaseException], ...]


class Job:
    """A call that runs in a process of its own, or is going to."""

    __slots__ = (
        "__weakref__",
        "call",
        "callbacks",
        "correlation_id",
        "hard",
        "is_settled",
        "is_terminated",
        "number",
        "run",
        "soft",
        "timers",
    )

    def __init__(
        self,
        call: tuple[Any, ...],
        callbacks: Callbacks,
        soft: Optional[float],
        hard: Optional[float],
        correlation_id: Optional[str],
    ) -> None:
        self.number = next(_numbers)
        #: The function, its arguments and its keyword arguments, until it starts.
        self.call: Optional[tuple[Any, ...]] = call
        self.callbacks = callbacks
        #: The time limits, in seconds.
        self.soft = soft
        self.hard = hard
        self.correlation_id = correlation_id
        self.run: Optional[Run] = None
        self.timers: list[Any] = []
        #: Whether the worker has asked for the end of the process.
        self.is_terminated = False
        self.is_settled = False

    def ready(self) -> bool:
        """Whether the outcome is known."""
        return self.is_settled

    def terminate(self, signum: int) -> None:
        """Called when the task is revoked. The worker has the pool end a process that runs, and ends it itself if it starts."""

    def tell(self, callback: Optional[Callable[..., object]], *args: object, **more: object) -> None:
        """Calls a callback of the worker's."""
        if callback is None:
            return
        try:
            callback(*args, **more)
        except MemoryError:
            raise
        except Exception as error:
            if isinstance(error, self.callbacks.propagate):
                raise
            logger.error("Pool callback raised exception: %r", error, exc_info=True)

    def set_outcome(self, is_value: bool, value: object) -> None:
        """Tells the outcome: a value, or an `ExceptionInfo`."""
        if not self.is_settled:
            self.is_settled = True
            self.tell(self.callbacks.value if is_value else self.callbacks.error, value)

    def fail(self, error: Exception) -> None:
        """Settles the job by an exception of the pool's."""
        try:
            raise error
        except Exception:
            self.set_outcome(False, ExceptionInfo())


class Jobs:
    """The jobs of a pool."""

    def __init__(self, engine: Engine, limit: int, release: Callable[[], object]) -> None:
        self.engine = engine
        #: How many processes run at a time.
        self.limit = limit
        self.loop: Optional[Loop] = None
        #: How often processes were made in which way; the words are the engine's.
        self.creations: Counter[str] = Counter()
        self._release = release
        self._waiting: deque[Job] = deque()
        #: Those that have a process, by its number.
        self._running: dict[int, Job] = {}
        #: Whether the outcomes of processes that are killed are of interest to nobody.
        self._is_silent = False

    # From any thread.

    def submit(self, job: Job) -> None:
        """Starts a job as soon as there is a place for it."""
        assert self.loop is not None
        self.loop.call(self._submit, job)

    def signal(self, pid: int, number: int) -> None:
        """Sends a signal to a process that is to end by it."""
        job = self._running.get(pid)
        if job is not None and job.run is not None:
            job.is_terminated = True
            job.run.signal(number)

    def is_idle(self) -> bool:
        """Whether no process runs and nothing waits for one."""
        return not self._running and not self._waiting

    def pids(self) -> list[int]:
        """The numbers of the processes that run."""
        return list(self._running)

    # In the thread of the loop.

    def _submit(self, job: Job) -> None:
        if len(self._running) < self.limit:
            self._start(job)
        else:
            self._waiting.append(job)

    def _start(self, job: Job) -> None:
        try:
            run = self.engine.start(_order_of(job))
        except Exception as error:
            # It could not be pickled, or there is no memory or no process to be had: that is the end of this task alone.
            lost = WorkerLostError(f"No process could be started: {error!r} Job: {job.number}.")
            job.fail(lost if isinstance(error, OSError) else error)
            self._release()
            return
        job.call = None
        job.run = run
        self.creations[run.creation] += 1
        if self.creations[run.creation] == 1 and not run.creation.endswith("at warm"):
            logger.warning("A task was not started from the prepared interpreter: %s", run.creation)
        self._running[run.pid] = job
        assert self.loop is not None
        self.loop.watch(run.fileno(), self._on_end, job, run)
        self._set_timers(job, run)
        job.tell(job.callbacks.accept, run.pid, time.monotonic())

    def _set_timers(self, job: Job, run: Run) -> None:
        assert self.loop is not None
        if job.soft:
            job.timers.append(self.loop.call_later(job.soft, self._on_soft_limit, job, run))
        if job.hard:
            job.timers.append(self.loop.call_later(job.hard, self._on_hard_limit, job, run))

    def _on_soft_limit(self, job: Job, run: Run) -> None:
        if not run.is_over():
            job.tell(job.callbacks.timeout, soft=True, timeout=job.soft)
            run.signal(signal.SIGUSR1)

    def _on_hard_limit(self, job: Job, run: Run) -> None:
        if not run.is_over():
            assert job.hard is not None
            job.fail(TimeLimitExceeded(job.hard))
            job.tell(job.callbacks.timeout, soft=False, timeout=job.hard)
            run.signal(signal.SIGKILL)

    def _on_end(self, job: Job, run: Run) -> None:
        """The descriptor of a process is readable."""
        if not run.is_over():
            return
        assert self.loop is not None
        self.loop.forget(run.fileno())
        for timer in job.timers:
            timer.cancel()
        del self._running[run.pid]
        try:
            # First of all the next one is to run.
            if self._waiting and len(self._running) < self.limit:
                self._start(self._waiting.popleft())
            self._release()
        finally:
            try:
                self._set_outcome(job, run)
            finally:
                run.close()

    def _set_outcome(self, job: Job, run: Run) -> None:
        """Tells the outcome of a process that has ended."""
        if job.is_settled:
            return
        try:
            answer = run.answer()
        except Exception as error:
            # What loading raises is as much the task's as what it raises itself.
            job.fail(error)
            return
        if answer is not None and answer.is_value:
            job.set_outcome(True, _without_memory_error(answer.value))
        elif answer is not None and isinstance(answer.value.exception, MemoryError):
            job.fail(WorkerLostError(f"Worker ran out of memory. Job: {job.number}."))
        elif answer is not None:
            job.set_outcome(False, answer.value)
        elif self._is_silent:
            job.is_settled = True
        elif job.is_terminated:
            job.fail(Terminated(-run.returncode))
        else:
            job.fail(WorkerLostError(f"Worker exited prematurely: {human_status(run.returncode)} Job: {job.number}."))

    def flush(self) -> None:
        """Forgets the jobs that wait: the connection that their messages came by is lost, and they will come again."""
        self._waiting.clear()

    def end_all(self, number: int) -> None:
        """Ends all processes by a signal. Nobody is told of those without a result: their messages are not acknowledged."""
        self._waiting.clear()
        self._is_silent = True
        for job in list(self._running.values()):
            assert job.run is not None
            job.run.signal(number)


def _order_of(job: Job) -> bytes:
    """What a process is told; see `regrow._celery.child`."""
    assert job.call is not None
    return pickle.dumps((os.getpid(), *job.call), pickle.HIGHEST_PROTOCOL)


def _without_memory_error(value: Any) -> Any:
    """The value of a task, which may be `(True, its ExceptionInfo, seconds)`.

    A worker that sees a `MemoryError` takes it for its own, and ends. Here it is the end of the task's process alone, which
    has stored it as the result."""
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[1], ExceptionInfo):
        error = value[1].exception
        if isinstance(error, MemoryError):
            value[1].exception = RuntimeError(f"MemoryError: {error}")
    return value
