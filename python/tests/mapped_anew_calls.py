"""What `test_mapped_anew` calls: functions that map memory of the image anew or drop it, so that nothing is in it."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from typing import NoReturn

#: Wherever it lies, so much of it has a whole table of pages of its own.
BYTES = 6 << 20
PAGE = bytes([0xA5]) * 4096

LIBC = ctypes.CDLL(None)
LIBC.sbrk.restype = LIBC.mmap.restype = ctypes.c_void_p
LIBC.sbrk.argtypes = [ctypes.c_long]
LIBC.brk.argtypes = [ctypes.c_void_p]
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
FIXED = 0x10
MADV_PAGEOUT = 21

# Memory of the image: a part of the heap, and a mapping. What `malloc` takes later lies behind the one.
HEAP: int = LIBC.sbrk(BYTES)
MAPPING: int = LIBC.mmap(None, BYTES, PROTECTION, FLAGS, -1, 0)
ctypes.memset(HEAP, PAGE[0], BYTES)
ctypes.memset(MAPPING, PAGE[0], BYTES)

# Pages of the image in the place of a file's.
FILE_BYTES = 1 << 20
with open(os.path.realpath(sys.executable), "rb") as file:
    OF_FILE: int = LIBC.mmap(None, FILE_BYTES, PROTECTION, mmap.MAP_PRIVATE, file.fileno(), 0)
ctypes.memset(OF_FILE, PAGE[0], FILE_BYTES)


def lost_pages() -> int:
    """How many of these pages are not as the image has them."""
    there = ctypes.string_at(HEAP, BYTES) + ctypes.string_at(MAPPING, BYTES)
    return sum(there[at : at + len(PAGE)] != PAGE for at in range(0, len(there), len(PAGE)))


def give_heap_back(*, takes_it_again: bool) -> NoReturn:
    """Gives the end of the heap back, and takes as much again, or not. The process dies: it lacks what lay behind."""
    end: int = LIBC.sbrk(0)
    LIBC.brk(HEAP)
    if takes_it_again:
        LIBC.brk(end)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def replace_mapping() -> NoReturn:
    """Maps the like in the place of the mapping, as allocators do that give memory back."""
    if LIBC.mmap(MAPPING, BYTES, PROTECTION, FLAGS | FIXED, -1, 0) == MAPPING:
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def drop_pages_of_file() -> None:
    """Has the file's pages be there."""
    assert LIBC.madvise(OF_FILE, FILE_BYTES, mmap.MADV_DONTNEED) == 0


def lost_pages_of_file() -> int:
    """How many of these pages are not as the image has them."""
    there = ctypes.string_at(OF_FILE, FILE_BYTES)
    return sum(there[at : at + len(PAGE)] != PAGE for at in range(0, len(there), len(PAGE)))


def write_mapping() -> None:
    """Has the process pages of its own there."""
    ctypes.memset(MAPPING, 0, BYTES)


def nothing() -> None:
    """Writes nothing."""


def free_mapping() -> None:
    """Lets the kernel drop these pages when it is short of memory."""
    assert LIBC.madvise(MAPPING, BYTES, mmap.MADV_FREE) == 0


def lost_pages_when_memory_is_short() -> int:
    """How many are lost where the kernel takes what it may drop."""
    assert LIBC.madvise(MAPPING, BYTES, MADV_PAGEOUT) == 0
    return lost_pages()
