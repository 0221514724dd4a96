"""Calls in processes of their own: how they are started, served, and ended.

    submit ──slot free──> start ──> running ──end seen──> finish: the future is set, the slot goes to the next call
           ──no slot────> waiting ───────────────────────────┘

A running call is served by one thread at a time. A thread that asks a future for its result serves that call itself: it
reads the answer where it waits for it, and no other thread has to wake. All other calls are served by one thread of their
executor, which polls for them, and kills those whose time is over.

A call that starts while it is submitted is *unattended*: most callers ask for its result next, and the polling thread need
not know of it. It is attended as soon as anybody looks at its future in another way, another call waits for its slot, or its
executor is closed.

Invariants: a call has a slot from its start to its end; whoever sets `claimed` under the lock is the one that touches the
process until he clears it; what a claimed call is watched by is not in the poller, unless the claimer is the polling thread;
a call is unattended only if nobody but its submitter can know of it, or nobody has looked at it since.

A signal handler of the main thread may raise between any two steps of it, which are the interpreter's: after a call, at the
head of a function, at a jump back. What belongs together here is therefore written as stores and deletions that follow each
other without such a place, and not as calls of methods; what is left undone is found by the polling thread, which no handler
runs in.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

from regrow import _core
from regrow._call import lives
from regrow._call.answer import Answer, Unclear, read_answer
from regrow._call.future import LOOK, Future, Running
from regrow._call.order import Shared, prepare, start_process
from regrow._call.polling import Polled
from regrow._errors import BrokenProcess
from regrow._starter import Starter


class Calls(Polled):
    """The calls of one executor."""

    def __init__(
        self,
        name: str,
        make_starter: Callable[[], Starter],
        slots: int,
        timeout: Optional[float],
        memory_limit: Optional[int],
    ) -> None:
        #: What it is called in the list of pools.
        self._name = name
        self._failed = 0
        self._make_starter = make_starter
        #: Made for the first call, and not before: an executor may be made while the main module is still imported.
        self._starter: Optional[Starter] = None
        self._slots = slots
        self._timeout = timeout
        self._memory_limit = memory_limit
        super().__init__()
        lives.every.add(self)

    # Submitting and starting.

    def submit(self, order: bytes, place: str, shared: Sequence[Shared] = ()) -> Future[Any]:
        """Starts a call, or has it wait for a slot."""
        with self.lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            starter = self._starter = self._starter or self._make_starter()
        if not starter.is_prepared():
            prepare(starter)
            self._tell()
        future: Future[Any] = Future(self, order, place, shared)
        with self.lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append(future)
        self._start_waiting(future)
        if self._waiting:
            self._attend_all()
        return future

    def _start_waiting(self, mine: Optional[Future[Any]] = None) -> None:
        """Gives free slots to calls that wait for one. Where a signal handler raises, each call has its slot or waits.

        `mine` is a future that nobody else has yet: its call is left unattended."""
        me = threading.get_ident()
        while True:
            future: Optional[Future[Any]] = None
            try:
                with self.lock:
                    if not self._waiting or len(self._starting) + len(self._running) - self._ended >= self._slots:
                        return
                    future = self._waiting[0]
                    self._starting[future] = me
                    del self._waiting[0]
                self._start(future, future is mine)
            finally:
                if future is not None and future in self._starting:
                    del self._starting[future]
                    if not future.is_given:
                        self._waiting.appendleft(future)
                    with self.lock:
                        self._wake_if_closed()

    def _start(self, future: Future[Any], is_mine: bool) -> None:
        """Starts the process of a call that has a slot."""
        if not future.begins():
            future.is_given = True
            return
        process = None
        assert self._starter is not None
        try:
            future.is_given = True
            process = start_process(self._starter, future.order, self._memory_limit, future.place, future.shared)
            self._enter(future, process, is_mine and self._timeout is None)
        except BaseException as error:
            if future.call is None:
                if process is not None:
                    process.kill()
                    process.wait(LOOK)
                if not future.is_over():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise

    def _enter(self, future: Future[Any], process: _core.Process, is_unattended: bool) -> None:
        """Takes a call into the table of those that run."""
        future.order = b""
        future.shared = ()
        future.creation = process.creation
        now = time.monotonic()
        deadline = None if self._timeout is None else now + self._timeout
        running = Running(future, process, deadline)
        with self.lock:
            if is_unattended and not (self._waiting or self._closed):
                running.due = running.next_look(now)
            else:
                self._ensure_thread()
                self._watch(running, now)
            self._running[running] = None
            future.call = running
            del self._starting[future]
            is_doomed = future.is_doomed
        if is_doomed:
            process.kill()

    def attend(self, running: Running) -> None:
        """Has the polling thread serve a call that nobody serves."""
        with self.lock:
            if not running.is_watched and not running.claimed and running in self._running:
                self._ensure_thread()
                self._watch(running, time.monotonic())

    def _attend_all(self) -> None:
        """Has the polling thread serve all calls: one waits for a slot, or the executor is closed."""
        with self.lock:
            if self._is_busy():
                self._ensure_thread()
            for running in list(self._running):
                self.attend(running)

    # Changing.

    @property
    def is_closed(self) -> bool:
        """Whether no further calls are taken."""
        return self._closed

    def resize(self, slots: int) -> None:
        """Has another number of calls run at a time. Calls that run go on."""
        with self.lock:
            self._slots = slots
        self._tell()
        self._start_waiting()

    def renew_starter(self) -> None:
        """Has the next calls come from an image that is made anew."""
        starter = self._make_starter()
        with self.lock:
            self._starter = starter

    def _tell(self) -> None:
        """Brings the list of pools up to date."""
        starter = self._starter
        waiting = self._told_waiting = len(self._waiting)
        if starter is not None and not self._closed:
            starter.tell(self._name, self._slots, waiting, self._failed)

    # Serving.

    def serve(self, future: Future[Any], until: Optional[float]) -> None:
        """Serves the call of a future until its end or that time, unless another thread does so."""
        if future.family is not self.family:
            raise BrokenProcess("the call belongs to the process that this one was forked from")
        running = future.call
        if running is None:
            return
        is_mine = False
        unclear = None
        try:
            with self.lock:
                if running.claimed or running not in self._running:
                    return
                running.claimed = is_mine = True
                if running.is_watched:
                    self._unwatch(running)
            if self._await(running, until):
                self._finish(running)
                is_mine = False
        except Unclear as error:
            unclear = error.error
        finally:
            # The time is over, or a signal handler has raised: the polling thread goes on with whatever is left.
            if is_mine:
                self._hand_over(running)
        if unclear is not None:
            self._clear_up(running, unclear, until)

    def _clear_up(self, running: Running, error: BaseException, until: Optional[float]) -> None:
        """Raises what was raised while an answer was loaded, unless it is the answer's: the polling thread meets that too."""
        left = None if until is None else max(0.0, until - time.monotonic())
        with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            concurrent.futures.Future.exception(running.future, left)
        if running.refusal is None:
            raise error

    def _await(self, running: Running, until: Optional[float]) -> bool:
        """Waits for the end of a claimed call. False when the time is over first."""
        deadline = running.deadline
        if deadline is None:
            return running.process.wait(None if until is None else until - time.monotonic())
        first = deadline if until is None else min(deadline, until)
        if running.process.wait(first - time.monotonic()):
            return True
        if time.monotonic() < deadline:
            return False
        self._kill_late(running)
        return running.process.wait(None if until is None else max(LOOK, until - time.monotonic()))

    def _hand_over(self, running: Running) -> None:
        """Leaves what is left of a call that was claimed to the polling thread."""
        running.due = 0.0
        running.finisher = 0
        running.claimed = False
        with self.lock:
            self._ensure_thread()
            self._wake()

    def _finish(self, running: Running) -> None:
        """Sets the future of a claimed call that has ended, and starts the next one. Each step may have been done before."""
        future = running.future
        running.finisher = threading.get_ident()
        if self._waiting and not running.has_ended and self._is_polling():
            # The next process runs while the answer of this one is read. No handler raises in this thread.
            with self.lock:
                running.has_ended = True
                self._ended += 1
            self._start_waiting()
        if not future.is_over():
            self._set_outcome(future, running)
        with self.lock:
            if running in self._running:
                del self._running[running]
                self._ended -= running.has_ended
                self._wake_if_closed()
            future.call = None
            has_waiting = bool(self._waiting)
        running.process.close()
        if has_waiting:
            self._start_waiting()

    def _set_outcome(self, future: Future[Any], running: Running) -> None:
        """Sets the future of a call that has ended."""
        late = Answer(None, TimeoutError(f"the call took longer than {self._timeout} s and was killed"))
        value, error, running.refusal = late if running.is_late else read_answer(running.process)
        future.set_outcome(value, error)
        if error is not None:
            self._failed += 1
            self._tell()

    # Ending.

    def cancel(self, future: Future[Any]) -> bool:
        """Cancels a call."""
        if future._cancel_waiting():
            return True
        if future.family is not self.family:
            return False
        return future._cancel_running()

    def kill(self, future: Future[Any]) -> None:
        """Kills the process of a call that was cancelled."""
        with self.lock:
            future.is_doomed = True
            running = future.call
        if running is not None:
            running.process.kill()

    def end_running(self, number: int) -> None:
        """Sends a signal to the processes of all calls. Those that are being started are killed."""
        with self.lock:
            for future in list(self._starting):
                future.is_doomed = True
            processes = [running.process for running in self._running]
        for process in processes:
            process.send_signal(number)

    def close(self, wait: bool = False, cancel_waiting: bool = False) -> None:
        """Takes no further calls. With `wait`, returns when all calls are over and the polling thread has ended."""
        with self.lock:
            self._closed = True
            starter = self._starter
            waiting = list(self._waiting) if cancel_waiting else []
            self._attend_all()
            self._wake()
        for future in waiting:
            future.cancel()
        if starter is not None:
            starter.tell_no_more()
        if wait:
            with self.lock:
                thread = self._thread
                waits_for_itself = self._is_served_by(threading.get_ident())
            if waits_for_itself:
                # A callback of a future's: the call is over when the callback has returned. `threading` says the same.
                raise RuntimeError("cannot join current thread")
            if thread is not None:
                thread.join()
