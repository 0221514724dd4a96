"""What the session waits for: the ends of processes, and the pipes of those that run several tests.

A pipe that has brought a frame *rests*: nobody looks at it for a while. So several short tests are shown at once, and their
process does not wake the session for each. The end of the process is seen all the same.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regrow._pytest.runs import Run

# For how long a pipe rests.
REST_S = 0.01


class Watch:
    """The descriptors that are waited for, and whose they are."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._runs: dict[int, Run] = {}
        # Pipes at which nobody looks, each with its process, and until when.
        self._resting: list[tuple[Run, int]] = []
        self._rested = 0.0

    def add(self, run: Run, number: int) -> None:
        """Waits for a descriptor of a process as well."""
        self._runs[number] = run
        self._poll.register(number, select.EPOLLIN)

    def forget(self, number: int) -> None:
        """Does not wait for this descriptor any more."""
        if self._runs.pop(number, None) is not None:
            self._poll.unregister(number)

    def rest(self, number: int) -> None:
        """Has a pipe rest, if it is waited for: nothing but its end is seen for a while."""
        if (run := self._runs.get(number)) is not None:
            self._poll.modify(number, 0)
            self._rested = self._rested if self._resting else time.perf_counter() + REST_S
            self._resting.append((run, number))

    def ready(self, patience_s: Optional[float]) -> Iterator[tuple[Run, int]]:
        """The descriptors that have something, each with its process; waits for that as long, or until pipes have rested."""
        if self._resting:
            left_s = max(0.0, self._rested - time.perf_counter())
            if left_s == 0.0:
                self._end_rest()
            patience_s = left_s if patience_s is None else min(patience_s, left_s)
        for number, _ in self._poll.poll(patience_s):
            # What comes before it may have ended its process.
            if (run := self._runs.get(number)) is not None:
                yield run, number

    def close(self) -> None:
        """Waits for nothing any more."""
        self._poll.close()

    def _end_rest(self) -> None:
        for run, number in self._resting:
            if self._runs.get(number) is run:
                self._poll.modify(number, select.EPOLLIN)
        self._resting.clear()
