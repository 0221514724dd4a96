"""What tests leave in their process: threads that go on, and descriptors that are open.

It is looked for behind the last test of a process, when every fixture has been torn down, and after tests that passed alone:
the traceback of a failure holds what the failed test had.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time

# How long a thread is waited for that may be about to end.
PATIENCE_S = 0.02

# And how often it is looked for meanwhile.
LOOK_S = 0.002

# The numbers of descriptors that most are among.
LOW = 128
LOW_NUMBERS = frozenset(range(LOW))


class Leavings:
    """Compares a process with what it was when this was made. Not everything new is said: `ignored` are paths of files."""

    def __init__(self, ignored: set[str]) -> None:
        self._ignored = ignored
        self._threads = frozenset(threading.enumerate())
        self._descriptors = open_descriptors()

    def found(self) -> list[str]:
        """What is there that was not, in words."""
        until = time.monotonic() + PATIENCE_S
        while (threads := self._new_threads()) and time.monotonic() < until:
            time.sleep(LOOK_S)
        words = [f"thread {thread.name!r}" for thread in threads]
        for number in sorted(open_descriptors() - self._descriptors):
            # A thread that goes on may have closed it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                path = os.readlink(f"/proc/self/fd/{number}")
                if path not in self._ignored:
                    words.append(f"descriptor {number} ({kind_of(path)})")
        return words

    def _new_threads(self) -> list[threading.Thread]:
        """The threads that were not there, but for those that Python has not started: nobody can tell when they have ended."""
        threads = [thread for thread in threading.enumerate() if thread not in self._threads]
        return [thread for thread in threads if not isinstance(thread, threading._DummyThread)]


def prober() -> select.poll:
    """What tells of a number below `LOW` whether it is closed."""
    found = select.poll()
    for number in range(LOW):
        found.register(number, 0)
    return found


PROBER = prober()


def open_descriptors() -> frozenset[int]:
    """The numbers of the open descriptors."""
    # Linux 6.2 tells how many there are: where that is the number of low ones, those are all.
    # A limit of fewer descriptors makes the poll fail.
    with contextlib.suppress(OSError):
        closed = {number for number, events in PROBER.poll(0) if events & select.POLLNVAL}
        if os.stat("/proc/self/fd").st_size == LOW - len(closed):
            return LOW_NUMBERS - closed
    # The listing has one itself, of the lowest number that is free.
    of_listing = os.open(os.devnull, os.O_RDONLY)
    os.close(of_listing)
    return frozenset(map(int, os.listdir("/proc/self/fd"))) - {of_listing}


def kind_of(path: str) -> str:
    """What a descriptor is of: a path, or `socket`, `pipe`, `eventpoll`."""
    kind, colon, rest = path.partition(":")
    return (
        kind if colon and rest.startswith("[") and kind != "anon_inode" else rest.strip("[]") if kind == "anon_inode" else path
    )
