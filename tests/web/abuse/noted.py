"""Notes the pid of a script, so that a test can see whether the process is gone."""

import os
from pathlib import Path

NOTES = Path(os.environ["REGROW_TEST_NOTES"])


def count(name: str = "pids") -> int:
    """How many pids are in a file."""
    path = NOTES / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def note(name: str = "pids", pid: int | None = None) -> None:
    """Adds the pid, or another one, to a file."""
    with (NOTES / name).open("a") as file:
        file.write(f"{pid or os.getpid()}\n")
