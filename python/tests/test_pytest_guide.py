"""The guide's page on tests: its files are written, its commands run, and the lines that it shows are among the output."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "src" / "python-tests.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_the_guide_shows_is_what_happens(pytester: pytest.Pytester) -> None:
    commands = 0
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            name = text.partition("\n")[0].lstrip("# ")
            (pytester.path / name).write_text(text, encoding="utf-8")
        elif kind == "console":
            command, *shown = text.splitlines()
            program, *words = shlex.split(command.lstrip("$ "))
            assert program == "pytest"
            result = pytester.run(sys.executable, "-m", "pytest", *words, timeout=120)
            assert [line for line in shown if line not in result.outlines] == []
            commands += 1
    assert commands == 1
