#!/usr/bin/python3
"""Finds the interpreters of this machine that the package is for, and prints their paths, oldest first.

    interpreters.py            one of each version: 3.9, 3.10 …
    interpreters.py --others   the oldest and the newest, without the one that the package is tested with in any case

The interpreters are PYTHON (by default the system's), those that REGROW_PYTHONS names with colons between them, the
system's others, and pyenv's. Of one version the first in this order counts, and of pyenv's the newest. Builds without the
interpreter's lock are left out: the package is not for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

OLDEST = (3, 9)
#: What an interpreter says of itself: its version, and whether it has the lock.
QUESTION = "import sys; print(*sys.version_info[:3], int('t' not in sys.abiflags))"
#: Seconds that it may take to say so.
PATIENCE_S = 20
Version = tuple[int, ...]


def candidates() -> Iterable[Path]:
    """Where interpreters may be: what comes first counts."""
    yield Path(os.environ.get("PYTHON") or "/usr/bin/python3")
    yield from (Path(name) for name in os.environ.get("REGROW_PYTHONS", "").split(":") if name)
    yield from sorted(Path("/usr/bin").glob("python3.[0-9]*"))
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(versions.glob("3.*/bin/python"), key=lambda path: by_numbers(path.parts[-3]), reverse=True)


def by_numbers(name: str) -> list[int]:
    """The numbers in a name, to sort by."""
    return [int(part) for part in name.split(".") if part.isdigit()]


def version_of(path: Path) -> Version | None:
    """The version of an interpreter that the package is for; of anything else nothing."""
    if not os.access(path, os.X_OK):
        return None
    words = [str(path), "-I", "-S", "-c", QUESTION]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    if len(said) != 4 or said[3] != "1":
        return None
    version = tuple(map(int, said[:3]))
    return version if version >= OLDEST else None


def found() -> dict[Version, Path]:
    """One interpreter of each version, of which the first two numbers count."""
    chosen: dict[Version, Path] = {}
    for path in candidates():
        version = version_of(path)
        if version is not None:
            chosen.setdefault(version[:2], path)
    return dict(sorted(chosen.items()))


def main() -> int:
    """Prints the interpreters."""
    flags = sys.argv[1:]
    if flags not in ([], ["--others"]):
        print(__doc__, file=sys.stderr)
        return 2
    interpreters = found()
    paths = list(interpreters.values())
    if flags:
        own = version_of(next(iter(candidates())))
        paths = [path for version, path in interpreters.items() if own is None or version != own[:2]]
        paths = list(dict.fromkeys([*paths[:1], *paths[-1:]]))
    print("".join(f"{path}\n" for path in paths), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
