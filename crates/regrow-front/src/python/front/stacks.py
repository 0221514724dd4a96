"""Gives back the stacks of threads that have ended.

The GNU C library keeps them for the next threads, from 2.42 on with guard pages (`MADV_GUARD_INSTALL`).
An image has none of those.
"""

from __future__ import annotations

import _ctypes
import posix

from .ground import ITSELF, Address, Function, Number


def keeps_guards() -> bool:
    """Whether the C library keeps stacks with guard pages, and has had threads."""
    try:
        library, _, version = (posix.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        is_new = library == "glibc" and tuple(map(int, version.split("."))) >= (2, 42)
        alone = _ctypes.dlsym(ITSELF, "__libc_single_threaded") if is_new else 0
    except (OSError, ValueError):
        return False
    return is_new and not Number.from_address(alone).value & 0xFF


def drop_stacks() -> None:
    """Has a thread of the C library's begin and end. Where it cannot begin, the stacks stay."""

    def call(name: str, *arguments: Address | None) -> int:
        function = Function(_ctypes.dlsym(ITSELF, name))
        function.restype = Number
        return int(function(*arguments))

    attributes, thread = (Address * 8)(), Address()
    at = Address(_ctypes.addressof(attributes))
    call("pthread_attr_init", at)
    # More than the C library keeps, which is 40 MiB: it gives back all that nobody uses then, this one too.
    call("pthread_attr_setstacksize", at, Address(48 << 20))
    # What the thread calls takes no argument, and returns at once.
    work = Address(_ctypes.dlsym(ITSELF, "getppid"))
    if call("pthread_create", Address(_ctypes.addressof(thread)), at, work, None) == 0:
        call("pthread_join", Address(thread.value), None)
    call("pthread_attr_destroy", at)
