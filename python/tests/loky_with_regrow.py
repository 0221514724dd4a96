"""Has loky's own tests meet `regrow.get_reusable_executor`: a plugin of pytest, and of every interpreter that they start.

`test_loky.py` runs them with this module as `sitecustomize` too, so that their programs import ours from loky.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import json
from typing import Any

import loky
import loky.process_executor
import loky.reusable_executor

import regrow

for module in (loky, loky.reusable_executor):
    module.get_reusable_executor = regrow.get_reusable_executor
theirs = loky.process_executor
theirs.TerminatedWorkerError = theirs.BrokenProcessPool = regrow.BrokenProcess
theirs._RemoteTraceback = regrow.RemoteTraceback
# A call that was killed is broken, one that waited is cancelled, and none is taken after a shutdown.
theirs.ShutdownExecutorError = (regrow.BrokenProcess, concurrent.futures.CancelledError, RuntimeError)


def pytest_sessionstart() -> None:
    """There are no workers to be counted."""
    mixin: Any = importlib.import_module("tests._executor_mixin")
    mixin._check_subprocesses_number = lambda *_, **__: None


outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Notes how a test has ended: `ok`, `skipped`, or what was raised."""
    name = report.nodeid.partition("::")[2].replace("::", ".")
    if report.skipped:
        outcomes[name] = "skipped"
    elif report.failed:
        outcomes[name] = str(report.longrepr.reprcrash.message)
    elif report.when == "call":
        outcomes[name] = "ok"


def pytest_unconfigure() -> None:
    """The last line is a JSON object: tests and their outcomes."""
    print(f"\n{json.dumps(outcomes)}")
