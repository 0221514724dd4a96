"""Reads the answer that the process of a call gives; `regrow._call.worker` writes it.

To load a pickle is to call whatever it names, which may raise anything. In the main thread nobody can tell what loading raises
from what a signal handler has raised meanwhile, and the handler's exception is not the call's: there reading ends with
`Unclear`, and another thread reads again.
"""

from __future__ import annotations

import ctypes
import mmap
import pickle
import threading
from typing import Any, NamedTuple, Optional, Union

from regrow import _core
from regrow._call import buffers
from regrow._call.worker import ERROR, HEAD_BYTES, UNPREPARED, VALUE, WITH_BUFFERS
from regrow._errors import BrokenProcess, RemoteError, RemoteTraceback, how_it_ended

#: How much of an answer is read at first. One with large buffers is longer, and most others are not.
_FIRST_BYTES = buffers.LEAST_BYTES


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


def read_answer(call: _core.Call) -> Answer:
    """The answer of a process that has ended."""
    answer = call.answer(_FIRST_BYTES)
    if len(answer) == _FIRST_BYTES:
        answer = _long_answer(call, answer)
    if len(answer) < HEAD_BYTES or len(answer) != _end(answer):
        code = call.returncode
        return Answer(None, BrokenProcess(f"the process {how_it_ended(code)} before the call returned", code))
    kind, data = answer[:1], memoryview(answer)[HEAD_BYTES:]
    if kind in (VALUE, WITH_BUFFERS):
        value, error = _load(data, call if kind == WITH_BUFFERS else None)
        if error is None or isinstance(error, Exception):
            return Answer(value, error)
        broken = BrokenProcess("the value of the call could not be loaded", call.returncode)
        broken.__cause__ = error
        return Answer(None, broken, error)
    try:
        if kind not in (ERROR, UNPREPARED):
            raise ValueError(f"there is no answer of the kind {kind!r}")
        raised, refusal = _exception(data)
    except Exception as error:
        # The function has written into what its process shares with this one.
        broken = BrokenProcess("the answer of the call could not be read", call.returncode)
        broken.__cause__ = error
        return Answer(None, broken)
    if kind == UNPREPARED:
        broken = BrokenProcess("the process of the call could not be prepared")
        broken.__cause__ = raised
        return Answer(None, broken, refusal)
    return Answer(None, raised, refusal)


def _end(answer: bytes) -> int:
    """Where an answer ends, without the large buffers behind it."""
    return HEAD_BYTES + int.from_bytes(answer[1:HEAD_BYTES], "little")


def _long_answer(call: _core.Call, first: bytes) -> bytes:
    """All of an answer that begins so, without the large buffers behind it."""
    if first[:1] != WITH_BUFFERS:
        return call.answer()
    end = _end(first)
    return first[:end] if end <= len(first) else call.answer(end)


def _load(data: Union[bytes, memoryview], call: Optional[_core.Call] = None) -> tuple[Any, Optional[BaseException]]:
    """What a pickle holds, or what loading it raises. Large buffers of it are behind it in the answer of a process."""
    try:
        return (pickle.loads(data) if call is None else _load_with_buffers(memoryview(data), call)), None
    except Exception as error:
        return None, error
    except BaseException as error:
        if threading.current_thread() is threading.main_thread():
            raise Unclear(error) from None
        return None, error


def _load_with_buffers(data: memoryview, call: _core.Call) -> Any:
    numbers = data.cast("B")
    count = int.from_bytes(numbers[:8], "little")
    first = 8 + 8 * count
    sizes = [int.from_bytes(numbers[at : at + 8], "little") for at in range(8, first, 8)]
    # The memory is taken first and the file put there, as an object of `mmap` that has a file holds a descriptor of it too.
    memory = mmap.mmap(-1, buffers.places(sizes)[-1], mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held = ctypes.c_char.from_buffer(memory)
    call.map_answer(ctypes.addressof(held), len(memory), buffers.up_to_page(HEAD_BYTES + len(data)))
    del held
    return pickle.loads(data[first:], buffers=buffers.parts(memory, sizes))


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
