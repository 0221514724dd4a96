"""What tests leave in their process: threads that go on, and descriptors that are open.

It is looked for behind the last test of a process, when every fixture has been torn down, and after tests that passed alone:
the traceback of a failure holds what the failed test had.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

# How long a thread is waited for that may be about to end.
PATIENCE_S = 0.02


class Leavings:
    """Compares a process with what it was when this was made. Not everything new is said: `ignored` are paths of files."""

    def __init__(self, ignored: set[str]) -> None:
        self._ignored = ignored
        self._threads = set(threading.enumerate())
        self._descriptors = descriptors()

    def found(self) -> list[str]:
        """What is there that was not, in words."""
        threads = [thread for thread in threading.enumerate() if thread not in self._threads]
        until = time.monotonic() + PATIENCE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        words = [f"thread {thread.name!r}" for thread in threads if thread.is_alive()]
        new = descriptors().items() - self._descriptors.items()
        return words + [f"descriptor {number} ({kind_of(path)})" for number, path in sorted(new) if path not in self._ignored]


def descriptors() -> dict[int, str]:
    """The open descriptors, and what they are of."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        # That of the listing itself is gone.
        with contextlib.suppress(FileNotFoundError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def kind_of(path: str) -> str:
    """What a descriptor is of: a path, or `socket`, `pipe`, `eventpoll`."""
    kind, colon, rest = path.partition(":")
    return (
        kind if colon and rest.startswith("[") and kind != "anon_inode" else rest.strip("[]") if kind == "anon_inode" else path
    )
