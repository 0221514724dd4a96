"""CPython's own tests of pools of processes end with ours as with theirs, but for a list of tests with their reasons."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NO_WORKERS = "AttributeError: 'Adapted' object has no attribute '_"
NO_TASKS = "TypeError: Executor.__init__() got an unexpected keyword argument 'max_tasks_per_child'"
OF_ITS_CALL = "_pickle.UnpicklingError"

#: CPython's tests that end otherwise with ours, by what the last line then says.
EXPECTED = {
    # Its initializer is given a queue, which no pickle can hold.
    "FailingInitializerMixin.test_initializer": "RuntimeError: Queue objects",
    # CPython itself leaves it out for pools of processes.
    "ProcessPoolShutdownTest.test_hang_gh83386": "---",
    # They look at the workers of a pool, of which there are none.
    "ProcessPoolShutdownTest.test_processes_terminate": NO_WORKERS,
    "ProcessPoolExecutorTest.test_idle_process_reuse_multiple": NO_WORKERS,
    "ProcessPoolExecutorTest.test_idle_process_reuse_one": NO_WORKERS,
    "ProcessPoolExecutorTest.test_killed_child": NO_WORKERS,
    "ProcessPoolExecutorTest.test_saturation": NO_WORKERS,
    "ExecutorDeadlockTest.test_shutdown_deadlock_pickle": NO_WORKERS,
    # A process has one task.
    "ProcessPoolExecutorTest.test_max_tasks_early_shutdown": NO_TASKS,
    "ProcessPoolExecutorTest.test_max_tasks_per_child": NO_TASKS,
    "ProcessPoolExecutorTest.test_max_tasks_per_child_defaults_to_spawn_context": NO_TASKS,
    # The traceback of the other process has a class of ours.
    "ProcessPoolExecutorTest.test_traceback": "AssertionError: <class 'regrow._errors.RemoteTraceback'> is not",
    # An argument or a result that cannot be read is the error of its call alone; theirs breaks the pool.
    "ExecutorDeadlockTest.test_error_at_task_unpickle": OF_ITS_CALL,
    "ExecutorDeadlockTest.test_error_during_result_unpickle_in_result_handler": OF_ITS_CALL,
    "ExecutorDeadlockTest.test_exit_at_task_unpickle": "SystemExit: 1",
}


def test_futures_end_as_with_cpythons_pool() -> None:
    pytest.importorskip("test.test_concurrent_futures")
    words = [sys.executable, str(Path(__file__).with_name("cpython_futures.py"))]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    outcomes = json.loads(ended.stdout.splitlines()[-1])
    assert sum(outcome == "ok" for outcome in outcomes.values()) >= 52, outcomes
    others = {name: outcome for name, outcome in outcomes.items() if outcome not in ("ok", "skipped")}
    assert set(others) == set(EXPECTED), ended.stderr
    wrong = {name: outcome for name, outcome in others.items() if not outcome.startswith(EXPECTED[name])}
    assert not wrong, ended.stderr
