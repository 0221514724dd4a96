"""Runs tests of the standard library and writes each one's outcome to a file: OUTPUT NAME..."""

import sys
import unittest
import warnings

from test import support

# No network, no long computations: what is left takes seconds.
support.use_resources = []
warnings.simplefilter("ignore")

# Tests that assert a time: they fail on a machine that has other work.
TIMED = ("test.test_re.ReTests.test_search_anchor_at_beginning",)


class Outcomes(unittest.TestResult):
    """Notes how each test ended."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def note(self, test, outcome):
        if test.id() not in TIMED:
            self.lines.append(f"{test.id()} {outcome}")

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")

    def addFailure(self, test, error):
        self.note(test, "failed")
        sys.stderr.write(f"{test.id()}\n{self._exc_info_to_string(error, test)}\n")

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(subtest, error)


outcomes = Outcomes()
unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:]).run(outcomes)
with open(sys.argv[1], "w", encoding="utf-8", errors="replace") as output:
    output.write("".join(sorted(line + "\n" for line in outcomes.lines)))
