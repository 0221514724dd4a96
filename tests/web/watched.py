"""What holds after every misuse of a gateway: nothing is left of it, each request is logged once, a plain one is answered."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import client
import processes
from servers import Gateway

# More own memory than any gateway of these tests may have.
MOST_KIB = 100 << 10


def noted(gateway: Gateway) -> list[int]:
    """The pids that the scripts have noted."""
    path = gateway.notes / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def started(gateway: Gateway) -> int:
    """How many scripts have noted that they are under way."""
    path = gateway.notes / "started"
    return len(path.read_text().splitlines()) if path.exists() else 0


def forget(gateway: Gateway) -> None:
    """Takes away what scripts have noted."""
    for path in gateway.notes.iterdir():
        path.unlink()


@dataclass
class Misuse:
    """What a test does, and what it is to leave in the access log."""

    gateway: Gateway
    # The status in each line that the log is to have more, in any order, None for any; no list where lines are not counted.
    logged: list[int | None] | None = field(default_factory=list)


def plain(gateway: Gateway) -> None:
    """Asks for the script that always works."""
    reply = client.get(gateway.http, "/plain.sh")
    assert (reply.status, reply.body) == (200, b"still here\n")


def sockets(pid: int) -> int:
    """How many sockets, pipes and processes a process has hold of."""
    count = 0
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{pid}/fd/{number}").startswith(("socket:", "pipe:", "anon_inode:[pidfd]"))
    return count


def gone(gateway: Gateway) -> bool:
    """Whether no process of a script is left."""
    return not any(processes.exists(pid) for pid in noted(gateway))


@contextlib.contextmanager
def watched(gateway: Gateway, *, ran: bool | None = True) -> Iterator[Misuse]:
    """Checks what holds after a misuse; `ran` says whether scripts are to have noted their pids, if that is known."""
    plain(gateway)
    processes.wait_for("the plain script is gone", lambda: gone(gateway))
    forget(gateway)
    before = len(gateway.logged())
    misuse = Misuse(gateway)
    yield misuse
    if ran is not None:
        assert bool(noted(gateway)) == ran, "no script was run" if ran else "a script was run"
    processes.wait_for("the scripts' processes are gone", lambda: gone(gateway))
    plain(gateway)
    if misuse.logged is not None:
        check_log(gateway, before, misuse.logged)
    assert processes.anonymous_kib(gateway.pid) < MOST_KIB
    assert gateway.process.poll() is None


def check_log(gateway: Gateway, before: int, logged: list[int | None]) -> None:
    """Checks that the access log has these lines more, and one for the plain request."""
    processes.wait_for(
        f"the log has {len(logged)} lines more and one for the plain request",
        lambda: len(gateway.logged()) >= before + len(logged) + 1,
    )
    lines = gateway.logged()[before:]
    assert len(lines) == len(logged) + 1, lines
    known = [status for status in logged if status is not None]
    statuses = [int(line.rsplit('" ', 1)[1].split()[0]) for line in lines]
    for status in [*known, 200]:
        assert status in statuses, (status, lines)
        statuses.remove(status)


def few_descriptors(gateway: Gateway, count: int) -> bool:
    """Waits a while until a gateway has no more descriptors than this. Returns whether it has."""
    end = time.monotonic() + 5
    while sockets(gateway.pid) > count:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
