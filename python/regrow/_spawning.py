"""Pickles what `multiprocessing` lets a process have when it is spawned, and at no other time: locks, queues, pipes.

Such a thing is pickled as the numbers of the descriptors that the process will have, or as a name, or with the key of the
family. Nothing of that can be in an image, which is made before any process is: it goes with the order of each call.
"""

from __future__ import annotations

import io
import os
import pickle
import weakref
from collections.abc import Callable, Mapping
from multiprocessing import context, reduction, synchronize
from typing import Any, NamedTuple

from regrow._call.order import SHARED_FD, Shared


class Descriptor:
    """A copy of a descriptor, which is closed when nobody needs it any more."""

    __slots__ = ("__weakref__", "_number")

    def __init__(self, fd: int) -> None:
        self._number = os.dup(fd)
        weakref.finalize(self, os.close, self._number)

    def fileno(self) -> int:
        """Its number in this process."""
        return self._number


class Spawned(NamedTuple):
    """A pickle for one process that is to be spawned, and what it shares with it."""

    data: bytes
    shared: list[Shared]


class _Recorder:
    """Stands where `multiprocessing` looks for the process that it pickles for."""

    def __init__(self) -> None:
        self.shared: list[Shared] = []

    def duplicate_for_child(self, fd: int) -> int:
        """The number that a descriptor of this process has in the other one."""
        self.shared.append(Descriptor(fd))
        return SHARED_FD + len(self.shared) - 1

    def DupFd(self, number: int) -> Any:  # noqa: N802
        """What finds a descriptor in the other process, by its number there."""
        return _Given(number)


class _Given:
    """A descriptor that the process has from its start."""

    def __init__(self, number: int) -> None:
        self.number = number

    def detach(self) -> int:
        """Its number, which is the caller's to close."""
        return os.dup(self.number)


def refuse_forked(obj: Any) -> None:
    """Raises an exception if no process but a forked one can have something."""
    if isinstance(obj, synchronize.SemLock) and vars(obj)["_semlock"].name is None:
        raise RuntimeError(
            "a lock, queue or event of the start method 'fork' cannot be shared with a fresh process: "
            "make it with regrow.get_context()"
        )


class _Pickler(reduction.ForkingPickler):
    """Pickles what `multiprocessing` pickles, and refuses what no process but a forked one can have."""

    def reducer_override(self, obj: Any) -> Any:
        refuse_forked(obj)
        return NotImplemented


def dumps(value: Any) -> bytes:
    """A pickle of what `multiprocessing` pickles."""
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def reducers() -> Mapping[type, Callable[[Any], Any]]:
    """What `multiprocessing` has reduce the instances of a type."""
    table: Mapping[type, Callable[[Any], Any]] = _Pickler(io.BytesIO()).dispatch_table
    return table


def pickle_for_spawning(value: Any, dumps: Callable[[Any], bytes]) -> Spawned:
    """A pickle of a value for a process that is to be spawned."""
    recorder = _Recorder()
    context.set_spawning_popen(recorder)  # type: ignore[arg-type]
    try:
        return Spawned(dumps(value), recorder.shared)
    finally:
        context.set_spawning_popen(None)


def is_for_spawning(value: Any, spawned: Spawned, dumps: Callable[[Any], bytes]) -> bool:
    """Whether a value is pickled in another way for a process that is to be spawned than for any other."""
    if spawned.shared:
        return True
    try:
        return dumps(value) != spawned.data
    except (RuntimeError, TypeError, pickle.PicklingError):
        # What `multiprocessing` says of things that only a process that is being spawned may have.
        return True
