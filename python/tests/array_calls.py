"""Functions on arrays that the tests call in other processes."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np


def given(value: Any) -> Any:
    """Its argument, as the process has got it."""
    return value


def is_mapped(array: Any) -> bool:
    """Whether the elements of an array are in a memory file that this process maps."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return "/memfd:" in line
    return False


def written(array: Any, value: float) -> tuple[bool, float]:
    """Writes to an argument; whether it is mapped, and what it has then."""
    array[...] = value
    return is_mapped(array), float(array.sum())


def is_one(*arrays: Any) -> bool:
    """Whether all arguments are one object."""
    return all(array is arrays[0] for array in arrays)


def twice(count: int) -> list[Any]:
    """One array twice, and another one."""
    array = np.arange(count, dtype="f8")
    return [array, array, np.ones(count, "i1")]


def read_only(count: int) -> Any:
    """An array that cannot be written to."""
    array = np.arange(count, dtype="f8")
    array.flags.writeable = False
    return array


def buffer_of(size: int) -> pickle.PickleBuffer:
    """A buffer of the standard library's alone."""
    return pickle.PickleBuffer(bytearray(b"x") * size)


def kind_and_sum(buffer: Any) -> tuple[bool, int, int]:
    """Whether a buffer can be written to, its length, and the sum of its bytes."""
    view = memoryview(buffer)
    return view.readonly, len(view), sum(view)


def descriptors() -> list[str]:
    """What is open in this process."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return found


def has_shared(array: Any) -> bool:
    """Whether the descriptor is open that the caller shares first."""
    return os.path.exists("/proc/self/fd/64")


def inherited(array: Any) -> str:
    """What a program that a call starts has open."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    child = os.posix_spawn("/bin/ls", ["ls", "-l", "/proc/self/fd"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)])
    os.close(write)
    text = b"".join(iter(lambda: os.read(read, 4096), b""))
    os.waitpid(child, 0)
    return text.decode()


def forked(array: Any) -> Any:
    """Has a copy of the process write to the argument and end; gives the argument."""
    child = os.fork()
    if child == 0:
        array[...] = 9
        os._exit(0)
    os.waitpid(child, 0)
    return array


class Shy:
    """Refuses to be pickled behind a large array."""

    def __reduce__(self) -> Any:
        raise ValueError("shy")


def half(count: int) -> Any:
    """A large array, and what cannot be pickled."""
    return [np.ones(count), Shy()]


def fails(array: Any) -> None:
    """Raises an exception that has a large array."""
    raise ValueError(array)
