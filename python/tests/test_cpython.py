"""CPython's own tests of pools of processes end with ours as with theirs, but for those of the list, each of which has its reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: How each of CPython's tests ends otherwise: what its last line says, and why.
EXPECTED = {
    "FailingInitializerMixin.test_initializer": ("RuntimeError: Queue objects", "its initializer is given a queue, which no pickle can hold"),
    "ProcessPoolShutdownTest.test_hang_gh83386": ("---", "CPython itself leaves it out for pools of processes"),
    "ProcessPoolShutdownTest.test_processes_terminate": ("AttributeError: 'Adapted' object has no attribute '_processes'", "it counts workers"),
    "ProcessPoolExecutorTest.test_idle_process_reuse_multiple": ("AttributeError: 'Adapted' object has no attribute", "it counts workers"),
    "ProcessPoolExecutorTest.test_idle_process_reuse_one": ("AttributeError: 'Adapted' object has no attribute", "it counts workers"),
    "ProcessPoolExecutorTest.test_killed_child": ("AttributeError: 'Adapted' object has no attribute '_processes'", "it kills a worker by number"),
    "ProcessPoolExecutorTest.test_max_tasks_early_shutdown": ("TypeError: Executor.__init__() got an unexpected", "no worker has a second task"),
    "ProcessPoolExecutorTest.test_max_tasks_per_child": ("TypeError: Executor.__init__() got an unexpected", "no worker has a second task"),
    "ProcessPoolExecutorTest.test_max_tasks_per_child_defaults_to_spawn_context": (
        "TypeError: Executor.__init__() got an unexpected",
        "no worker has a second task",
    ),
    "ProcessPoolExecutorTest.test_saturation": ("AttributeError: 'Adapted' object has no attribute", "it counts workers"),
    "ProcessPoolExecutorTest.test_traceback": ("AssertionError: <class 'regrow._errors.RemoteTraceback'>", "the remote traceback has a class of ours"),
    "ExecutorDeadlockTest.test_error_at_task_unpickle": ("_pickle.UnpicklingError", "an argument that cannot be read breaks its call alone"),
    "ExecutorDeadlockTest.test_error_during_result_unpickle_in_result_handler": (
        "_pickle.UnpicklingError",
        "a result that cannot be read breaks its call alone",
    ),
    "ExecutorDeadlockTest.test_exit_at_task_unpickle": ("SystemExit: 1", "the exit while an argument is read is the outcome of that call"),
    "ExecutorDeadlockTest.test_shutdown_deadlock_pickle": ("AttributeError: 'Adapted' object has no attribute", "it looks at a thread of theirs"),
}


def test_futures_end_as_with_cpythons_pool() -> None:
    pytest.importorskip("test.test_concurrent_futures")
    words = [sys.executable, str(Path(__file__).with_name("cpython_futures.py"))]
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    outcomes = json.loads(ended.stdout.splitlines()[-1])
    assert sum(outcome == "ok" for outcome in outcomes.values()) >= 52, outcomes
    others = {name: outcome for name, outcome in outcomes.items() if outcome not in ("ok", "skipped")}
    assert set(others) == set(EXPECTED), ended.stderr
    wrong = {name: outcome for name, outcome in others.items() if not outcome.startswith(EXPECTED[name][0])}
    assert not wrong, ended.stderr
