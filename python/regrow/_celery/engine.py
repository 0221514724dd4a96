"""How the processes of a worker are started. No other part of the pool knows anything of Regrow but this one.

    Engine    one image, with the app imported        Run    one process of it

    answer    `=` or `!` | pickle: the value of the call, or a `billiard.einfo.ExceptionInfo`

The answer is in a file in memory, so that a run is waited for by one descriptor, which becomes readable once.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple, Optional

from regrow import _core
from regrow._celery.setup import Setup
from regrow._starter import Starter

ORDER_FD = 61
ANSWER_FD = 62

#: The longest order that is part of the start; a longer one is in a file.
_LONGEST_ORDER = 32 * 1024
_FUNCTION = b"regrow._celery.child:run\n"
#: How many processes more than the pool's limit can be recycled: for `pool_grow`, and while a body is put back.
_SPARE_BODIES = 64


class Answer(NamedTuple):
    """What a call gave."""

    is_value: bool
    value: Any


class Engine:
    """Starts processes that begin with the app imported.

    `limit` is how many run at a time, `memory_limit` how many bytes each may have."""

    def __init__(self, setup: Setup, limit: int, memory_limit: Optional[int]) -> None:
        self._memory_limit = memory_limit
        self._limit = limit
        self._words = list(sys.argv)
        self._starter = Starter(
            options=subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
            setup="regrow._celery.child:prepare",
            setup_data=pickle.dumps(setup),
            # Settings may hold passwords.
            is_private=True,
            path=[entry for entry in setup.path if os.path.isabs(entry)],
            bodies=limit + _SPARE_BODIES,
        )

    def prepare(self) -> None:
        """Makes the image. Raises what the app raises there."""
        self._starter.prepare(self._words, _FUNCTION)
        self._starter.tell("celery", self._limit)
        run = self.start(pickle.dumps((os.getpid(), None, (), {})))
        run.wait()
        answer = run.answer()
        code = run.returncode
        run.close()
        if answer is None:
            raise RuntimeError(f"a process of the pool ended before it was asked for a task: status {code}")
        if not answer.is_value:
            raise answer.value.exception

    def start(self, order: bytes) -> Run:
        """Starts a process with an order; see `regrow._celery.child`."""
        if len(order) <= _LONGEST_ORDER:
            return Run(self._start(order, []))
        with tempfile.TemporaryFile(prefix="regrow-") as file:
            file.write(order)
            file.seek(0)
            return Run(self._start(b"", [(file.fileno(), ORDER_FD)]))

    def _start(self, order: bytes, fds: list[tuple[int, int]]) -> _core.Process:
        return self._starter.start(
            self._words, call=_FUNCTION + order, answer=ANSWER_FD, fds=fds, memory_limit=self._memory_limit
        )


class Run:
    """A process of an engine."""

    __slots__ = ("_process", "creation", "pid")

    def __init__(self, process: _core.Process) -> None:
        self._process = process
        self.pid = process.pid
        #: How it was made, in words: `recycled at warm`, for example.
        self.creation = process.creation

    def fileno(self) -> int:
        """A descriptor that is readable when the process has ended. It is open until `close`."""
        return self._process.pidfd()

    def wait(self) -> None:
        """Waits for the end of the process."""
        self._process.wait()

    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._process.wait(0)

    @property
    def returncode(self) -> int:
        """The exit status of a process that has ended, or the negative number of the signal that ended it."""
        code = self._process.returncode
        return 0 if code is None else code

    def answer(self) -> Optional[Answer]:
        """What the call gave; None where the process ended before it gave anything."""
        data = self._process.answer()
        if data[:1] not in (b"=", b"!"):
            return None
        return Answer(data[:1] == b"=", pickle.loads(memoryview(data)[1:]))

    def signal(self, number: int) -> None:
        """Sends a signal, if the process has not ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def close(self) -> None:
        """Gives back what is held for a process that has ended."""
        self._process.close()
