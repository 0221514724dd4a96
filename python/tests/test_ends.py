"""What a call leaves to be done at its end is done, and a call that leaves nothing ends by the quick way."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ends
import regrow


@pytest.fixture(scope="module", name="executor")
def make_executor() -> Iterator[regrow.Executor]:
    with regrow.Executor(1, preload=["logging", "logging.handlers", "json"]) as executor:
        yield executor


def recycled(executor: regrow.Executor, name: str, *args: object) -> object:
    """What a function of `ends` returns, out of a warm image."""
    future = executor.submit(getattr(ends, name), *args)
    value = future.result(60)
    assert future.creation is not None
    assert future.creation.endswith("at warm"), future.creation
    return value


def test_nothing_in_python_is_between_the_front_end_and_the_function(executor: regrow.Executor) -> None:
    assert recycled(executor, "caller") == "begin"


@pytest.mark.parametrize(
    "name",
    [
        "exit_function",
        "finalizer",
        "weak_finalizer",
        "open_file",
        "open_file_of_a_class",
        "buffered_handler",
        "thread",
        "multiprocessing_finalizer",
        "suspended_generator",
        "child_of_multiprocessing",
        "cycle",
        "strange_class",
    ],
)
def test_what_a_call_leaves_to_be_done_is_done(executor: regrow.Executor, tmp_path: Path, name: str) -> None:
    path = tmp_path / "left"
    assert recycled(executor, name, str(path)) == "returned"
    assert path.read_text() == "done"
    # The process after it has none of it.
    path.unlink()
    assert recycled(executor, "caller") == "begin"
    assert not path.exists()


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_call_prints_is_written(tmp_path: Path, number: int, capfd: pytest.CaptureFixture[str]) -> None:
    with regrow.Executor(1) as executor:
        executor.submit(ends.print_without_an_end, number, "text").result()
    assert capfd.readouterr()[number - 1] == "text" * (3 if number == 1 else 2)


def test_each_call_has_the_environment_and_the_arguments_of_its_time(
    executor: regrow.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("one", "two=2", "\udcff", None, "one"):
        if value is None:
            monkeypatch.delenv("ENDS", raising=False)
        else:
            monkeypatch.setenv("ENDS", value)
        monkeypatch.setattr(sys, "argv", ["program", *([value] if value else [])])
        wanted = None if value is None else os.fsencode(value)
        assert recycled(executor, "world", "ENDS") == (value, wanted, sys.argv)


def test_a_call_that_raises_says_where(executor: regrow.Executor) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        recycled(executor, "fail", 0)
    text = str(caught.value.__cause__)
    assert "in fail" in text
    assert "worker.py" not in text


def test_a_process_that_a_call_leaves_behind_has_no_file_of_calls(executor: regrow.Executor) -> None:
    left = executor.submit(ends.left_behind).result(60)
    try:
        # Exec may not have closed all of those yet that it closes.
        end = time.monotonic() + 60
        while (held := sorted(os.listdir(f"/proc/{left}/fd"))) != ["0", "1", "2"] and time.monotonic() < end:
            time.sleep(0.001)
        assert held == ["0", "1", "2"]
    finally:
        os.kill(left, signal.SIGKILL)
