"""Processes of calls that are started ahead of their turn: they are ready, and have not begun."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

import calls
import regrow
from regrow._starter import Reuse


def is_so(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """How many of these spans of time overlap at most."""
    events = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("reuse", ["always", "never"])
def test_no_more_calls_run_at_a_time_than_are_asked_for(workers: int, reuse: Reuse) -> None:
    with regrow.Executor(workers, preload=["json"], reuse=reuse) as executor:
        futures = [executor.submit(calls.span, 0.002) for _ in range(60)]
        assert most_at_once([future.result() for future in futures]) <= workers
    made = [future.creation for future in futures]
    assert sum(creation is not None and "exec" not in creation for creation in made) > 50, made


def test_the_next_call_has_its_process_and_has_not_begun(tmp_path: Path) -> None:
    with regrow.Executor(1) as executor:
        first = executor.submit(calls.wait_for, str(tmp_path / "end"))
        second = executor.submit((tmp_path / "begun").touch)
        assert is_so(lambda: second.creation is not None)
        time.sleep(0.1)
        assert not second.running()
        assert not (tmp_path / "begun").exists()
        (tmp_path / "end").touch()
        second.result()
        assert (tmp_path / "begun").exists()
        assert first.result() == "waited"


def test_a_call_that_is_ahead_can_be_cancelled(tmp_path: Path) -> None:
    with regrow.Executor(1) as executor:
        first = executor.submit(calls.wait_for, str(tmp_path / "end"))
        second = executor.submit((tmp_path / "begun").touch)
        third = executor.submit(calls.pid)
        assert is_so(lambda: second.creation is not None)
        assert second.cancel()
        assert second.cancelled()
        (tmp_path / "end").touch()
        assert isinstance(third.result(), int)
        assert first.result() == "waited"
    assert not (tmp_path / "begun").exists()
    assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("reuse", ["always", "never"])
def test_a_call_that_is_cancelled_while_it_is_started_ahead_does_not_run(tmp_path: Path, reuse: Reuse) -> None:
    with regrow.Executor(1, reuse=reuse) as executor:
        executor.submit(calls.pid).result()
        for turn in range(40):
            end, ran = tmp_path / f"end{turn}", tmp_path / f"ran{turn}"
            first = executor.submit(calls.wait_for, str(end))
            cancelled: list[bool] = []

            def cancel(cancelled: list[bool] = cancelled) -> None:
                while not (waiting := executor._calls.core.waiting()):
                    pass
                cancelled.append(waiting[0].cancel())

            thread = threading.Thread(target=cancel)
            thread.start()
            second = executor.submit(ran.touch)
            thread.join()
            assert cancelled == [True]
            assert second.cancelled()
            end.touch()
            assert first.result() == "waited"
            executor.submit(calls.pid).result()
            assert not ran.exists(), turn


def test_the_time_of_a_call_counts_from_its_turn() -> None:
    with regrow.Executor(1, timeout=3.0) as executor:
        futures = [executor.submit(calls.sleep, 1.8) for _ in range(2)]
        for future in futures:
            future.result()


def test_a_call_whose_order_is_long_is_started_in_its_turn(tmp_path: Path) -> None:
    with regrow.Executor(1) as executor:
        first = executor.submit(calls.wait_for, str(tmp_path / "end"))
        second = executor.submit(len, "x" * 300_000)
        time.sleep(0.1)
        assert second.creation is None
        (tmp_path / "end").touch()
        assert second.result() == 300_000
        assert first.result() == "waited"


def test_a_process_that_is_ahead_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, time, regrow, calls\n"
        "if __name__ == '__main__':\n"
        "    executor = regrow.Executor(1)\n"
        "    first = executor.submit(calls.wait_for, sys.argv[1])\n"
        "    second = executor.submit(print, 'begun')\n"
        "    while second.creation is None:\n"
        "        time.sleep(0.001)\n"
        "    print('ahead', flush=True)\n"
        "    time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, str(program), str(tmp_path / "end")]
    caller = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    assert caller.stdout.readline() == "ahead\n"
    children = psutil.Process(caller.pid).children()
    caller.kill()
    caller.wait()
    (tmp_path / "end").touch()
    gone, left = psutil.wait_procs(children, timeout=60)
    for process in left:
        process.kill()
    assert len(gone) >= 2
    assert not left
    assert caller.stdout.read() == ""
    caller.stdout.close()
