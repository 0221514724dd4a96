"""The answers of runs: the frame of a run of one test comes with the end of its process, as the value of a call does.

A run is a call of `regrow._pytest.worker.run_tests`, in the form of `regrow._call`, so that the same runner carries it out:
no Python code runs around it. There is one difference. The answer of a call is written when everything else is done; that of a
run is written before the end of its process goes on in Python, because what goes wrong there is no part of the test.
"""

from __future__ import annotations

import atexit
import os
import pickle
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

from regrow._call import worker as calls

if TYPE_CHECKING:
    Runner = Callable[..., Optional[bytes]]

# The function of an order, with an empty key behind it.
CALL = b"regrow._call.worker:call\n\0\0"

ANSWER_FD = calls.ANSWER_FD

# Kind and length, in front of an answer.
HEAD_BYTES = 9


class Early(ModuleType):
    """Stands for `regrow._call.worker`, where the runner puts what it knows of a call."""

    _beside = calls._beside
    _described = staticmethod(calls._described)
    _take = staticmethod(calls._take)
    _write_buffers = staticmethod(calls._write_buffers)

    @property
    def _answer(self) -> None:
        """The answer of a run whose process has something left to do at its end."""

    @_answer.setter
    def _answer(self, answer: tuple[bytes, bytes]) -> None:
        calls._write_answer(*answer)


def prepare() -> Optional[Runner]:
    """What carries out the orders of an image's runs; None where the extension is missing."""
    # An environment that is the order's alone needs no Python to be taken over.
    unset_sizes()
    # A run that the runner leaves to the front end answers at its end.
    atexit.register(calls._send)
    try:
        from regrow import _core
    except ImportError:
        return None
    return _core.Runner(Early("regrow._pytest.answers.early"))


def unset_sizes() -> None:
    """Takes back the size of the terminal that `readline` has told children of this process by the C library alone."""
    for name in ("COLUMNS", "LINES"):
        if name not in os.environ:
            os.unsetenv(name)


def answer_early(frame: bytes) -> None:
    """Answers where the front end carries out the run, and not the runner: Python code goes on until the end of the process."""
    if calls._in_call:
        calls._write_answer(calls.VALUE, pickle.dumps(frame, pickle.HIGHEST_PROTOCOL))
        answer_no_more()


def answer_no_more() -> None:
    """Has this process answer nothing from here on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, ANSWER_FD, inheritable=False)
    os.close(nowhere)


def order_of(function: Callable[..., bytes], order: dict[str, Any]) -> bytes:
    """The order of a run as its process is told it."""
    return CALL + pickle.dumps((function, (order,), {}), pickle.HIGHEST_PROTOCOL)


def frame_in(answer: bytes) -> Optional[bytes]:
    """The frame in an answer; None if the process has ended before it answered."""
    kind, length = answer[:1], int.from_bytes(answer[1:HEAD_BYTES], "little")
    if len(answer) < HEAD_BYTES + length or not kind:
        return None
    value = pickle.loads(answer[HEAD_BYTES : HEAD_BYTES + length])
    if kind == calls.VALUE:
        return value or None
    # What no test has raised: the plugin, or an option that a test cannot bear.
    return pickle.dumps((0, [("internal", value[2])]), pickle.HIGHEST_PROTOCOL)
