"""CPython's tests of `ProcessPoolExecutor`, with `regrow.ProcessPoolExecutor` in its place.

The classes are those that `test.test_concurrent_futures` makes for a pool of processes. `test_cpython.py` runs them, and
has the list of those that end otherwise here, each with the reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from test import test_concurrent_futures as theirs  # type: ignore[import-not-found]

import regrow
from cpython_outcomes import print_outcomes


class Adapted(regrow.ProcessPoolExecutor):
    """The executor under another name, by which programs of theirs import it."""


class RegrowMixin(theirs.ExecutorMixin):  # type: ignore[misc]
    """Gives the tests an executor of ours."""

    executor_type = Adapted
    ctx = "spawn"


def adapted(mixin: type) -> type:
    """The class of tests that is made of a mixin of theirs."""
    return type(mixin.__name__, (mixin, RegrowMixin, theirs.BaseTestCase), {"__module__": __name__})


MIXINS = (
    theirs.InitializerMixin,
    theirs.FailingInitializerMixin,
    theirs.ProcessPoolShutdownTest,
    theirs.WaitTests,
    theirs.AsCompletedTests,
    theirs.ExecutorTest,
    theirs.ProcessPoolExecutorTest,
    theirs.ExecutorDeadlockTest,
)

_assert_python_ok = theirs.assert_python_ok


def assert_python_ok(switch: str, text: str, *more: str) -> Any:
    """Runs a program of theirs, which imports the executor by its name."""
    ours = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}; from {__name__} import Adapted"
    assert "from concurrent.futures import Adapted" in text
    return _assert_python_ok(switch, text.replace("from concurrent.futures import Adapted", ours), *more)


# By their names: a method of a class is pickled as where it is found.
CLASSES = {mixin.__name__: adapted(mixin) for mixin in MIXINS}
globals().update(CLASSES)


def main() -> None:
    """Runs all tests, and prints their outcomes."""
    theirs.assert_python_ok = assert_python_ok
    print_outcomes(CLASSES.values())


if __name__ == "__main__":
    import cpython_futures

    cpython_futures.main()
