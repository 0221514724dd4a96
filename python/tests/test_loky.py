"""loky's own tests of its executor end with ours as with theirs, but for a list of tests with their reasons.

The folder of loky's source archive, which has the tests, is what the variable `REGROW_LOKY` names; check.sh fetches it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILES = ("tests/test_reusable_executor.py", "tests/test_cloudpickle_wrapper.py")
_OF_CRASHES = ("TestExecutorDeadLock.test_crashes", "TestExecutorDeadLock.test_in_callback_submit_with_crash")

#: Tests that are not run.
LEFT_OUT = (
    # They look at the workers of the executor, of which there are none.
    "TestExecutorDeadLock::test_deadlock_kill",
    "TestExecutorDeadLock::test_crash_races",
    "TestTerminateExecutor::test_shutdown_deadlock",
    "TestResizeExecutor::test_reusable_executor_resize",
    "TestResizeExecutor::test_kill_after_resize_call",
    "TestGetReusableExecutor::test_reusable_executor_reuse_true",
    "TestGetReusableExecutor::test_max_memory_leak_size_env_var",
    "test_no_crash_max_workers_on_windows",
    # Workers do not turn on `faulthandler`.
    "TestGetReusableExecutor::test_faulthandler_enabled",
    # They count on times: that ten programs begin within a second, that forty images are made.
    "TestGetReusableExecutor::test_reusable_executor_queue_size",
    "TestGetReusableExecutor::test_reusable_executor_submit_with_concurrent_env_changes",
    # It counts on executors of threads that are gone.
    "test_thread_local",
    # They are of loky's own module for pickles.
    "TestCloudpickleWrapper::test_serialization_function_from_main",
    "TestCloudpickleWrapper::test_set_loky_pickler",
    "TestCloudpickleWrapper::test_isolated_pickler_dispatch_tables",
)

#: Tests that end otherwise, by what is raised then.
OTHERWISE = {
    # Arguments are pickled where the call is submitted: what asks for the end of the program is raised there.
    "[id-args0-PicklingError-None]": "SystemExit",
    # Arguments or a result that cannot be loaded are the call's own error, and not that of the pool.
    "[id-args2-BrokenProcess-SystemExit]": "SystemExit",
    "[id-args4-BrokenProcess-UnpicklingError]": "_pickle.UnpicklingError",
    "[return_instance-args14-BrokenProcess-SystemExit]": "AssertionError: Regex pattern did not match",
    "[return_instance-args15-BrokenProcess-UnpicklingError]": "_pickle.UnpicklingError",
    # The end of a process is told in other words.
    "[id-args3-BrokenProcess-EXIT\\\\(0\\\\)]": "AssertionError: Regex pattern did not match",
    "[c_exit-args8-BrokenProcess-EXIT\\\\(0\\\\)]": "AssertionError: Regex pattern did not match",
    "[return_instance-args12-BrokenProcess-EXIT\\\\(0\\\\)]": "AssertionError: Regex pattern did not match",
}
OF_ALL = {f"{test}{name}": outcome for test in _OF_CRASHES for name, outcome in OTHERWISE.items()} | {
    # A callback that asks for the end of the program may do so in the thread that waits for the call.
    "TestExecutorDeadLock.test_callback_crash_on_submit": "SystemExit",
    "TestExecutorDeadLock.test_informative_error_when_fail_at_unpickle": "RuntimeError: message raised in child",
    # A call that ends its process while it cleans up is broken itself, and not the next one.
    "TestTerminateExecutor.test_call_item_gc_crash_or_exit[CrashAtGCInWorker-SIGSEGV]": "regrow._errors.BrokenProcess",
    "TestTerminateExecutor.test_call_item_gc_crash_or_exit[CExitAtGCInWorker-EXIT\\\\(0\\\\)]": "regrow._errors.BrokenProcess",
    # It asks for a private method, for a warning, for an argument that loky does not look at.
    "TestGetReusableExecutor.test_invalid_process_number": "AttributeError",
    "TestGetReusableExecutor.test_invalid_context": "Failed: DID NOT WARN",
    "TestExecutorInitializer.test_reusable_initializer": "TypeError: Executor.map() got an unexpected keyword argument",
}


def test_loky_s_tests_end_as_with_loky(tmp_path: Path) -> None:
    for module in ("loky", "psutil", "cloudpickle"):
        pytest.importorskip(module)
    sources = os.environ.get("REGROW_LOKY")
    if sources is None:
        pytest.skip("REGROW_LOKY does not name the folder of loky's source archive")
    plugin = Path(__file__).with_name("loky_with_regrow.py")
    # The programs that they start have it too.
    shutil.copy(plugin, tmp_path / "sitecustomize.py")
    path = os.pathsep.join([str(tmp_path), str(plugin.parent), *sys.path])
    words = [sys.executable, "-m", "pytest", "-p", plugin.stem, "-p", "no:cacheprovider", "--loky-verbosity", "50", *FILES]
    for name in LEFT_OUT:
        words += [f"--deselect={file}::{name}" for file in FILES]
    ended = subprocess.run(
        words, cwd=sources, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=600, check=False
    )
    outcomes = json.loads(ended.stdout.splitlines()[-1])
    others = {name: outcome for name, outcome in outcomes.items() if outcome not in ("ok", "skipped")}
    assert set(others) == set(OF_ALL), ended.stdout
    wrong = {name: outcome for name, outcome in others.items() if not outcome.startswith(OF_ALL[name])}
    assert not wrong, ended.stdout
    assert sum(outcome == "ok" for outcome in outcomes.values()) >= 39, outcomes
