"""Functions that the tests call in other processes."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import secrets
import signal
import ssl
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any, ClassVar, NoReturn

STATE: list[int] = []


class CustomError(Exception):
    """An exception with attributes, and with arguments of its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


class Unloadable(Exception):  # noqa: N818
    """An exception that can be pickled, but not be loaded again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def close_the_answer(seconds: float) -> NoReturn:
    os.close(62)
    time.sleep(seconds)
    os._exit(3)


def pid() -> int:
    return os.getpid()


def add(one: int, two: int = 0) -> int:
    return one + two


def remember(value: int) -> list[int]:
    """Leaves something behind in its process."""
    STATE.append(value)
    return STATE


def initialize(value: int) -> None:
    STATE.append(value)


def initialize_badly() -> NoReturn:
    raise CustomError(7, "not today")


def raise_custom() -> NoReturn:
    raise CustomError(3, "three")


def raise_unloadable() -> NoReturn:
    raise Unloadable(1, 2)


def raise_unpicklable() -> NoReturn:
    error = ValueError("holds a lock")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


class LeavesWhenLoaded:
    """Ends the program that loads it."""

    def __reduce__(self) -> Any:
        return sys.exit, (3,)


class InterruptsWhenLoaded(Exception):  # noqa: N818
    """Interrupts the program that loads it."""

    def __reduce__(self) -> Any:
        return interrupt, ()


class SignalsWhenLoaded:
    """Sends a signal to the main thread where that loads it."""

    def __reduce__(self) -> Any:
        return signal_main_thread, ()


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def signal_main_thread() -> str:
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGUSR1)
    return "loaded"


def raise_interrupting() -> NoReturn:
    raise InterruptsWhenLoaded("so")


def leave(status: int) -> NoReturn:
    sys.exit(status)


def leave_at_once(status: int) -> NoReturn:
    os._exit(status)


def kill_self(number: int) -> NoReturn:
    os.kill(os.getpid(), number)
    time.sleep(60)
    raise AssertionError


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def span(seconds: float) -> tuple[float, float]:
    """When this began and ended."""
    start = time.monotonic()
    time.sleep(seconds)
    return start, time.monotonic()


def touch_and_sleep(path: str, seconds: float) -> None:
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(seconds)


def wait_for(path: str) -> str:
    """Goes on until there is a file, or a minute has passed."""
    end = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
    return "waited"


def unpicklable() -> Any:
    return lambda: None


def allocate(count: int) -> int:
    return len(bytearray(count))


def fork_and_crash(path: str) -> NoReturn:
    """Ends without a result while a process that it has forked, whose number goes to a file, goes on."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    with open(path, "w") as file:
        file.write(str(child))
    os._exit(9)


def fork_and_return() -> str:
    """A process that it has forked returns from the call as well."""
    return "child" if os.fork() == 0 else "parent"


def start_thread() -> str:
    """Returns before a thread that it has started ends."""
    threading.Thread(target=time.sleep, args=(0.2,)).start()
    return "returned"


def nested(value: int) -> int:
    """Uses an executor itself."""
    import regrow

    with regrow.Executor(1) as executor:
        return executor.submit(add, value, 1).result()


def surroundings() -> tuple[list[str], list[str], str, dict[str, str]]:
    return sys.argv, sys.path, os.getcwd(), dict(os.environ)


class Lasting:
    """A class of the image, and an object of it that says when it is freed."""

    freed: ClassVar[list[str]] = []

    def __del__(self) -> None:
        self.freed.append("the one of the image")


LASTING: list[Lasting] = [Lasting()]


def uncounted() -> tuple[list[bool], list[str]]:
    """Of which things of the image nobody counts references: code, a function, a class, a name; a list, an object, a new value.
    And what is freed where the object is dropped."""
    things = (add.__code__, add, Lasting, add.__name__, LASTING, LASTING[0], [1])
    found = [sys.getrefcount(thing) >= 1 << 30 for thing in things]
    del things
    LASTING.clear()
    return found, Lasting.freed


def modules() -> set[str]:
    return set(sys.modules)


def print_and_return(text: str) -> None:
    print(text)


def interrupted() -> str:
    """Waits for an interrupt."""
    try:
        time.sleep(30)
    except KeyboardInterrupt:
        return "interrupted"
    return "slept"


def put(queue: Any, value: object) -> None:
    queue.put(value)


def answer(connection: Any) -> None:
    connection.send(connection.recv() * 2)
    connection.close()


def count_up(lock: Any, number: Any, times: int) -> None:
    for _ in range(times):
        with lock:
            number.value += 1


def set_event(event: Any) -> None:
    event.set()


def exit_with(code: int) -> NoReturn:
    sys.exit(code)


def ignore_termination(event: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    event.set()
    time.sleep(60)


def value_of(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def random_values() -> list[object]:
    """Values of everything that is to be random, of which no two may be the same."""
    values: list[object] = [
        random.random(),
        random.getrandbits(64),
        uuid.uuid4().hex,
        uuid.uuid1().hex,
        secrets.token_hex(8),
        os.urandom(8),
        tempfile.mktemp(),
        ssl.RAND_bytes(8),
    ]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        values += [numpy.random.random(), numpy.random.default_rng().random()]
    return values


def initialize_with_text(text: str) -> None:
    STATE.append(len(text))


def words_of_family() -> list[bytes]:
    """The words of the command lines of all children of this process's parent."""
    parent = os.getppid()
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    words: list[bytes] = []
    for pid in children:
        # One that has ended meanwhile has none.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words += Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words


#: Whether it was the main thread that has loaded an answer.
LOADED: list[bool] = []


def load_once() -> str:
    """Loads what `interrupting_once` returns: the first time a signal comes meanwhile."""
    LOADED.append(threading.current_thread() is threading.main_thread())
    if len(LOADED) == 1:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
    return "loaded"


class LoadedOnce:
    """Something whose loading calls `load_once`."""

    def __reduce__(self) -> Any:
        return load_once, ()


def interrupting_once() -> LoadedOnce:
    """A value during whose loading a signal comes."""
    return LoadedOnce()
