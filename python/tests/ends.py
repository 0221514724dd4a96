"""Functions of which each leaves something to be done when its process ends; `test_ends.py` calls them in other processes."""

from __future__ import annotations

import atexit
import ctypes
import logging
import logging.handlers
import multiprocessing
import multiprocessing.util
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

#: What holds something until the process ends.
HELD: list[Any] = []


class WritesAtItsEnd:
    def __init__(self, path: str) -> None:
        self.path = path

    def __del__(self) -> None:
        Path(self.path).write_text("done")


class Holder:
    """Has something that is lost if nobody ends it."""

    def __init__(self, thing: object) -> None:
        self.thing = thing


class _Closed(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__del__":
            raise ValueError(name)
        return super().__getattribute__(name)


class CannotBeLookedAt(metaclass=_Closed):
    """A class that says nothing of itself."""


class Cycle(WritesAtItsEnd):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.itself = self


def caller() -> Optional[str]:
    """The name of the function in Python that has called this one."""
    frame = sys._getframe().f_back
    return None if frame is None else frame.f_code.co_name


def exit_function(path: str) -> str:
    atexit.register(Path(path).write_text, "done")
    return "returned"


def finalizer(path: str) -> str:
    # In a module that the run has made, which goes with it.
    module = type(sys)("made_in_the_run")
    sys.modules["made_in_the_run"] = module
    module.thing = WritesAtItsEnd(path)  # type: ignore[attr-defined]
    return "returned"


def weak_finalizer(path: str) -> str:
    weakref.finalize(Holder, Path(path).write_text, "done")
    return "returned"


def open_file(path: str) -> str:
    file = open(path, "w")  # noqa: SIM115
    HELD.append(file)
    file.write("done")
    return "returned"


def open_file_of_a_class(path: str) -> str:
    file = open(path, "w")  # noqa: SIM115
    HELD.append(Holder([file]))
    file.write("done")
    return "returned"


def buffered_handler(path: str) -> str:
    target = logging.FileHandler(path)
    target.terminator = ""
    handler = logging.handlers.MemoryHandler(1000, target=target)
    logging.getLogger("ends").addHandler(handler)
    logging.getLogger("ends").error("done")
    return "returned"


def thread(path: str) -> str:
    def write() -> None:
        time.sleep(0.05)
        Path(path).write_text("done")

    threading.Thread(target=write).start()
    return "returned"


def multiprocessing_finalizer(path: str) -> str:
    multiprocessing.util.Finalize(None, Path(path).write_text, ("done",), exitpriority=1)
    return "returned"


def _generator(path: str) -> Iterator[None]:
    try:
        yield
    finally:
        Path(path).write_text("done")


def suspended_generator(path: str) -> str:
    generator = _generator(path)
    next(generator)
    module = type(sys)("made_in_the_run")
    sys.modules["made_in_the_run"] = module
    module.generator = generator  # type: ignore[attr-defined]
    return "returned"


def _write(path: str) -> None:
    time.sleep(0.05)
    Path(path).write_text("done")


def child_of_multiprocessing(path: str) -> str:
    multiprocessing.get_context("fork").Process(target=_write, args=(path,)).start()
    return "returned"


def strange_class(path: str) -> str:
    HELD.append(CannotBeLookedAt())
    Path(path).write_text("done")
    return "returned"


def cycle(path: str) -> str:
    Cycle(path)
    return "returned"


def print_without_an_end(number: int, text: str) -> None:
    stream = sys.stdout if number == 1 else sys.stderr
    stream.write(text)
    HELD.append(stream)
    if number == 1:
        # The C library has a buffer of its own.
        ctypes.CDLL(None).printf(text.encode())
    os.write(number, text.encode())


def world(name: str) -> tuple[Optional[str], Optional[bytes], list[str]]:
    """A variable as this process has it and as its child has it, and the arguments."""
    command = ["/usr/bin/env", "-0"]
    entries = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split(b"\0")
    start = os.fsencode(name) + b"="
    of_a_child = [entry[len(start) :] for entry in entries if entry.startswith(start)]
    return os.environ.get(name), of_a_child[0] if of_a_child else None, sys.argv


def fail(divisor: int) -> float:
    return 1 / divisor


def left_behind() -> int:
    """Starts a process that has all descriptors which programs get, and leaves it."""
    return subprocess.Popen(["sleep", "60"], close_fds=False).pid
