"""Reads what the front end is to prepare, and loads it: modules, and a function that sets them up."""

from __future__ import annotations

import binascii
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .ground import BORN, SAFE_PATH, VERSION


class Options:
    """The arguments of the front end."""

    def __init__(self, words: Sequence[str]) -> None:
        rest = list(words)
        self.skip = int(rest.pop(0))
        names = ("--preload", "--setup", "--path", "--module", "--streams", "--unfollowed")
        given: dict[str, list[str]] = {name: [] for name in names}
        while rest:
            word = rest.pop(0)
            if word not in given:
                raise ValueError(f"the front end does not know the option {word!r}")
            given[word].append("" if word in ("--module", "--unfollowed") else rest.pop(0))
        self.preload = [name for names in given["--preload"] for name in names.split(",") if name]
        self.setup = "".join(given["--setup"][-1:])
        self.module = bool(given["--module"])
        # Whether nobody looks at the calls of this process before it stops a first time.
        self.unfollowed = bool(given["--unfollowed"])
        self.paths = given["--path"]
        # For each standard stream what decides how it is opened, and whether it is a terminal.
        kinds = [text.split(":") for text in "".join(given["--streams"][-1:]).split(",")]
        self.kinds = [[int(number) for number in kind] for kind in kinds] if len(kinds) == 3 else []


def import_by_name(name: str) -> Any:
    """Imports a module; returns that module, not the package that it is in."""
    __import__(name)
    return sys.modules[name]


def function_by_name(name: str) -> Callable[..., object]:
    """Finds the function that `MODULE:FUNCTION` names."""
    module, _, path = name.partition(":")
    found = import_by_name(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def load(options: Options) -> Any:
    """Imports what each run finds at its start, and calls the function that sets it up; returns what that returns."""
    if not SAFE_PATH:
        # The entry of `-c`, which is the front end and not the run's program.
        del sys.path[0]
    sys.path[:0] = options.paths
    sys.modules["__main__"] = fresh_main()
    for name in ["runpy"] * options.module + options.preload:
        __import__(name)
    if options.setup:
        module, function, *data = options.setup.split(":", 2)
        argument = binascii.a2b_base64(data[0]) if data else b""
        return function_by_name(f"{module}:{function}")(argument)
    return None


def fresh_main() -> ModuleType:
    """Makes a module `__main__` as the interpreter has it before it runs a program."""
    main = type(sys)("__main__")
    names = vars(main)
    names.update(BORN)
    if VERSION < (3, 14):
        names["__annotations__"] = {}
    names["__builtins__"] = names.pop("__builtins__")
    return main
