"""What /proc tells about processes, and waiting for what takes as long as it takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

# How long something may take that is going to happen, on a machine that has much else to do.
PATIENCE_S = 60.0


def wait_for(what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Waits until something holds, and fails if it never does."""
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience_s:.0f} s in vain: {what}")
        time.sleep(0.02)


def exists(pid: int) -> bool:
    """Whether there is such a process, be it a zombie."""
    return Path(f"/proc/{pid}").exists()


def descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def status_kib(pid: int, field: str) -> int:
    """A number of /proc/PID/status, such as VmRSS."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise AssertionError(f"process {pid} has no {field}")


def anonymous_kib(pid: int) -> int:
    """The memory that is a process's own: RSS without files and what it shares."""
    return status_kib(pid, "RssAnon")


def parents() -> dict[int, int]:
    """The parent of each process that there is."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = int(entry.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def descendants(pid: int) -> set[int]:
    """The processes that come from one."""
    known = parents()
    found: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in known.items() if parent in fresh} - found
        found |= fresh
    return found
