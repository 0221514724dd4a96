"""Runs classes of unittest, and prints how each of their tests has ended."""

from __future__ import annotations

import json
import unittest
from collections.abc import Iterable
from typing import Any


class Outcomes(unittest.TextTestResult):
    """Notes how each test has ended: with `ok`, `skipped`, or the last line of what was raised."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.outcomes: dict[str, str] = {}

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        name = ".".join(test.id().split(".")[-2:])
        raised = [text for of, text in self.errors + self.failures if of is test]
        was_skipped = any(of is test for of, _ in self.skipped)
        self.outcomes[name] = raised[-1].strip().splitlines()[-1] if raised else "skipped" if was_skipped else "ok"


def print_outcomes(classes: Iterable[type[unittest.TestCase]]) -> None:
    """Runs all tests of the classes. The last line is a JSON object: tests and their outcomes."""
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(of) for of in classes)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Outcomes).run(suite)
    assert isinstance(result, Outcomes)
    # Their tests print how long they took.
    print(f"\n{json.dumps(result.outcomes)}")
