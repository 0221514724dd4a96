"""Notes what modules read and change in the environment while the interpreter prepares itself."""

from __future__ import annotations

import posix
import sys
from collections.abc import Callable
from typing import Any, Optional

from .ground import BIND_NOW, C_ENVIRON, Address, content_of, texts_at, variables_of

Change = tuple[bytes, Optional[bytes]]


def initial_environment() -> int | None:
    """Finds the array of the environment on the stack; `None` where the stack is not as the kernel lays it out."""
    stack = int(content_of("/proc/self/stat").rpartition(b")")[2].split()[25])
    count = content_of("/proc/self/cmdline").count(b"\0")
    return stack + 8 * (count + 2) if Address.from_address(stack).value == count else None


def changes(before: dict[bytes, bytes], after: dict[bytes, bytes]) -> list[Change]:
    """Lists what turns one environment into another: names with their values, or with `None` where they are gone."""
    gone: list[Change] = [(name, None) for name in before if name not in after]
    return gone + [(name, value) for name, value in after.items() if before.get(name) != value]


class Environment:
    """Notes the names that are read, from its making until `finish`, and what has changed then."""

    def __init__(self) -> None:
        self.names: set[str | bytes] = set()
        entries = content_of("/proc/self/environ").split(b"\0")
        self.given = variables_of(entries)
        self.given.pop(b"REGROW_WARM", None)
        if entries[-3:-2] == [BIND_NOW] and entries.count(BIND_NOW) == 1:
            # Regrow has set it for the loader, and no run has it.
            name = BIND_NOW.partition(b"=")[0]
            for variables in (self.given, posix.environ):
                variables.pop(name, None)
            posix.unsetenv(name)
        self.array = initial_environment()
        self.had_os = "os" in sys.modules
        self.put_back: Callable[[], None] = lambda: None
        if self.had_os:
            self.put_back = record_reads(sys.modules["os"], self.names)

    def finish(self) -> tuple[list[Change], list[Change]]:
        """Ends the noting; returns what each run has to change again: in the C library, and in `os.environ`."""
        self.put_back()
        if "os" in sys.modules and not self.had_os:
            self.names.add("*")
        own = changes(self.given, posix.environ)
        if C_ENVIRON.value == self.array:
            # No variable was added, but one that was there may have another value.
            return changes(self.given, variables_of(texts_at(self.array))), own
        if self.array is None:
            raise RuntimeError("the C library's environment has moved, and cannot be put back")
        in_c = changes(self.given, variables_of(texts_at(C_ENVIRON.value)))
        C_ENVIRON.value = self.array
        return in_c, own


def record_reads(os: Any, names: set[str | bytes]) -> Callable[[], None]:
    """Has `os.environ` and `os.environb` note what is asked of them; returns the function that puts them back."""
    plain = type(os.environ)

    class Recorder(plain):  # type: ignore[misc,valid-type]
        """Notes the names that are read, and `*` where all are."""

        def __getitem__(self, key: str | bytes) -> object:
            names.add(key)
            return super().__getitem__(key)

        def __iter__(self) -> object:
            names.add("*")
            return super().__iter__()

        def __len__(self) -> int:
            names.add("*")
            return len(self._data)

        def __repr__(self) -> str:
            names.add("*")
            return str(super().__repr__())

    mappings = (os.environ, os.environb)
    for mapping in mappings:
        mapping.__class__ = Recorder

    def put_back() -> None:
        for mapping in mappings:
            mapping.__class__ = plain

    return put_back
