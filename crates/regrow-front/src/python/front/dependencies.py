"""Finds the paths at which a new file would have changed what was imported: the image depends on their absence."""

from __future__ import annotations

import _imp
import posix
import sys
from collections.abc import Iterable, Iterator
from typing import Any


class Missing:
    """Stands last among the finders and notes the modules that none of them has found."""

    def __init__(self) -> None:
        self.names: list[tuple[str, list[str] | None]] = []

    def find_spec(self, name: str, path: Iterable[str] | None = None, _target: object = None) -> None:
        """Notes a module that is not there."""
        self.names.append((name, None if path is None else list(path)))


def places(directories: Iterable[str], name: str) -> Iterator[str]:
    """Lists the paths at which the interpreter looks for a module of this name in these directories."""
    ends = ["", ".py", ".pyc", *_imp.extension_suffixes()]
    for directory in directories:
        yield from [f"{directory}/{name}{end}" for end in ends] if posix.access(directory, posix.F_OK) else [directory]


def shadows() -> Iterator[str]:
    """Lists the paths at which a file would hide a module that was imported from further behind in `sys.path`."""
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if "." in name or not isinstance(origin, str) or "/" not in origin:
            continue
        home = origin.rsplit("/", 2 if hasattr(module, "__path__") else 1)[0]
        if home in sys.path:
            yield from places(sys.path[: sys.path.index(home)], name)


def site_files() -> Iterator[str]:
    """Lists what `site` would read if it were there."""
    site: Any = sys.modules.get("site")
    if site is None:
        return
    for directory in [*site.getsitepackages(), *([site.USER_SITE] if site.ENABLE_USER_SITE else [])]:
        yield f"{directory}/*.pth" if posix.access(directory, posix.F_OK) else directory


def absent_paths(missing: Missing) -> set[str]:
    """Lists the paths, now free, at which a file would have changed what was imported."""
    paths = {*shadows(), *site_files()}
    for name, directories in missing.names:
        paths.update(places(sys.path if directories is None else directories, name.rpartition(".")[2]))
    return {path for path in paths if path.startswith("/") and not posix.access(path, posix.F_OK)}
