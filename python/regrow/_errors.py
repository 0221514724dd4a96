"""What can go wrong in another process, as exceptions of this one."""

from __future__ import annotations

import signal
from concurrent.futures.process import BrokenProcessPool
from typing import Optional


class BrokenProcess(BrokenProcessPool):
    """The process of a call ended before the call did, or could not be prepared. Other calls are not concerned.

    Where it is raised `ProcessPoolExecutor` raises `BrokenProcessPool`, which it is, too."""

    def __init__(self, message: str, returncode: Optional[int] = None) -> None:
        super().__init__(message)
        #: The exit status of the process, the negative number of the signal that ended it, or None.
        self.returncode = returncode


class RemoteError(Exception):
    """An exception of a call that cannot be brought into this process: its text."""


class RemoteTraceback(Exception):  # noqa: N818
    """The cause of an exception that a call raised: where in the other process it was raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def how_it_ended(returncode: Optional[int]) -> str:
    """The end of a process, as the second half of a sentence."""
    if returncode is None:
        return "ended"
    if returncode >= 0:
        return f"ended with exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was killed by {name}"
