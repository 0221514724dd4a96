"""What `test_exchange` calls: functions that look at the exchange of their process, and write there."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import threading
from typing import Any, NoReturn

#: What no call may find of another one.
SECRET = b"nobody else's secret"[::-1]
#: Where the exchange is in the control area of a body, how long it is, and where the order begins.
AT, BYTES, ORDER_AT = 8192 + 256 * 1024, 64 * 1024, 32 * 1024


def address() -> int:
    """Where the exchange is."""
    with open("/proc/self/maps") as maps:
        (start,) = [int(line.split("-")[0], 16) for line in maps if "regrow-control" in line]
    return start + AT


def content() -> bytes:
    """All that stands in the exchange, as two ways of looking at it show it."""
    mapped = ctypes.string_at(address(), BYTES)
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(address())
        assert memory.read(BYTES) == mapped
    return mapped


def is_empty() -> bool:
    """Whether nothing stands there."""
    return not content().strip(b"\0")


def secret_found(reversed_secret: bytes) -> list[str]:
    """The shared mappings and the exchange, where they hold a secret."""
    secret = reversed_secret[::-1]
    found = ["exchange"] if secret in content() else []
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            if "rw-s" in line or "regrow-control" in line:
                start, end = (int(number, 16) for number in line.split(" ")[0].split("-"))
                memory.seek(start)
                if secret in memory.read(end - start):
                    found.append(line)
    return found


def descriptors() -> list[int]:
    """The descriptors of the process, and the one that lists them."""
    return sorted(int(number) for number in os.listdir("/proc/self/fd"))


def same(value: Any) -> Any:
    """A value as it came."""
    return value


def raise_with(text: str) -> NoReturn:
    """An exception of any length."""
    raise ValueError(text)


def kill_after(text: bytes) -> NoReturn:
    """Has the beginning of an answer, and dies."""
    write(len(text), 0, text)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def write(answer_bytes: int, is_answered: int, answer: bytes, order_bytes: int = 0) -> None:
    """Writes an answer there."""
    ctypes.memmove(address(), struct.pack("=4I", order_bytes, answer_bytes, is_answered, 0), 16)
    ctypes.memmove(address() + 16, answer, len(answer))


def lie(answer_bytes: int, is_answered: int, answer: bytes) -> NoReturn:
    """Writes an answer there and ends at once."""
    write(answer_bytes, is_answered, answer, 2**32 - 1)
    os._exit(0)


def lie_everywhere(byte: int) -> NoReturn:
    """Writes all over the exchange."""
    ctypes.memset(address(), byte, BYTES)
    os._exit(0)


def write_from_thread() -> str:
    """Has a thread that writes there as long as the process lives."""
    place = address()

    def scribble() -> None:
        while True:
            ctypes.memset(place + BYTES - 64, 0xEE, 8)

    threading.Thread(target=scribble, daemon=True).start()
    return "as said"
