"""The front end for Python: an interpreter that has imported modules stops itself, and every run continues from there.

Regrow joins the parts of this folder to one program and gives it to the interpreter by `-c`. The program has this part
whole, and every other part from its first definition on: all parts share their names, and this part alone imports.
What a front end is told and what it tells is the page `docs/warm.md`.

    prepare: imports, setup -- report -- SIGSTOP -- renew: secrets -- gate -- order: environment, streams -- program
                               every run begins here ^                ^ and waits here for its order

Without `REGROW_WARM`, but with `REGROW_ORDER`, nothing stops: the order is there from the start, and what a stop makes
stale (secrets, environment, streams) is the process's own.

What the program must not notice:

- `sys.modules` is that of an interpreter with the same preloads: the front end takes out what it alone needs.
- `__main__` is a module of its own, without the front end's names.
- The front end leaves a program that it cannot read or compile, and descriptors that the interpreter does not start
  with, to the interpreter itself: the process executes it.
- At the end the front end drops what the run has made, so that finalizers run and files are written; what was prepared
  stays. Where that is not enough (threads that go on, a stream that cannot be written to, warnings of files left open)
  the interpreter finalizes as ever, as with `REGROW_PYTHON_FINALIZE`.

This part has what all parts use: the interpreter's own modules and settings, functions of the C library, and how it
reads bytes.
"""

from __future__ import annotations

import sys

# The line above and `-c` import a module each: it is taken out, unless the interpreter had it before.
LINECACHE = None
if next(reversed(sys.modules)) == "__future__":
    del sys.modules["__future__"]
if next(reversed(sys.modules)) == "linecache":
    LINECACHE = sys.modules.pop("linecache")
# The modules of a plain interpreter at this point.
PLAIN_MODULES = frozenset(sys.modules)

import posix


def take_low_numbers(first: int) -> list[int]:
    """Opens descriptors until the next one has this number, or as many as there may be."""
    taken = [posix.open("/dev/null", posix.O_RDONLY | posix.O_CLOEXEC)]
    try:
        while taken[-1] < first - 1:
            # It is not inherited either.
            taken.append(posix.dup(taken[0]))
    except OSError:
        pass
    return taken


# The first number that what modules open can have while an image is made, and the descriptors before it (`held_files`).
FIRST_HELD = min(250, posix.sysconf("SC_OPEN_MAX") // 4)
LOW_NUMBERS: list[int] = []
if b"REGROW_WARM" in posix.environ and b"REGROW_ORDER" not in posix.environ:
    LOW_NUMBERS = take_low_numbers(FIRST_HELD)

import _ctypes
import _frozen_importlib_external as external
import _imp
import _io
import _signal  # type: ignore[import-not-found]
import _thread
import _warnings
import _weakref
import binascii
import gc
import marshal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

for _name in frozenset(sys.modules) - PLAIN_MODULES:
    del sys.modules[_name]

ENCODING = sys.getfilesystemencoding()
ERRORS = sys.getfilesystemencodeerrors()
EXECUTABLE = posix.readlink("/proc/self/exe")
VERSION = sys.version_info[:2]
# Whether the interpreter leaves the program's own entry out of `sys.path`.
SAFE_PATH = bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))
# Whether the interpreter shows warnings that it hides by default. Those of its end belong to no line of a program.
SHOWS_WARNINGS = sys.flags.dev_mode or any(option[:1] != "i" for option in sys.warnoptions)
# Objects that no run frees, so that their pages stay as they are: those that fill the free blocks (see `holes`), and
# those that a run replaces.
HELD: list[object] = []
# Buffers of streams that were opened ahead. The collector does not list what was there before the image was made.
AHEAD: list[object] = []
# How an order begins: the name of the format and its version.
ORDER_HEAD = b"regrow 1 "
# What Regrow sets for the loader, in front of the last variable, `REGROW_WARM`.
BIND_NOW = b"LD_BIND_NOW=1"
# The exit status that stands for an end by SIGINT.
INTERRUPTED = -1
# The names that the interpreter gives to its module `__main__`.
BORN = {name: globals()[name] for name in ("__name__", "__package__", "__loader__", "__spec__", "__builtins__")}


def decode(text: bytes) -> str:
    """Decodes an argument, a variable or a path as the interpreter does."""
    return text.decode(ENCODING, ERRORS)


def encode(text: str) -> bytes:
    """The inverse of `decode`."""
    return text.encode(ENCODING, ERRORS)


# Functions of the C library and of the interpreter. The package `ctypes` imports further modules; its core does not.


class Address(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """A pointer in memory, read as a number."""

    _type_ = "P"


class Text(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """A pointer in memory to a text that ends with a NUL, read as that text."""

    _type_ = "z"


class Number(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """A number of C, an `int`."""

    _type_ = "i"


class Object(_ctypes._SimpleCData):  # type: ignore[type-arg]
    """An object of Python, as functions of the interpreter take it."""

    _type_ = "O"


class Function(_ctypes.CFuncPtr):
    """A function in C, called with the interpreter's lock held. It returns nothing unless its `restype` is set."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    _restype_ = None


ITSELF = _ctypes.dlopen(None, 2)  # type: ignore[arg-type]
BEFORE_FORK = Function(_ctypes.dlsym(ITSELF, "PyOS_BeforeFork"))
AFTER_FORK = Function(_ctypes.dlsym(ITSELF, "PyOS_AfterFork_Child"))
FLUSH_C_STREAMS = Function(_ctypes.dlsym(ITSELF, "fflush"))
REAL_PATH = Function(_ctypes.dlsym(ITSELF, "realpath"))
REAL_PATH.restype = Text
# The two words of the gate. The agent fills in the address of a function that waits for the order, and its argument.
GATE: Any = (Address * 2)()
C_ENVIRON = Address.from_address(_ctypes.dlsym(ITSELF, "environ"))


def texts_at(address: int | None) -> Iterator[bytes]:
    """Reads the texts that an array of pointers in memory points to."""
    while address and (text := Text.from_address(address).value) is not None:
        yield text
        address += 8


def content_of(path: str) -> bytes:
    """Reads a whole file."""
    with _io.FileIO(path) as file:
        return file.readall()


def read_all(number: int) -> bytes:
    """Reads a descriptor to its end."""
    pieces = [posix.read(number, 16384)]
    while pieces[-1]:
        pieces.append(posix.read(number, 1 << 20))
    return b"".join(pieces) if len(pieces) > 2 else pieces[0]


def variables_of(entries: Iterable[bytes]) -> dict[bytes, bytes]:
    """Reads an environment as the interpreter does: the first entry of a name counts, one without `=` does not."""
    variables: dict[bytes, bytes] = {}
    for name, equals, value in (entry.partition(b"=") for entry in entries):
        if equals:
            variables.setdefault(name, value)
    return variables
