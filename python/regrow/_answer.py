"""Reads the answer that the process of a call gives; `regrow._worker` writes it."""

from __future__ import annotations

import pickle
from typing import Any, Optional

from regrow import _core
from regrow._errors import BrokenProcess, RemoteError, RemoteTraceback, how_it_ended
from regrow._worker import UNPREPARED, VALUE

#: The bytes before the data of an answer: its kind, and the length of the data.
_HEAD = 9


def read_answer(process: _core.Process) -> tuple[Any, Optional[BaseException]]:
    """What the call of a process that has ended returned, or what it raised."""
    answer = process.output(0)
    if len(answer) < _HEAD or len(answer) != _HEAD + int.from_bytes(answer[1:_HEAD], "little"):
        code = process.returncode
        return None, BrokenProcess(f"the process {how_it_ended(code)} before the call returned", code)
    kind, data = answer[:1], memoryview(answer)[_HEAD:]
    if kind == VALUE:
        try:
            return pickle.loads(data), None
        except Exception as error:
            return None, error
    raised = _exception(data)
    if kind == UNPREPARED:
        broken = BrokenProcess("the process of the call could not be prepared")
        broken.__cause__ = raised
        return None, broken
    return None, raised


def _exception(data: memoryview) -> BaseException:
    """The exception that an answer describes."""
    pickled, text, trace = pickle.loads(data)
    error: BaseException = RemoteError(text)
    if pickled is not None:
        try:
            loaded = pickle.loads(pickled)
        except Exception:
            pass
        else:
            if isinstance(loaded, BaseException):
                error = loaded
    error.__cause__ = RemoteTraceback(trace)
    return error
