"""Whose memory a process has, as the kernel tells: who shares memory with it."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# `kcmp` of x86-64, and what it compares.
_KCMP, _VM = 312, 1
_RUNS = 10
# How many may be in no body: the first of a program, while its image is made.
_TRIES = 200


def shown(path: str) -> None:
    """Has the process that calls it be looked at, by who listens at a path."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.recv(1)


def repeated(run: Callable[[str], object], folder: Path) -> int:
    """How many of ten runs had memory that one before them had had.

    A run is given a path, and calls `shown` with it."""
    path = folder / "shown"
    seen: list[tuple[int, str]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(60)
        for _ in range(_TRIES):
            with ThreadPoolExecutor(1) as watch:
                body = watch.submit(_body_of_the_next, listener)
                run(str(path))
            seen += [found] if (found := body.result()) else []
            if len(seen) >= _RUNS:
                break
            # For the images to be made.
            time.sleep(0.01)
    path.unlink()
    assert len(seen) >= _RUNS, f"{len(seen)} of {_TRIES} runs were in a body"
    return len(seen) - len(set(seen))


def _body_of_the_next(listener: socket.socket) -> tuple[int, str] | None:
    """The keeper that the next process to connect shares its memory with, and when that began; None if there is none."""
    connection, _ = listener.accept()
    with connection:
        (pid,) = struct.unpack("i4x4x", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        for other in _processes():
            if other != pid and _status(other, 1) == str(os.getpid()) and _shares_memory(other, pid):
                return other, _status(other, 19)
    return None


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
