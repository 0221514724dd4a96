"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import regrow

pytest_plugins = ["pytester"]

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def executor() -> Iterator[regrow.Executor]:
    """An executor for calls that leave it as it is."""
    with regrow.Executor(2) as shared:
        yield shared


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs a text as a program of its own, as a user would, and gives its outcome."""

    def run(text: str, *args: str, **more: object) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "program.py"
        path.write_text(text)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, str(path), *args], env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run
