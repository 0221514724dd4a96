"""CPython's own tests of pools of processes end with ours as with theirs, but for a list of tests with their reasons."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NO_WORKERS = "AttributeError: 'Adapted' object has no attribute '_"
OF_ITS_CALL = "_pickle.UnpicklingError"

#: CPython's tests of futures that end otherwise with ours, by what the last line then says.
OF_FUTURES = {
    # It waits until the pool is broken: with ours its calls are.
    "FailingInitializerMixin.test_initializer": NO_WORKERS,
    # CPython itself leaves it out for pools of processes.
    "ProcessPoolShutdownTest.test_hang_gh83386": "---",
    # They look at the workers of a pool, of which there are none.
    "ProcessPoolShutdownTest.test_processes_terminate": NO_WORKERS,
    "ProcessPoolExecutorTest.test_idle_process_reuse_multiple": NO_WORKERS,
    "ProcessPoolExecutorTest.test_idle_process_reuse_one": NO_WORKERS,
    "ProcessPoolExecutorTest.test_killed_child": NO_WORKERS,
    "ProcessPoolExecutorTest.test_saturation": NO_WORKERS,
    "ExecutorDeadlockTest.test_shutdown_deadlock_pickle": NO_WORKERS,
    "ProcessPoolExecutorTest.test_max_tasks_per_child_defaults_to_spawn_context": NO_WORKERS,
    # It expects one process for several tasks: the numbers of two processes differ.
    "ProcessPoolExecutorTest.test_max_tasks_per_child": "AssertionError: ",
    # The traceback of the other process has a class of ours.
    "ProcessPoolExecutorTest.test_traceback": "AssertionError: <class 'regrow._errors.RemoteTraceback'> is not",
    # An argument or a result that cannot be read is the error of its call alone; theirs breaks the pool.
    "ExecutorDeadlockTest.test_error_at_task_unpickle": OF_ITS_CALL,
    "ExecutorDeadlockTest.test_error_during_result_unpickle_in_result_handler": OF_ITS_CALL,
    "ExecutorDeadlockTest.test_exit_at_task_unpickle": "SystemExit: 1",
}


#: The same for its tests of multiprocessing.
OF_MULTIPROCESSING = {
    # Both names stand for our context here.
    "TestStartMethod.test_context": "+ fork",
    "TestStartMethod.test_set_get": "+ fork",
}


def end_as_expected(module: str, least: int, expected: dict[str, str]) -> None:
    """Runs a module of adapted tests: at least so many end well, and the others are those that are expected to end so."""
    words = [sys.executable, str(Path(__file__).with_name(module))]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    outcomes = json.loads(ended.stdout.splitlines()[-1])
    others = {name: outcome for name, outcome in outcomes.items() if outcome not in ("ok", "skipped")}
    assert set(others) == set(expected), ended.stderr
    wrong = {name: outcome for name, outcome in others.items() if not outcome.startswith(expected[name])}
    assert not wrong, ended.stderr
    assert sum(outcome == "ok" for outcome in outcomes.values()) >= least, outcomes


def test_futures_end_as_with_cpythons_pool() -> None:
    pytest.importorskip("test.test_concurrent_futures")
    end_as_expected("cpython_futures.py", 53, OF_FUTURES)


def test_multiprocessing_ends_as_with_cpythons_processes() -> None:
    pytest.importorskip("test._test_multiprocessing")
    end_as_expected("cpython_multiprocessing.py", 200, OF_MULTIPROCESSING)
