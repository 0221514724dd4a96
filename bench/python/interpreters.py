"""Measures calls of an executor with each CPython of this machine: `interpreters.py OUTPUT PYTHON…`.

Each PYTHON is one of an environment in which the package is installed. It measures itself: calls of an executor whose image
has the modules of `fresh_processes.py`, and forks of an interpreter with the same modules, in turn. Then it says how many pages
a call has written that were put back, and how long that took. The table goes to standard output, and the figures go to OUTPUT
(`figures.py`).
"""

from __future__ import annotations

import functools
import json
import pathlib
import statistics
import subprocess
import sys
import time

import regrow
from regrow import _core, _starter

import figures
from figures import Figure, figure
from fresh_processes import CALLS, MODULES, Forks, check_creation, in_turn, timed

ROUNDS = 300
WARM_UP = 30


def answer() -> int:
    """What each call is."""
    return 42


def call(executor: regrow.Executor) -> None:
    """A call that is checked."""
    future = executor.submit(answer)
    assert future.result() == 42
    assert future.creation is not None
    check_creation(future.creation)


def calls_and_forks() -> list[float]:
    """The medians of calls and of forks, in seconds, as one of some that follow each other; both take turns."""
    forks = Forks(MODULES)
    with regrow.Executor(1, preload=MODULES) as executor:
        medians = in_turn([lambda: timed(lambda: call(executor), CALLS), forks.fork], rounds=ROUNDS // CALLS, warm_up=5)
    forks.close()
    return medians


def put_back() -> tuple[float, float, float]:
    """Of the memory of a call: pages that were compared, those that were copied, and the seconds of it all."""
    plain = _core.Pool
    _core.Pool = functools.partial(plain, timed=True)  # type: ignore[misc, assignment]
    compared, copied, seconds = [], [], []
    try:
        _starter._pools.clear()
        with regrow.Executor(1, preload=MODULES) as executor:
            for number in range(WARM_UP + ROUNDS):
                call(executor)
                (pool,) = {id(pool): pool for pool in _starter._pools.values()}.values()
                # The body is put back behind the call.
                deadline = time.monotonic() + 1
                while (pages := pool.core.reset_pages()) is None and time.monotonic() < deadline:
                    time.sleep(0.0001)
                took = pool.core.reset_seconds()
                assert pages is not None
                assert took is not None
                if number >= WARM_UP:
                    compared.append(pages[0])
                    copied.append(pages[1])
                    seconds.append(took)
    finally:
        _core.Pool = plain  # type: ignore[misc]
    return statistics.median(compared), statistics.median(copied), statistics.median(seconds)


def measure() -> list[Figure]:
    """The figures of this interpreter."""
    name = "CPython " + ".".join(map(str, sys.version_info[:3]))
    ours, fork = calls_and_forks()
    compared, copied, seconds = put_back()
    return [
        figure(f"{name}: Executor.submit(f).result(), p50", ours * 1e6, None, "us"),
        figure(f"{name}: against os.fork + pipe + wait of a warm interpreter", fork / ours, 3, "times"),
        figure(f"{name}: pages compared after a call", compared, None, "pages"),
        figure(f"{name}: pages put back after a call", copied, None, "pages"),
        figure(f"{name}: putting them back", seconds * 1e6, None, "us"),
    ]


def main() -> None:
    """Has each interpreter measure itself."""
    if sys.argv[1:] == ["--this"]:
        json.dump(measure(), sys.stdout)
        return
    output, *pythons = sys.argv[1:]
    measured: list[Figure] = []
    for python in pythons:
        done = subprocess.run([python, __file__, "--this"], stdout=subprocess.PIPE, check=True)
        for one in json.loads(done.stdout):
            figures.show(one)
            measured.append(one)
    figures.write(pathlib.Path(output), measured)


if __name__ == "__main__":
    main()
