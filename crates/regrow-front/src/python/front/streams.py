"""Makes the standard streams of a run as the interpreter does at its start."""

from __future__ import annotations

import _io
import posix
import sys
from typing import Any, Optional

from .ground import AHEAD, VERSION

Kind = Optional[tuple[int, int, int]]


class Stream:
    """One of `sys.stdin`, `sys.stdout`, `sys.stderr`: each run makes it afresh, in the object that modules may hold."""

    def __init__(self, number: int, encoding: str, errors: str, unbuffered: bool) -> None:
        name = ("stdin", "stdout", "stderr")[number]
        self.number = number
        self.angled = f"<{name}>"
        self.mode = "w" if number else "r"
        original: Any = getattr(sys, f"__{name}__")
        # An object of its own that a module has put into `sys` stays there.
        self.names = [f"__{name}__", *([name] if getattr(sys, name) is original else [])]
        self.text: Any = _io.TextIOWrapper.__new__(_io.TextIOWrapper) if original is None else original
        self.replaced: object = None
        self.unbuffered = unbuffered
        self.buffered: Any = None if unbuffered and number else _io.BufferedWriter if number else _io.BufferedReader
        self.encoding = getattr(original, "encoding", encoding)
        self.errors = getattr(original, "errors", errors)
        # The kind of descriptor that it was opened ahead for.
        self.kind: Kind = None

    def open_ahead(self, expected: Kind, is_terminal: bool) -> None:
        """Opens it for what runs are expected to have: they need not open it again. Where that cannot be it stays."""
        kept = posix.dup(self.number)
        ends = like(expected, is_terminal)
        if ends:
            posix.dup2(ends[-1], self.number)
            found = kind_of(self.number)
            # The device alone decides nothing.
            if expected is not None and found is not None and found[::2] == expected[::2]:
                self.kind, self.replaced = expected, self.open()
                AHEAD.append(self.replaced)
            posix.dup2(kept, self.number)
        for number in (kept, *ends):
            posix.close(number)

    def open(self) -> object:
        """Makes the stream as the interpreter does at its start, `None` for a closed descriptor; returns its buffer."""
        text = self.text
        try:
            raw: Any = _io.FileIO(self.number, self.mode + "b", False)
        except OSError as error:
            if error.errno != 9:
                raise
            text = buffer = None
        else:
            buffer = raw if self.buffered is None else self.buffered(raw, buffer_size(raw._blksize))
            raw.name = self.angled
            by_line = not self.unbuffered and (self.number == 2 or raw.isatty())
            text.__init__(buffer, self.encoding, self.errors, "\n", by_line, self.unbuffered)
            text.mode = self.mode
        for name in self.names:
            setattr(sys, name, text)
        return buffer


def usual_kind(number: int) -> Kind:
    """Looks at what most runs have: nothing to read, or a pipe to write to."""
    ends = posix.pipe() if number else (posix.open("/dev/null", posix.O_RDONLY),)
    kind = kind_of(ends[-1])
    for end in ends:
        posix.close(end)
    return kind


def like(kind: Kind, is_terminal: bool) -> tuple[int, ...]:
    """Opens descriptors, of which the last is of a kind; none where that is not known."""
    if kind is None:
        return ()
    if is_terminal:
        return posix.openpty()
    if kind[0] == 0o010000:
        return posix.pipe()
    if kind[0] == 0o100000:
        return (posix.memfd_create("stream", 0),)
    if kind[:2] == (0o020000, posix.stat("/dev/null").st_rdev):
        return (posix.open("/dev/null", posix.O_RDWR),)
    return ()


def kind_of(number: int) -> Kind:
    """Looks at what decides how the interpreter makes a stream of a descriptor; `None` for one that is closed."""
    try:
        state = posix.fstat(number)
    except OSError:
        return None
    return state.st_mode & 0o170000, state.st_rdev, state.st_blksize


def buffer_size(block: int) -> int:
    """Computes how much the interpreter buffers, from the size of a file's blocks."""
    least = _io.DEFAULT_BUFFER_SIZE
    return max(min(block, 1 << 23), least) if VERSION >= (3, 14) else block if block > 1 else least


def standard_streams() -> list[Stream]:
    """Describes the three streams, with the encoding that the interpreter has chosen for them."""
    known = [stream for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__) if stream is not None]
    if not known:
        raise RuntimeError("the standard descriptors are all closed while the image is prepared")
    encoding = known[0].encoding
    strict = [stream.errors or "strict" for stream in (sys.__stdin__, sys.__stdout__) if stream is not None]
    errors = (*(2 * (strict[:1] or ["strict"])), "backslashreplace")
    unbuffered = bool(getattr(known[0], "write_through", False))
    return [Stream(number, encoding, errors[number], unbuffered) for number in range(3)]


def flush_streams() -> bool:
    """Flushes `sys.stdout` and `sys.stderr`; returns whether all was written."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException:  # the interpreter asks no further either
            return False
    return True
