"""What `test_heap` calls: functions that give the end of the heap back to the kernel."""

from __future__ import annotations

import ctypes

#: Whatever addresses the heap has, this much of its end has a whole table of pages of its own.
BYTES = 6 << 20
FILLED = 0xA5

LIBC = ctypes.CDLL(None)
LIBC.sbrk.restype = ctypes.c_void_p
LIBC.sbrk.argtypes = [ctypes.c_long]
LIBC.brk.argtypes = [ctypes.c_void_p]

# The image has it, and nobody else knows of it.
START: int = LIBC.sbrk(BYTES)
ctypes.memset(START, FILLED, BYTES)


def is_whole() -> bool:
    """Whether the end of the heap is as the image has it."""
    return ctypes.string_at(START, BYTES) == bytes([FILLED]) * BYTES


def give_back(*, takes_it_again: bool) -> int:
    """Gives it back, and has as much again, or not."""
    if LIBC.sbrk(0) != START + BYTES:
        raise RuntimeError("somebody has taken more")
    failed = LIBC.brk(START)
    return failed or (LIBC.brk(START + BYTES) if takes_it_again else 0)
