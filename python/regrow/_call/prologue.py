"""What a call does in its process before its function and its arguments are loaded.

A pickle is loaded from its beginning to its end. In an order with a prologue the function is `Prologue`, and loading that
is to begin: variables are set and an initializer is called, and what is loaded behind it finds both. What stands
in the function's place then is `Carrier`, and the function is its first argument.

    order    (Prologue(initializer, environment, dumps), (function, args, kwargs), {})
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any, Optional

from regrow._call import worker

Dumps = Callable[[object], bytes]
#: What every pickle has in the same way.
_PLAIN = (type(None), bool, int, float, str, bytes)


class Prologue:
    """The beginning of a call, in the order of the call.

    `initializer` is a pickle of a function and its arguments, which is called. `environment` is set in `os.environ`. `dumps` is
    what pickles the value or the exception of the call.
    """

    __slots__ = ("dumps", "environment", "initializer")

    def __init__(
        self, initializer: Optional[bytes], environment: Optional[dict[str, str]] = None, dumps: Optional[Dumps] = None
    ) -> None:
        self.initializer = initializer
        self.environment = environment
        self.dumps = dumps

    def __reduce__(self) -> Any:
        return begin, (self.initializer, self.environment, self.dumps)


class Pickled:
    """A value that is pickled already: loading this is loading that."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> Any:
        return pickle.loads, (self.data,)


class Carrier:
    """Calls the function."""

    __slots__ = ("_dumps",)

    def __init__(self, dumps: Optional[Dumps]) -> None:
        self._dumps = dumps

    def __call__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = function(*args, **kwargs)
        if self._dumps is None or type(value) in _PLAIN:
            return value
        return Pickled(self._dumps(value))


def begin(initializer: Optional[bytes], environment: Optional[dict[str, str]], dumps: Optional[Dumps]) -> Carrier:
    """Begins a call in its process, and gives what carries it out."""
    if environment:
        os.environ.update(environment)
    if dumps is not None:
        worker.dumps = dumps
    if initializer is not None:
        initialize(initializer)
    return Carrier(dumps)


def initialize(initializer: bytes) -> None:
    """Calls an initializer in the process of a call. What it raises is told apart from what the function raises."""
    from regrow._errors import BrokenProcess

    try:
        function, args = pickle.loads(initializer)
        function(*args)
    except Exception as error:
        raise BrokenProcess("the initializer failed in the process of the call") from error
