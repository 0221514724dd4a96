"""What waits for the ends of processes and for time limits.

    HubLoop      the event loop of the worker, where its broker has one: everything happens in the worker's thread
    ThreadLoop   a thread with an event loop of its own, where the worker has none

Both call what is given to `call` in their own thread, which alone touches the jobs of the pool.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from celery.utils.log import get_logger
from kombu.asynchronous import Hub
from kombu.message import Message

logger = get_logger("celery.pool")

#: How long a wait for the last processes of a worker lasts before timers and acknowledgements are looked at, in seconds.
_LOOK = 0.2


class Loop(Protocol):
    """What a pool waits by."""

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Calls a function in the thread of the loop."""

    def watch(self, fd: int, function: Callable[..., object], *args: Any) -> None:
        """Calls a function each time that a descriptor is readable."""

    def forget(self, fd: int) -> None:
        """Takes a descriptor out, if it is there."""

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Any:
        """Calls a function once, unless `cancel` of what is returned is called first."""

    def drain(self, is_idle: Callable[[], bool]) -> None:
        """Goes on until the pool is idle. Nothing else serves the loop any more."""


class HubLoop:
    """The event loop of the worker."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        #: What is watched: the hub forgets it when the connection to the broker is lost, and at the worker's end.
        self._watched: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """The pool is called in the thread of the loop."""
        function(*args)

    def watch(self, fd: int, function: Callable[..., object], *args: Any) -> None:
        """See `Loop.watch`."""
        self._watched[fd] = function, args
        self._hub.add_reader(fd, function, *args)

    def watch_again(self) -> None:
        """Has the hub watch all that it is to watch."""
        for fd, (function, args) in self._watched.items():
            if fd not in self._hub.readers:
                self._hub.add_reader(fd, function, *args)

    def forget(self, fd: int) -> None:
        """See `Loop.forget`."""
        if self._watched.pop(fd, None) is not None:
            self._hub.remove(fd)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Any:
        """See `Loop.call_later`."""
        return self._hub.call_later(seconds, function, *args)

    def drain(self, is_idle: Callable[[], bool]) -> None:
        """Serves the descriptors of the pool, the timers, and acknowledgements: nothing that would bring new tasks."""
        while not is_idle():
            poller = select.poll()
            for fd in self._watched:
                poller.register(fd, select.POLLIN)
            for fd, _ in poller.poll(_LOOK * 1000):
                if fd in self._watched:
                    function, args = self._watched[fd]
                    function(*args)
            self._hub.fire_timers()
            self._acknowledge()
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Calls what the hub was to call, as far as it tells the broker of the end of a task."""
        ready = self._hub._pop_ready()
        while ready:
            callback = ready.pop()
            function = getattr(callback, "fun", None)
            if isinstance(getattr(function, "__self__", None), Message):
                try:
                    callback()
                except Exception as error:
                    # The broker may be gone, and the tasks that still run are to end all the same.
                    logger.error("A task that has ended could not be acknowledged: %r", error, exc_info=True)
            else:
                self._hub.call_soon(callback)


class ThreadLoop:
    """A thread with an event loop of its own."""

    def __init__(self) -> None:
        self._hub = Hub()
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._is_over = False
        self._hub.add_reader(self._wakes[0], self._serve_calls)
        self._thread = threading.Thread(target=self._serve, name="regrow-tasks", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_over:
            self._hub.run_once()

    def _serve_calls(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakes[0], 4096)
        while self._calls:
            function, args = self._calls.popleft()
            function(*args)

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """See `Loop.call`."""
        self._calls.append((function, args))
        with contextlib.suppress(BlockingIOError):
            os.write(self._wakes[1], b"\0")

    def watch(self, fd: int, function: Callable[..., object], *args: Any) -> None:
        """See `Loop.watch`."""
        self._hub.add_reader(fd, function, *args)

    def forget(self, fd: int) -> None:
        """See `Loop.forget`."""
        self._hub.remove(fd)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Any:
        """See `Loop.call_later`."""
        return self._hub.call_later(seconds, function, *args)

    def drain(self, is_idle: Callable[[], bool]) -> None:
        """Waits until the pool is idle, and ends the thread."""
        while not is_idle():
            time.sleep(_LOOK / 10)
        self.call(self._end)
        self._thread.join()
        self._hub.close()
        for fd in self._wakes:
            os.close(fd)

    def _end(self) -> None:
        self._is_over = True
