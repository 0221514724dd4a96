"""The polling side of an executor's calls: the thread that serves those that nobody else serves; see `regrow._call.calls`."""

from __future__ import annotations

import abc
import sys
import threading
import time
from collections import deque
from typing import Any, Optional

from regrow._call.future import LOOK, Future, Running
from regrow._call.poller import Poller

#: How often the list of pools is brought up to date, in seconds.
TELL = 1.0


def begins(thread: threading.Thread) -> bool:
    """Whether a thread begins within a second."""
    until = time.monotonic() + LOOK
    while not thread.is_alive() and time.monotonic() < until:
        time.sleep(0.001)
    return thread.is_alive()


class Polled(abc.ABC):
    """Calls that a thread polls for, once there is something that it has to do.

    What begins with an underscore, down to the loop of the thread, is called with the lock held.
    """

    def __init__(self) -> None:
        self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """Forgets all calls: the executor is new, or a forked copy of one whose calls are the original's."""
        #: Changes when the process is a forked copy, in which no call of the original's can be served.
        self.family = object()
        self.lock = threading.RLock()
        self._waiting: deque[Future[Any]] = deque()
        #: The calls that have a process, in the order in which they were started.
        self._running: dict[Running, None] = {}
        #: How many of them have left their slots: their processes have ended.
        self._ended = 0
        #: Those that the poller waits for, by the descriptors of their processes.
        self._watched: dict[int, Running] = {}
        #: What has a slot and no process yet, and in which thread it is started.
        self._starting: dict[Future[Any], int] = {}
        #: The polling thread, also when it has ended.
        self._thread: Optional[threading.Thread] = None
        self._poller: Optional[Poller] = None
        self._was_used = False
        self._closed = False
        #: When the list of pools is to be brought up to date.
        self._told_until = 0.0
        #: How many calls wait, as it says.
        self._told_waiting = 0

    @abc.abstractmethod
    def _start_waiting(self) -> None:
        """Gives free slots to calls that wait for one."""

    @abc.abstractmethod
    def _finish(self, running: Running) -> None:
        """Sets the future of a claimed call that has ended, and starts the next one."""

    @abc.abstractmethod
    def _tell(self) -> None:
        """Brings the list of pools up to date."""

    def _kill_late(self, running: Running) -> None:
        running.is_late = True
        running.process.kill()

    def _is_served_by(self, thread: int) -> bool:
        """Whether a call begins or ends in a thread, or the thread is the one that polls."""
        if self._thread is not None and self._thread.ident == thread:
            return True
        finishers = (running.finisher for running in self._running)
        return thread in list(self._starting.values()) or thread in finishers

    def _is_polling(self) -> bool:
        """Whether this is the thread that polls."""
        return self._thread is threading.current_thread()

    def _ensure_thread(self) -> None:
        if self._thread is not None:
            return
        self._poller = Poller()
        self._thread = threading.Thread(target=self._poll, name="regrow-calls", daemon=True)
        try:
            self._thread.start()
        except BaseException as error:
            # A signal handler may have raised before the thread was started, or after.
            if isinstance(error, RuntimeError) or not begins(self._thread):
                self._end_polling()
                self._thread = None
            raise

    def _watch(self, running: Running, now: float) -> None:
        assert self._poller is not None
        running.due = running.next_look(now)
        self._was_used = True
        try:
            fd = running.process.pidfd()
        except OSError:
            # No descriptor is free for it: it is looked at from time to time.
            if running.due < self._poller.until:
                self._wake()
        else:
            running.watched = fd
            self._watched[fd] = running
            # It is there already if a signal handler raised before it was taken out.
            self._poller.watch(fd, running.due)
        running.is_watched = True

    def _unwatch(self, running: Running) -> None:
        assert self._poller is not None
        running.is_watched = False
        fd = running.watched
        if fd >= 0 and self._watched.get(fd) is running:
            self._poller.forget(fd)
            del self._watched[fd]

    def _wake(self) -> None:
        if self._poller is not None:
            self._poller.wake()

    def _wake_if_closed(self) -> None:
        """Has the polling thread see whether it is to end."""
        if self._closed:
            self._wake()

    def _is_busy(self) -> bool:
        return bool(self._starting or self._running or self._waiting)

    def _next_look(self) -> float:
        """When the poll is to end, if nothing happens. It goes on for a while without a call, so that the next one need not
        wake the thread."""
        is_used = self._was_used or self._waiting or self._starting
        quiet = float("inf") if self._told_waiting == len(self._waiting) else self._told_until
        nothing = time.monotonic() + LOOK if is_used else quiet
        self._was_used = False
        return min((running.due for running in self._running), default=nothing)

    # The loop of the thread.

    def _poll(self) -> None:
        poller = self._poller
        assert poller is not None
        while True:
            with self.lock:
                if self._closed and not self._is_busy():
                    self._end_polling()
                    return
                poller.until = self._next_look()
            for fd in poller.wait():
                # Nothing here holds a call while the thread waits: its result is its caller's alone.
                self._look_at(self._watched.get(fd))
            self._look_at_due()
            self._start_waiting()

    def _end_polling(self) -> None:
        assert self._poller is not None
        self._poller.close()
        self._poller = None

    def _look_at_due(self) -> None:
        now = time.monotonic()
        with self.lock:
            due = [running for running in self._running if running.due <= now and not running.claimed]
            for running in self._running:
                if running.claimed and running.due <= now:
                    running.due = now + LOOK
        for running in due:
            self._look_at(running)
        if now >= self._told_until:
            self._told_until = now + TELL
            self._tell()

    def _look_at(self, running: Optional[Running]) -> None:
        """Serves a call without waiting."""
        with self.lock:
            if running is None or running.claimed or running not in self._running:
                return
            running.claimed = True
        over = running.process.wait(0)
        now = time.monotonic()
        if not over and running.deadline is not None and now >= running.deadline:
            self._kill_late(running)
            running.deadline = None
        with self.lock:
            if running.is_watched and over:
                self._unwatch(running)
            elif not over:
                running.claimed = False
                self._watch(running, now)
        if over:
            self._finish_safely(running)

    def _finish_safely(self, running: Running) -> None:
        """Finishes a call in the polling thread, which goes on whatever a callback of the future's raises."""
        try:
            self._finish(running)
        except BaseException:
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self._thread)))
            self._finish(running)
