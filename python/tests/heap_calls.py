"""What `test_heap` calls: functions that give the end of the heap back to the kernel."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import NoReturn

#: Whatever addresses the heap has, so much of it has a whole table of pages of its own.
BYTES = 6 << 20
FILLED = 0xA5

LIBC = ctypes.CDLL(None)
LIBC.sbrk.restype = ctypes.c_void_p
LIBC.sbrk.argtypes = [ctypes.c_long]
LIBC.brk.argtypes = [ctypes.c_void_p]

# The image has it. What `malloc` takes later lies behind it.
START: int = LIBC.sbrk(BYTES)
ctypes.memset(START, FILLED, BYTES)


def lost_pages() -> int:
    """How many of its pages are not as the image has them."""
    there = ctypes.string_at(START, BYTES)
    return sum(there[at : at + 4096] != bytes([FILLED]) * 4096 for at in range(0, BYTES, 4096))


def give_back(*, takes_it_again: bool) -> NoReturn:
    """Gives it back, and takes as much again, or not. What is left of the process is no program any more: it dies."""
    end: int = LIBC.sbrk(0)
    LIBC.brk(START)
    if takes_it_again:
        LIBC.brk(end)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
