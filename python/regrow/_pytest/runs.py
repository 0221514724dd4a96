"""What the pytest that was started knows of a process: its tests, what has come on its pipe, and until when it may take."""

from __future__ import annotations

import os
import pickle
import signal
import time
from typing import TYPE_CHECKING, Optional

from regrow._pytest.worker import FRAME_HEAD, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regrow._pytest.gates import Gate
    from regrow._pytest.processes import Process

READ_BYTES = 1 << 16


class Run:
    """A process, and what it has reported so far."""

    def __init__(
        self, process: Process, tests: list[int], results: Optional[int], slot: Optional[int], why_exec: Optional[str]
    ) -> None:
        self.process = process
        self.why_exec = why_exec or process.why_exec
        self.tests = tests
        self.results = results
        # None while it is ahead.
        self.slot = slot
        self.since = time.perf_counter()
        self.deadline: Optional[float] = None
        self.timed_out = False
        # The gate that it was started at, which it has passed when it runs its tests.
        self.gate: Optional[Gate] = None
        self.unread = bytearray()
        self.reported: dict[int, list[Event]] = {}

    def read(self) -> bool:
        """Takes what has come on the pipe; False at its end."""
        assert self.results is not None
        while True:
            try:
                chunk = os.read(self.results, READ_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.unread += chunk
            if len(chunk) < READ_BYTES:
                return True

    def take(self, frame: bytes) -> None:
        """Takes what the process has answered."""
        index, events = pickle.loads(frame)
        self.reported[self.tests[index]] = events

    def frames(self) -> Iterator[tuple[int, list[Event]]]:
        """The complete frames among what was read."""
        while len(self.unread) >= FRAME_HEAD.size:
            (length,) = FRAME_HEAD.unpack_from(self.unread)
            end = FRAME_HEAD.size + length
            if len(self.unread) < end:
                return
            body = bytes(self.unread[FRAME_HEAD.size : end])
            del self.unread[:end]
            yield pickle.loads(body)

    def how_it_ended(self, status: int, limit_s: Optional[float]) -> str:
        """Words for the end of a process that did not run all of its tests."""
        if self.timed_out:
            return f"took longer than {limit_s:g} s and was killed"
        if status >= 0:
            return f"its process ended with exit status {status}"
        try:
            return f"crashed with {signal.Signals(-status).name}"
        except ValueError:
            return f"crashed with signal {-status}"
