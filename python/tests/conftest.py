"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import regrow

if TYPE_CHECKING:
    from celery_servers import RabbitMQ, Redis

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


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A broker, which takes seconds to start."""
    from celery_servers import RabbitMQ, rabbitmq_program

    if rabbitmq_program() is None:
        pytest.skip("rabbitmq-server is not installed")
    server = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A broker and result backend."""
    from celery_servers import Redis

    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()
