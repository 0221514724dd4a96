"""What a call does in its process before its function and its arguments are loaded.

A pickle is loaded from its beginning to its end. In an order with a prologue the function is `Prologue`, and loading that
is to begin: an initializer is called, and what is loaded behind it finds what that did.
What stands in the function's place then is `carry_out`, and the function is its first argument.

    order    (Prologue(initializer, dumps), (function, args, kwargs), {})
"""

from __future__ import annotations

import pickle
from typing import Any, Optional

from regrow._call import worker


class Prologue:
    """The beginning of a call, in the order of the call.

    `initializer` is a pickle of a function and its arguments, which is called. `dumps` is what pickles the value or the
    exception of the call.
    """

    __slots__ = ("dumps", "initializer")

    def __init__(self, initializer: Optional[bytes], dumps: Any = None) -> None:
        self.initializer = initializer
        self.dumps = dumps

    def __reduce__(self) -> Any:
        return begin, (self.initializer, self.dumps)


def begin(initializer: Optional[bytes], dumps: Any) -> Any:
    """Begins a call in its process, and gives what carries it out."""
    if dumps is not None:
        worker.dumps = dumps
    if initializer is not None:
        initialize(initializer)
    return carry_out


def initialize(initializer: bytes) -> None:
    """Calls an initializer in the process of a call. What it raises is told apart from what the function raises."""
    from regrow._errors import BrokenProcess

    try:
        function, args = pickle.loads(initializer)
        function(*args)
    except Exception as error:
        raise BrokenProcess("the initializer failed in the process of the call") from error


def carry_out(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function."""
    return function(*args, **kwargs)
