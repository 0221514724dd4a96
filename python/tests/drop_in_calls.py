"""Functions that the tests of the drop-ins call in other processes."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

#: What an initializer has left for the calls.
HELD: dict[str, Any] = {}


def keep(**values: Any) -> None:
    HELD.update(values)


def hold(name: str, value: Any) -> None:
    """Is an initializer: notes in a file that it was called, if there is one, and keeps a value."""
    HELD[name] = value


def held(name: str) -> Any:
    return HELD.get(name)


def note_and_hold(path: str, value: object) -> None:
    """Leaves a line for each of its calls."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    HELD["value"] = value


def connect(path: str, notes: str) -> None:
    """Opens a database, which no two processes may share."""
    note_and_hold(notes, "connected")
    HELD["connection"] = sqlite3.connect(path)


def insert(number: int) -> int:
    with HELD["connection"] as connection:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
    return os.getpid()


def start_thread() -> None:
    HELD["end"] = threading.Event()
    HELD["thread"] = threading.Thread(target=HELD["end"].wait, daemon=True)
    HELD["thread"].start()


def thread_is_alive() -> bool:
    return bool(HELD["thread"].is_alive())


def change_process(folder: str) -> None:
    """Changes what a process has beside its memory."""
    os.nice(3)
    os.umask(0o077)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def process_has_changed() -> tuple[int, int, str, tuple[int, int], bool]:
    umask = os.umask(0)
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return os.nice(0), umask, os.getcwd(), resource.getrlimit(resource.RLIMIT_CORE), ignored


def make_folder() -> None:
    HELD["folder"] = tempfile.TemporaryDirectory()


def folder_exists() -> tuple[str, bool]:
    name = HELD["folder"].name
    return name, os.path.isdir(name)


def share(lock: Any, queue: Any, total: Any) -> None:
    HELD.update(lock=lock, queue=queue, total=total)


def add_up(number: int) -> int:
    """Changes a number that all processes share, in steps that another process would disturb without the lock."""
    with HELD["lock"]:
        before = HELD["total"].value
        time.sleep(0.001)
        HELD["total"].value = before + number
    HELD["queue"].put(number)
    return os.getpid()


def receive_from(connection: Any) -> None:
    HELD["connection"] = connection


def send_back(value: object) -> None:
    HELD["connection"].send(value)


def put_held(value: object) -> None:
    HELD["queue"].put(value)


def fail() -> NoReturn:
    raise ValueError("no initializer today")


def fail_with(_: Any) -> NoReturn:
    raise ValueError("no initializer today")


def touch_and_wait(path: str) -> str:
    """Says that it runs, and ends when it is asked to."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    Path(path).touch()
    while not told.wait(0.05):
        pass
    Path(f"{path}.terminated").touch()
    return "told"


def value_and_pid(value: object) -> tuple[object, int]:
    return value, os.getpid()


def variable(name: str) -> str | None:
    return os.environ.get(name)
