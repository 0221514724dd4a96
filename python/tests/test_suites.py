"""The suite of a small package has the same outcomes under `pytest --regrow`; `suites.py` runs larger ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import suites


@pytest.mark.parametrize("name", ["markupsafe"])
def test_a_suite_has_the_outcomes_of_plain_pytest(name: str) -> None:
    (suite,) = [suite for suite in suites.SUITES if suite.name == name]
    # Beside the environment of the tests: what was fetched once is there for the next time.
    line, wrong = suites.compare(suite, Path(sys.prefix).parent / "suites")
    print(line)
    assert wrong == []
