"""Files that libraries of the interpreter hold open to read them: every run opens them anew, under the same numbers.

libffi holds its own file open, and maps it for functions of Python that are given to C (where it is built with static
trampolines, as in Debian 13 and Fedora). It does so as soon as `_ctypes` is imported.

    prepare: low numbers taken -- imports -- low ones free -- files closed -- SIGSTOP -- gate -- files opened -- order

What is opened while modules are imported has a number under which no caller passes a descriptor. Where one does,
the run is a plain interpreter's.
"""

from __future__ import annotations

import posix

from .ground import FIRST_HELD, content_of


class HeldFile:
    """A regular file that was opened to be read, and has not been."""

    def __init__(self, number: int, path: str) -> None:
        self.number = number
        self.path = path
        self.is_inheritable = posix.get_inheritable(number)

    def open(self) -> bool:
        """Opens it anew. False where another descriptor has its number, or it cannot be opened."""
        try:
            posix.fstat(self.number)
        except OSError:
            pass
        else:
            return False
        try:
            opened = posix.open(self.path, posix.O_RDONLY | posix.O_CLOEXEC)
            if opened == self.number:
                posix.set_inheritable(opened, self.is_inheritable)
            else:
                posix.dup2(opened, self.number, self.is_inheritable)
                posix.close(opened)
        except OSError:
            return False
        return True


def held_files() -> list[HeldFile]:
    """The files that modules hold so. What else they hold is for Regrow to refuse."""
    listed = sorted(int(name) for name in posix.listdir("/proc/self/fd"))
    return [HeldFile(number, path) for number in listed if number >= FIRST_HELD and (path := path_of(number))]


def path_of(number: int) -> str | None:
    """The path of a descriptor that can be opened anew and is the same then."""
    held = posix.fstat(number)
    path = posix.readlink(f"/proc/self/fd/{number}")
    if held.st_mode & 0o170000 != 0o100000 or path[:1] != "/":
        return None
    info = content_of(f"/proc/self/fdinfo/{number}").split(b"\n")
    try:
        there = posix.stat(path)
    except OSError:
        return None
    facts = dict([line.split(b":\t", 1) for line in info if b":\t" in line])
    is_same = (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)
    # Nothing is read, there is no lock, and no flag but that it is closed by exec, and that it may be large.
    is_plain = int(facts.get(b"flags", b"1"), 8) & ~0o2100000 == 0
    is_as_opened = facts.get(b"pos") == b"0" and b"lock" not in facts and is_plain
    return path if is_same and is_as_opened else None
