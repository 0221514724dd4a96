"""Writes the order of a call; `regrow._call.worker` reads it in the process."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from regrow import _core
from regrow._call import buffers
from regrow._call.worker import carry
from regrow._starter import Starter

#: What the image is made with: a call without an order.
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
    return _core.with_key(dumps((function, args, kwargs)))


def order_with_buffers(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shared: Sequence[Shared] = ()
) -> tuple[bytes, Sequence[Shared]]:
    """The same, and what the process has copies of the descriptors of: large buffers are in a memory file."""
    data, found = _core.pickled_call(function, args, kwargs)
    if found:
        sizes = [len(buffer) for buffer in found]
        data = pickled((carry, (SHARED_FD + len(shared), sizes, data), {}))
        shared = (*shared, buffers.MemoryFile(found))
    return _core.with_key(data), shared


def prepare(starter: Starter) -> None:
    """Has the image made that the processes of calls come from."""
    starter.prepare(_words(), _FUNCTION)


def place_of(function: Any) -> str:
    """The place of a call, by which a pool learns what comes next: the function's module and name."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"


def shared_fds(shared: Sequence[Shared]) -> list[tuple[int, int]]:
    """The descriptors that a call shares, and their numbers in its process."""
    return [(one.fileno(), number) for number, one in enumerate(shared, SHARED_FD)]


def _words() -> list[str]:
    """What the process of a call has as `sys.argv`."""
    return list(getattr(sys, "argv", []))
