"""Reads the answer that the process of a call gives; `regrow._call.worker` writes it.

To load a pickle is to call whatever it names, which may raise anything. In the main thread nobody can tell what loading raises
from what a signal handler has raised meanwhile, and the handler's exception is not the call's: there reading ends with
`Unclear`, and another thread reads again.
"""

from __future__ import annotations

import pickle
import threading
from typing import Any, NamedTuple, Optional, Union

from regrow import _core
from regrow._call.worker import UNPREPARED, VALUE
from regrow._errors import BrokenProcess, RemoteError, RemoteTraceback, how_it_ended

#: The bytes before the data of an answer: its kind, and the length of the data.
_HEAD = 9


class Answer(NamedTuple):
    """What the call of a process returned, or what it raised."""

    value: Any
    error: Optional[BaseException]
    #: What was raised while the answer was loaded, where that asks for the end of the program.
    refusal: Optional[BaseException] = None


class Unclear(BaseException):
    """What was raised while an answer was loaded may be a signal handler's."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def read_answer(process: _core.Process) -> Answer:
    """The answer of a process that has ended."""
    answer = process.answer()
    if len(answer) < _HEAD or len(answer) != _HEAD + int.from_bytes(answer[1:_HEAD], "little"):
        code = process.returncode
        return Answer(None, BrokenProcess(f"the process {how_it_ended(code)} before the call returned", code))
    kind, data = answer[:1], memoryview(answer)[_HEAD:]
    if kind == VALUE:
        value, error = _load(data)
        if error is None or isinstance(error, Exception):
            return Answer(value, error)
        broken = BrokenProcess("the value of the call could not be loaded", process.returncode)
        broken.__cause__ = error
        return Answer(None, broken, error)
    raised, refusal = _exception(data)
    if kind == UNPREPARED:
        broken = BrokenProcess("the process of the call could not be prepared")
        broken.__cause__ = raised
        return Answer(None, broken, refusal)
    return Answer(None, raised, refusal)


def _load(data: Union[bytes, memoryview]) -> tuple[Any, Optional[BaseException]]:
    """What a pickle holds, or what loading it raises."""
    try:
        return pickle.loads(data), None
    except Exception as error:
        return None, error
    except BaseException as error:
        if threading.current_thread() is threading.main_thread():
            raise Unclear(error) from None
        return None, error


def _exception(data: memoryview) -> tuple[BaseException, Optional[BaseException]]:
    """The exception that an answer describes, and what loading it raised where that asks for the end of the program."""
    pickled, text, trace = pickle.loads(data)
    error: BaseException = RemoteError(text)
    refusal = None
    if pickled is not None:
        loaded, failure = _load(pickled)
        if isinstance(loaded, BaseException):
            error = loaded
        if failure is not None and not isinstance(failure, Exception):
            refusal = failure
    error.__cause__ = RemoteTraceback(trace)
    return error, refusal
