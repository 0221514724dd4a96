"""Functions that the tests of the joblib backend call in other processes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

STATE: list[int] = []


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def remember(number: int) -> list[int]:
    """Leaves something behind in its process."""
    STATE.append(number)
    return STATE


def facts(array: Any) -> tuple[float, bool, str, int]:
    """Its sum, whether it can be written to, its order, and how much memory the process has for itself, in KiB."""
    total = float(array.sum())
    lines = Path("/proc/self/status").read_text().splitlines()
    own = sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return total, bool(array.flags.writeable), "F" if array.flags.f_contiguous else "C", own


def is_one(first: Any, second: Any) -> bool:
    """Whether two arrays have their elements in the same file."""
    return bool(first.sum() == second.sum()) and len({_file_of(first), _file_of(second)}) == 1


def _file_of(array: Any) -> str:
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return line.split()[4]
    raise AssertionError(hex(address))


def write(array: Any, index: int) -> float:
    array[index] = 7.0
    return float(array[index])


def sums(arrays: list[Any]) -> list[int]:
    return [int(array.sum()) for array in arrays]


def view(array: Any) -> Any:
    """A result that is a part of an array of the caller's."""
    return array[:3]


def fail_at(number: int, bad: int) -> int:
    if number == bad:
        raise KeyError(number)
    return number


def die_at(number: int, bad: int) -> int:
    if number == bad:
        os.abort()
    return number


def note_and_sleep(folder: str, number: int, seconds: float) -> None:
    Path(folder, str(number)).write_text(str(os.getpid()))
    time.sleep(seconds)


def nested(size: int, backend: str | None) -> tuple[list[int], set[int], set[str]]:
    """A parallel loop in a task: its values, the processes and the kinds of threads that computed them."""
    pairs = Parallel(n_jobs=2, backend=backend)(delayed(square_in)(number) for number in range(size))
    return [value for value, _, _ in pairs], {pid for _, pid, _ in pairs}, {kind for _, _, kind in pairs}


def square_in(number: int) -> tuple[int, int, str]:
    return number * number, os.getpid(), type(threading.current_thread()).__name__


def limits() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def ones(count: int) -> Any:
    return np.ones(count)
