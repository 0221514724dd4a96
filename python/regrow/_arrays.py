"""Large arrays of numpy on the way to the processes of calls: they are mapped there, and not copied.

array in memory        written once to a memory file; the order has the number of its descriptor, and the process maps it
part of a mapped file  the order has the name of the file, and the process maps it again
"""

from __future__ import annotations

import functools
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Literal, Optional

import numpy as np

from regrow._call.buffers import MemoryFile, mapped
from regrow._call.order import SHARED_FD, Shared

#: How a process may use an array: read it, change it for itself, or change it for all processes that map it.
Mode = Literal["r", "c", "r+"]

_ACCESS = {"r": mmap.ACCESS_READ, "c": mmap.ACCESS_COPY, "r+": mmap.ACCESS_WRITE}
#: The most memory files of one call. Further arrays are copied.
_MOST_FILES = 32


class Arrays:
    """The large arrays of some calls. An array that several of them have is written once."""

    def __init__(self, least_bytes: Optional[float], mode: Mode) -> None:
        self._least_bytes = least_bytes
        self._mode: Mode = mode
        self._lock = threading.Lock()
        #: By the identity of an array that is still alive.
        self._files: dict[int, tuple[weakref.ref[Any], MemoryFile]] = {}

    def forget(self) -> None:
        """Has the next calls write their arrays again: their elements may have changed."""
        with self._lock:
            self._files.clear()

    def reducers(self, shared: list[Shared]) -> dict[type, Callable[[Any], Any]]:
        """What reduces the arrays of one call. The descriptors that its process needs are added to `shared`."""

        def reduce(array: Any) -> Any:
            return _reduced_to_file(array) or self._reduced_to_memory_file(array, shared) or _reduced(array)

        return {np.ndarray: reduce, np.memmap: reduce}

    def _reduced_to_memory_file(self, array: Any, shared: list[Shared]) -> Any:
        is_large = self._least_bytes is not None and array.nbytes > self._least_bytes
        if not is_large or array.dtype.hasobject or len(shared) >= _MOST_FILES:
            return None
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        file = self._file_of(array, order)
        if file in shared:
            number = shared.index(file)
        else:
            number = len(shared)
            shared.append(file)
        return from_memory_file, (SHARED_FD + number, file.size, self._mode, array.dtype, array.shape, order)

    def _file_of(self, array: Any, order: str) -> MemoryFile:
        key = id(array)
        with self._lock:
            found = self._files.get(key)
            if found is not None and found[0]() is array:
                return found[1]
            file = MemoryFile([_elements(np.asarray(array, order=order))])  # type: ignore[call-overload]
            self._files[key] = weakref.ref(array, functools.partial(self._drop, key)), file
            return file

    def _drop(self, key: int, gone: weakref.ref[Any]) -> None:
        # No lock: a garbage collection may call it in the thread that has it.
        found = self._files.get(key)
        if found is not None and found[0] is gone:
            self._files.pop(key, None)


def _elements(array: np.ndarray[Any, Any]) -> memoryview:
    """The memory of an array whose elements follow each other."""
    return memoryview(array.reshape(-1, order="A").view(np.uint8).data)


def from_memory_file(number: int, size: int, mode: Mode, dtype: Any, shape: tuple[int, ...], order: Literal["C", "F"]) -> Any:
    """In the process of a call: an array in a memory file."""
    return np.ndarray(shape, dtype, buffer=mapped(number, size, _ACCESS[mode]), order=order)


def from_file(
    path: str, mode: Mode, offset: int, dtype: Any, shape: tuple[int, ...], strides: Optional[tuple[int, ...]]
) -> Any:
    """In the process of a call: an array in a mapped file. `strides` are given if its elements do not follow each other."""
    if strides is None:
        return np.memmap(path, dtype, mode, offset, shape)
    return np.ndarray(shape, dtype, buffer=np.memmap(path, np.uint8, mode), offset=offset, strides=strides)


def reduce_result(array: Any) -> Any:
    """In the process of a call: an array of its result, which is mapped by nobody but the process."""
    return _reduced_to_file(array) or _reduced(array)


def _reduced(array: Any) -> Any:
    """The array itself, copied."""
    return np.array(array, copy=None, subok=False).__reduce_ex__(5) if type(array) is np.memmap else array.__reduce_ex__(5)


def _reduced_to_file(array: Any) -> Any:
    """Where in a mapped file the elements of an array are; None if they are in none."""
    root = _root(array)
    if root is None or root.filename is None or root.mode == "c" or array.dtype.hasobject or not os.path.exists(root.filename):
        return None
    offset = root.offset + _address(array) - _address(root)
    mode = "r" if root.mode == "r" else "r+"
    strides = None if array.flags.c_contiguous else array.strides
    return from_file, (os.fspath(root.filename), mode, offset, array.dtype, array.shape, strides)


def _root(array: Any) -> Any:
    """The array that has mapped the memory of an array; None if that is not mapped by numpy."""
    while array is not None:
        if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
            return array
        array = getattr(array, "base", None)
    return None


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
