"""Notes the pid of a script, so that a test can see whether the process is gone."""

import os
from pathlib import Path

NOTES = Path(os.environ["REGROW_TEST_NOTES"])


def note(name: str = "pids", pid: int | None = None) -> None:
    """Adds the pid, or another one, to a file."""
    with (NOTES / name).open("a") as file:
        file.write(f"{pid or os.getpid()}\n")
