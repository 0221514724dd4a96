"""Reads the order of a run, or leaves the run to a plain interpreter."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
from typing import NoReturn

from .ground import EXECUTABLE, ORDER_HEAD, decode, read_all, variables_of


class Order:
    """The order of a run: arguments, environment, and the call that it may ask for."""

    def __init__(self, number: int, taken: bytes | None = None) -> None:
        """Reads it from a descriptor, unless a runner has taken it."""
        data = posix.read(number, 16384) if taken is None else taken
        if not self.take(data) and not (taken is None and self.take(data + read_all(number))):
            raise ValueError("the order is cut off")
        if taken is None:
            posix.close(number)

    def take(self, data: bytes) -> bool:
        """Takes an order apart; returns whether it is whole."""
        head, _, rest = data.partition(b"\n")
        numbers = head[len(ORDER_HEAD) :].split(b" ") if head.startswith(ORDER_HEAD) else (b"0", b"0", b"-1")
        words, variables, size = map(int, numbers)
        *texts, payload = rest.split(b"\0", words + variables)
        if len(texts) != words + variables or len(payload) != size:
            return False
        self.argv, self.environ = texts[:words], texts[words:]
        call, _, self.data = payload.partition(b"\n")
        self.call = decode(call)
        return True

    def variables(self) -> dict[bytes, bytes]:
        """The environment."""
        try:
            found: dict[bytes, bytes] = dict([entry.split(b"=", 1) for entry in self.environ])
        except ValueError:
            return variables_of(self.environ)
        return found if len(found) == len(self.environ) else variables_of(self.environ)


def become_plain(order: Order) -> NoReturn:
    """Executes the interpreter itself, which does the same run, and has its own words for what is wrong in it."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    posix.execve(EXECUTABLE, order.argv, variables_of(order.environ))
