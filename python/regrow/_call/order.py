"""Writes the order of a call and starts a process for it; `regrow._call.worker` reads the order there."""

from __future__ import annotations

import functools
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from multiprocessing import process as mp_process
from typing import Any, Optional, Protocol

from regrow import _core
from regrow._call import buffers
from regrow._call.worker import ANSWER_FD, ORDER_FD, carry
from regrow._starter import Starter

#: The longest order of which the bytes are part of the start; a longer one is in a file.
_LONGEST_ORDER = 32 * 1024
_FUNCTION = b"regrow._call.worker:call\n"

#: The number that the first descriptor which a call shares has in its process.
SHARED_FD = 64


class Shared(Protocol):
    """Something with a descriptor, which is open as long as it lives."""

    def fileno(self) -> int:
        """The descriptor."""


def pickled(value: Any) -> bytes:
    """A pickle of a value."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def order_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dumps: Callable[[Any], bytes] = pickled) -> bytes:
    """The order of a call; see `regrow._call.worker`. `dumps` makes the pickle."""
    return _key() + dumps((function, args, kwargs))


def order_with_buffers(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shared: Sequence[Shared] = ()
) -> tuple[bytes, Sequence[Shared]]:
    """The same, and what the process has copies of the descriptors of: large buffers are in a memory file."""
    found: list[memoryview] = []
    take = functools.partial(buffers.take_for_file, found)
    data = pickle.dumps((function, args, kwargs), pickle.HIGHEST_PROTOCOL, buffer_callback=take)
    if found:
        sizes = [len(buffer) for buffer in found]
        data = pickled((carry, (SHARED_FD + len(shared), sizes, data), {}))
        shared = (*shared, buffers.MemoryFile(found))
    return _key() + data, shared


def _key() -> bytes:
    """What processes of one family know one another by, as an order begins with it."""
    key = bytes(mp_process.current_process().authkey)
    return len(key).to_bytes(2, "little") + key


def prepare(starter: Starter) -> None:
    """Has the image made that the processes of calls come from."""
    starter.prepare(_words(), _FUNCTION)


def place_of(function: Any) -> str:
    """The place of a call, by which a pool learns what comes next: the function's module and name."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"


def start_process(
    starter: Starter, order: bytes, memory_limit: Optional[int], place: str, shared: Sequence[Shared] = ()
) -> _core.Process:
    """Starts the process of a call with its order. It has copies of the shared descriptors, numbered from `SHARED_FD`."""
    fds = [(one.fileno(), number) for number, one in enumerate(shared, SHARED_FD)]
    if len(order) <= _LONGEST_ORDER:
        return _start(starter, _FUNCTION + order, fds, memory_limit, place)
    file = os.memfd_create("regrow-call", os.MFD_CLOEXEC)
    try:
        rest = memoryview(order)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.lseek(file, 0, os.SEEK_SET)
        return _start(starter, _FUNCTION, [(file, ORDER_FD), *fds], memory_limit, place)
    finally:
        os.close(file)


def _start(starter: Starter, call: bytes, fds: list[tuple[int, int]], memory_limit: Optional[int], place: str) -> _core.Process:
    return starter.start(_words(), call=call, answer=ANSWER_FD, fds=fds, memory_limit=memory_limit, place=place)


def _words() -> list[str]:
    """What the process of a call has as `sys.argv`."""
    return list(getattr(sys, "argv", []))
