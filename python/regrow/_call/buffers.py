"""Large buffers of what a call is given and of what it returns, arrays of numpy above all: they are mapped, and not pickled.

    caller   pickle without buffers ──order──────────> process   maps the memory file, loads the pickle
             buffers ──written once──> memory file ──>
    caller   maps the answer's file  <──answer──────── process   pickle without buffers, buffers behind it

What is mapped is private: whoever has it may write to it, and nobody else sees that. A memory file has no name, and goes with
the last process that has it, however the caller ends. Each buffer begins on a page of its own. This is the protocol 5 of
pickles (PEP 574): what an object has in a buffer is the object's to say.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import weakref
from collections.abc import Iterable, Sequence
from pickle import PickleBuffer

#: A shorter buffer is in the pickle: to make a file and to map it would take longer than to copy it.
LEAST_BYTES = 64 * 1024
#: How many memory files there may be before further buffers are pickled. Each call that waits for its turn has one.
_MOST_FILES = 64

#: Those that there are.
_files: weakref.WeakSet[MemoryFile] = weakref.WeakSet()


def take(found: list[memoryview], buffer: PickleBuffer) -> bool:
    """Adds a large buffer to those that are not pickled. True where it is to be pickled; see `pickle.dumps`."""
    try:
        data = buffer.raw()
    except BufferError:
        # It is in no one piece. The pickler has its own words for that.
        return True
    if len(data) < LEAST_BYTES:
        return True
    found.append(data)
    return False


def take_for_file(found: list[memoryview], buffer: PickleBuffer) -> bool:
    """The same for buffers that are to be in a memory file, of which there may be too many."""
    return len(_files) >= _MOST_FILES or take(found, buffer)


class MemoryFile:
    """Buffers in a file that has no name."""

    __slots__ = ("__weakref__", "_number", "size")

    def __init__(self, buffers: Sequence[memoryview]) -> None:
        self._number = os.memfd_create("regrow-array", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self._number)
        _files.add(self)
        write(self._number, 0, buffers)
        self.size = places([len(buffer) for buffer in buffers])[-1]

    def fileno(self) -> int:
        """Its descriptor."""
        return self._number


def up_to_page(size: int) -> int:
    """The first page at or behind this place."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def places(sizes: Iterable[int]) -> list[int]:
    """Where buffers of these sizes begin in the pages that they have, and where the last one's pages end."""
    return list(itertools.accumulate(map(up_to_page, sizes), initial=0))


def write(number: int, start: int, buffers: Sequence[memoryview]) -> None:
    """Writes buffers to a file, from this place on, up to the end of the last one's pages."""
    starts = places([len(buffer) for buffer in buffers])
    os.ftruncate(number, start + starts[-1])
    for rest, place in zip(buffers, starts):
        at = start + place
        while rest:
            written = os.pwrite(number, rest, at)
            rest, at = rest[written:], at + written


def mapped(number: int, size: int, access: int = mmap.ACCESS_COPY) -> mmap.mmap:
    """A file that begins with this many bytes, in memory; whoever writes to it has a copy of his own. Raises `MemoryError`."""
    try:
        return mmap.mmap(number, size, access=access)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"there is no memory to map {size} bytes") from None
        raise


def parts(memory: mmap.mmap, sizes: Sequence[int]) -> list[memoryview]:
    """The buffers that have these sizes and the pages of this memory."""
    view = memoryview(memory)
    return [view[place : place + size] for place, size in zip(places(sizes), sizes)]
