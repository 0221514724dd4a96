"""CPython's tests of `multiprocessing`, with the processes of `regrow.get_context()` in place of those of its method `spawn`.

Those with threads in place of processes are left out. `test_cpython.py` runs the others, and has the list of those that end
otherwise here, each with the reason."""

from __future__ import annotations

import multiprocessing.context
import unittest
from typing import Any

from test import _test_multiprocessing as theirs  # type: ignore[import-not-found]

import regrow
from cpython_outcomes import print_outcomes

OURS: Any = regrow.get_context()
# The processes that the tests start find a context by its name, and have no other than the library's.
OURS._name = "spawn"
CONTEXTS: dict[str, Any] = vars(multiprocessing.context)["_concrete_contexts"]
CONTEXTS.update(spawn=OURS, fork=OURS)
theirs.install_tests_in_module_dict(globals(), "spawn")


def main() -> None:
    """Runs all tests, and prints their outcomes."""
    classes = [of for of in globals().values() if isinstance(of, type) and issubclass(of, unittest.TestCase)]
    setup, end = globals()["setUpModule"], globals()["tearDownModule"]
    setup()
    print_outcomes(of for of in classes if not of.__name__.startswith("WithThreads"))
    end()


if __name__ == "__main__":
    import cpython_multiprocessing

    cpython_multiprocessing.main()
