"""Whose memory a process has, as the kernel tells: who shares memory with it."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

# `kcmp` of x86-64, and what it compares.
_KCMP, _VM = 312, 1
_RUNS = 10
# How many may not be seen in a body: the first of a program, and those that the machine was too slow for.
_TRIES = 200


def repeated(run: Callable[[], int]) -> int:
    """How many of ten runs had memory that one before them had had. A run gives the number of its process."""
    seen: list[tuple[int, str]] = []
    for _ in range(_TRIES):
        pairs: dict[int, tuple[int, str]] = {}
        over = threading.Event()
        watch = threading.Thread(target=_watch, args=(over, pairs))
        watch.start()
        pid = run()
        over.set()
        watch.join()
        if pid in pairs:
            seen.append(pairs[pid])
        if len(seen) >= _RUNS:
            return len(seen) - len(set(seen))
        time.sleep(0.01)
    raise AssertionError(f"{len(seen)} of {_TRIES} runs were seen in a body")


def _watch(over: threading.Event, pairs: dict[int, tuple[int, str]]) -> None:
    """Finds the processes that share memory, and the keepers that they share it with, until a run is over."""
    while not over.wait(0.001):
        children = [pid for pid in _processes() if _status(pid, 1) == str(os.getpid())]
        for one in children:
            for other in children:
                # The keeper is older.
                if one < other and _shares_memory(one, other):
                    pairs[other] = (one, _status(one, 19))


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _status(pid: int, field: int) -> str:
    """A field of /proc/PID/stat behind the name: 1 is the parent, 19 when it began."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field]
    except (OSError, IndexError):
        return ""


def _shares_memory(one: int, other: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_KCMP, one, other, _VM, 0, 0)) == 0 and all(_size(pid) != "0" for pid in (one, other))


def _size(pid: int) -> str:
    """Of the memory, in pages; 0 where it has none, or is none."""
    try:
        return Path(f"/proc/{pid}/statm").read_text().split()[0]
    except OSError:
        return "0"
