"""Keeps files out of what an image depends on that its collection looks at by the way.

Regrow drops an image when a file changes that its interpreter has looked at. Pytest asks of each entry of a directory whether
that is a directory, or one of a virtual environment: of the file that the session's output goes to, of a log file, of a
database of tests. The listing of the directory has said so already, and is asked instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _pytest import main, python

# By these files in it, pytest knows the directory of an environment.
OF_ENVIRONMENTS = ("/pyvenv.cfg", "/conda-meta/history")


@contextlib.contextmanager
def from_listings() -> Iterator[None]:
    """While it lasts, pytest knows from listings which paths are files, and does not look at those."""
    files: set[str] = set()
    is_dir, is_file = Path.is_dir, Path.is_file

    def is_known_directory(path: Path, *args: Any, **kwargs: Any) -> bool:
        return str(path) not in files and is_dir(path, *args, **kwargs)

    def is_known_file(path: Path, *args: Any, **kwargs: Any) -> bool:
        text = str(path)
        is_below_file = any(text.endswith(end) and text[: -len(end)] in files for end in OF_ENVIRONMENTS)
        return not is_below_file and is_file(path, *args, **kwargs)

    def noting(scandir: Any) -> Any:
        def list_directory(*args: Any, **kwargs: Any) -> list[os.DirEntry[str]]:
            entries: list[os.DirEntry[str]] = scandir(*args, **kwargs)
            files.update(entry.path for entry in entries if entry.is_file(follow_symlinks=False))
            return entries

        return list_directory

    # Versions of pytest list directories in one of the modules or in both.
    listing = [(module, vars(module)["scandir"]) for module in (main, python) if "scandir" in vars(module)]
    for module, scandir in listing:
        vars(module)["scandir"] = noting(scandir)
    Path.is_dir = is_known_directory  # type: ignore[assignment,method-assign]
    Path.is_file = is_known_file  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        Path.is_dir, Path.is_file = is_dir, is_file  # type: ignore[method-assign]
        for module, scandir in listing:
            vars(module)["scandir"] = scandir
