"""Calls per second, beside a pool whose processes serve one call each, and beside one that is not renewed."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import Any

import regrow

from figures import Figure, figure


def answer() -> int:
    """What each call is, where it takes no time."""
    return 42


def work() -> int:
    """A call that takes a millisecond of a processor."""
    started = time.process_time()
    while time.process_time() - started < 0.001:
        pass
    return 42


def calls_per_second(executor: Any, function: Callable[[], int], seconds: float = 5.0) -> float:
    """How many calls come back in a second, eight at a time."""
    done = 0
    started = time.perf_counter()
    waiting = {executor.submit(function) for _ in range(8)}
    while time.perf_counter() - started < seconds:
        over, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in over:
            assert future.result() == 42
            done += 1
        waiting |= {executor.submit(function) for _ in over}
    rate = done / (time.perf_counter() - started)
    wait(waiting)
    return rate


def throughput(modules: Sequence[str]) -> list[Figure]:
    """Calls on two processors beside a pool whose processes serve one call each, and beside one that is not renewed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    rates: list[list[float]] = [[], [], [], []]
    with (
        regrow.Executor(2, preload=modules) as executor,
        ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as renewed,
        ProcessPoolExecutor(2, mp_context=context) as reused,
    ):
        calls_per_second(executor, answer, 0.5)
        calls_per_second(reused, answer, 0.5)
        for _ in range(2):
            pairs: Any = ((executor, answer), (renewed, answer), (executor, work), (reused, work))
            for rate, (pool, function) in zip(rates, pairs):
                rate.append(calls_per_second(pool, function))
    ours, theirs, ours_at_work, reused_at_work = (statistics.mean(rate) for rate in rates)
    return [
        figure("calls per second, two at a time", ours, None, "1/s"),
        figure("against ProcessPoolExecutor(max_tasks_per_child=1)", ours / theirs, 50, "times"),
        figure(
            "1 ms of work a call, against a ProcessPoolExecutor that is reused", ours_at_work / reused_at_work, 0.8, "times"
        ),
    ]
