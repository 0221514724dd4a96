"""The capturing of output, begun before the stop: a run opens its descriptors alone.

To begin it takes a run a fifth of a millisecond: files are made, and objects around them. The objects can be part of an image,
and descriptors cannot. So each object has a descriptor of a number of its own, which is closed at the stop, and stands for
another file in every run. Where pytest captures in another way it begins in the run.
"""

from __future__ import annotations

import fcntl
import os
from typing import IO, Any

from _pytest import capture

# The numbers of the descriptors begin here: lower ones are a test's, those of the call, and those of what modules hold open.
FIRST = min(300, os.sysconf("SC_OPEN_MAX") // 4 + 50)


def memory_file(buffering: int = -1) -> IO[bytes]:
    """What captured output is kept in: as a temporary file, but no file system is asked."""
    return open(moved(os.memfd_create("captured")), "wb+", buffering=buffering)


def moved(number: int) -> int:
    """Gives a descriptor a number out of the way."""
    high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST)
    os.close(number)
    return high


def place(number: int, own: int) -> None:
    """Gives a descriptor a number of its own. It may have that already."""
    if number != own:
        os.dup2(number, own, inheritable=False)
        os.close(number)


class Capturing:
    """The global capturing of a worker, which a run finds suspended."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._is_begun = False
        # Numbers, each with that of which it has a copy; those of the files that take output; that of an empty input.
        self._kept: list[tuple[int, int]] = []
        self._files: list[int] = []
        self._nowhere = -1

    def park(self) -> None:
        """Has no descriptor open: `wake` follows in another process, or in this one."""
        self.restore()
        if not self._is_begun:
            self._is_begun = True
            self._begin()
            self.restore()
        if self._kept:
            for number in (*(kept for kept, _ in self._kept), *self._files, self._nowhere):
                os.close(number)

    def wake(self) -> None:
        """Opens what `park` has closed."""
        if self._kept and not self._reopen():
            self._kept.clear()
            self._manager._global_capturing = None
        if not self._kept:
            self._manager.start_global_capturing()
            self._manager.suspend_global_capture()

    def restore(self) -> None:
        """Has the process read and write what it did before, and writes there what is captured and nobody has taken."""
        if not self._kept:
            self._manager.stop_global_capturing()
            return
        self._manager.suspend_global_capture(in_=True)
        if any(os.fstat(number).st_size for number in self._files):
            self._manager._global_capturing.pop_outerr_to_orig()

    def _begin(self) -> None:
        """Begins as pytest does, and suspends. Gives the descriptors their numbers, where there is one for each stream."""
        self._manager.start_global_capturing()
        self._manager.suspend_global_capture()
        capturing = self._manager._global_capturing
        parts = (capturing.in_, capturing.out, capturing.err)
        if any(type(part) is not capture.FDCapture or part.targetfd_invalid is not None for part in parts):
            return
        for part in parts:
            part.targetfd_save = moved(part.targetfd_save)
            self._kept.append((part.targetfd_save, part.targetfd))
        capturing.in_.tmpfile.close()
        self._nowhere = moved(os.open(os.devnull, os.O_RDONLY))
        capturing.in_.tmpfile = open(self._nowhere, encoding="utf-8")  # noqa: SIM115
        self._files.extend(part.tmpfile.fileno() for part in parts[1:])

    def _reopen(self) -> bool:
        """Opens the descriptors again. False where a standard one is closed, with which pytest deals in its own way."""
        try:
            for number, original in self._kept:
                os.dup2(original, number, inheritable=False)
        except OSError:
            return False
        place(os.open(os.devnull, os.O_RDONLY), self._nowhere)
        for number in self._files:
            place(os.memfd_create("captured"), number)
        capturing = self._manager._global_capturing
        capturing.in_.resume()
        capturing._in_suspended = False
        return True
