"""CPython's tests of `ProcessPoolExecutor`, with `regrow.Executor` in its place.

The classes are those that `test.test_concurrent_futures` makes for a pool of processes. `test_cpython.py` runs them, and
has the list of those that end otherwise here, each with the reason."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

from test import test_concurrent_futures as theirs  # type: ignore[import-not-found]

import regrow


class Adapted(regrow.Executor):
    """An executor of ours that takes what the tests give to one of theirs: which processes serve a call is ours to say."""

    def __init__(self, max_workers: int | None = None, mp_context: object = None, **more: Any) -> None:
        super().__init__(max_workers, **more)


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


class Outcomes(unittest.TextTestResult):
    """Notes how each test has ended: with `ok`, `skipped`, or the last line of what was raised."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.outcomes: dict[str, str] = {}

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        name = test.id().removeprefix(f"{__name__}.")
        raised = [text for of, text in self.errors + self.failures if of is test]
        was_skipped = any(of is test for of, _ in self.skipped)
        self.outcomes[name] = raised[-1].strip().splitlines()[-1] if raised else "skipped" if was_skipped else "ok"


def main() -> None:
    """Runs all tests, and prints their outcomes as JSON."""
    theirs.assert_python_ok = assert_python_ok
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(of) for of in CLASSES.values())
    result = unittest.TextTestRunner(verbosity=2, resultclass=Outcomes).run(suite)
    assert isinstance(result, Outcomes)
    # Their tests print how long they took.
    print(f"\n{json.dumps(result.outcomes)}")


if __name__ == "__main__":
    import cpython_futures

    cpython_futures.main()
