"""What the polling thread of an executor waits for: descriptors that can be read, a time, and being woken."""

from __future__ import annotations

import contextlib
import os
import select
import time


class Poller:
    """Descriptors that one thread waits for, and others add to. Not for two threads that wait."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._wake_fds = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll.register(self._wake_fds[0], select.EPOLLIN)
        #: When the thread wakes although nothing happens; 0 while it is awake.
        self.until = 0.0

    def watch(self, fd: int, due: float) -> None:
        """Adds a descriptor that is also to be looked at at a time. It may be there already."""
        with contextlib.suppress(FileExistsError):
            self._epoll.register(fd, select.EPOLLIN)
        if due < self.until:
            self.wake()

    def forget(self, fd: int) -> None:
        """Takes a descriptor out, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._epoll.unregister(fd)

    def wake(self) -> None:
        """Ends the wait, or the next one."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_fds[1], b"\0")

    def wait(self) -> list[int]:
        """The descriptors that can be read, once there are some, it is woken, or `until` has come."""
        left = self.until - time.monotonic()
        events = self._epoll.poll(None if left == float("inf") else max(0.0, left))
        self.until = 0.0
        ready = [fd for fd, _ in events]
        if self._wake_fds[0] in ready:
            os.read(self._wake_fds[0], 4096)
            ready.remove(self._wake_fds[0])
        return ready

    def close(self) -> None:
        """Closes what it has opened itself."""
        self._epoll.close()
        for fd in self._wake_fds:
            os.close(fd)
