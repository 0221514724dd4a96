"""`pytest --regrow`: the next processes are ahead of their turn, and nobody sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from regrow._pytest import controller
from regrow._pytest.gates import Gate, wait_at
from test_pytest_plugin import make, plugin_arguments, start

# A process is ahead for each that runs, whatever processors there are.
AHEAD = """
    from regrow._pytest import controller

    controller.most_ahead = lambda processes: processes
"""

# Each test notes when it begins and when it is over.
NOTING = """
    import os, pytest, time

    def note(text):
        with open("notes", "a") as file:
            file.write(text + " ")

    @pytest.fixture(autouse=True)
    def noted(request):
        name = %s
        note(f"+{name}")
        yield
        time.sleep(0.05)
        note(f"-{name}")
"""

# By its name, and by the slot that it has.
NOTES = NOTING % "request.node.name"
SLOTS = NOTING % 'request.config.workerinput["workerid"]'


def notes(pytester: pytest.Pytester) -> list[str]:
    """What the tests have noted."""
    return (pytester.path / "notes").read_text().split()


def with_notes(tests: str) -> str:
    """A module of these tests, which note."""
    return NOTES + "\n" + "\n".join(f"    {line}" for line in tests.splitlines())


def test_tests_follow_each_other(pytester: pytest.Pytester) -> None:
    make(pytester, "test_turn.py", with_notes("\n".join(f"def test_{number}(): pass" for number in range(6))))
    result = start(pytester, "--regrow", "-v")
    result.assert_outcomes(passed=6)
    assert notes(pytester) == [f"{sign}test_{number}" for number in range(6) for sign in "+-"]
    shown = [line.split()[0].rpartition("::")[2] for line in result.outlines if " PASSED" in line]
    assert shown == [f"test_{number}" for number in range(6)]


ENDS = [
    ("assert 0", ["-x"], {"passed": 1, "failed": 1}, pytest.ExitCode.TESTS_FAILED),
    ("assert 0", ["--maxfail=1"], {"passed": 1, "failed": 1}, pytest.ExitCode.TESTS_FAILED),
    ("raise KeyboardInterrupt", [], {"passed": 1}, pytest.ExitCode.INTERRUPTED),
    ("pytest.exit('enough', 7)", [], {"passed": 1}, 7),
]


@pytest.mark.parametrize(("ends", "arguments", "outcomes", "status"), ENDS)
def test_what_ends_the_session_ends_the_one_ahead(
    pytester: pytest.Pytester, ends: str, arguments: list[str], outcomes: dict[str, int], status: int
) -> None:
    tests = f"def test_a(): pass\ndef test_b():\n    {ends}\ndef test_c(): pass\ndef test_d(): pass"
    make(pytester, "test_ends.py", with_notes(tests))
    result = start(pytester, "--regrow", *arguments)
    result.assert_outcomes(**outcomes)
    assert result.ret == status
    assert not any("test_c" in note or "test_d" in note for note in notes(pytester))


def test_the_one_ahead_goes_on_after_a_failure_and_after_a_crash(pytester: pytest.Pytester) -> None:
    ends = {"a": "assert 0", "b": "os.abort()", "c": "os._exit(0)", "d": "pass", "e": "pass"}
    make(pytester, "test_on.py", with_notes("\n".join(f"def test_{letter}(): {end}" for letter, end in ends.items())))
    start(pytester, "--regrow").assert_outcomes(passed=2, failed=3)
    assert [note for note in notes(pytester) if note[0] == "+"] == [f"+test_{letter}" for letter in "abcde"]


def test_what_is_left_of_a_unit_comes_before_the_one_ahead(pytester: pytest.Pytester) -> None:
    make(pytester, "test_a.py", with_notes("def test_a(): os.abort()\ndef test_b(): pass"))
    make(pytester, "test_b.py", with_notes("def test_c(): pass"))
    start(pytester, "--regrow=module").assert_outcomes(passed=2, failed=1)
    assert notes(pytester) == ["+test_a", "+test_b", "-test_b", "+test_c", "-test_c"]


def test_a_copy_that_a_test_makes_of_its_process_reports_nothing(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_copy.py",
        """
        import os

        def test_copy():
            if os.fork() == 0:
                assert 0, "in the copy"
            os.wait()

        def test_after(): pass
        """,
    )
    result = start(pytester, "--regrow")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*in the copy*")


@pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_the_number_of_processes_of_xdist_is_taken(pytester: pytest.Pytester) -> None:
    tests = "\n".join(f"    def test_{number}(worker_id): assert worker_id in ('gw0', 'gw1')" for number in range(8))
    make(pytester, "test_workers.py", "\n" + tests + "\n    def test_last(): assert 0\n")
    result = start(pytester, "--regrow", "-n", "2", "-v")
    result.assert_outcomes(passed=8, failed=1)
    shown = [line.split()[0].rpartition("::")[2] for line in result.outlines if " PASSED" in line]
    assert shown == [f"test_{number}" for number in range(8)]


def test_no_more_run_at_a_time_than_asked_for_and_none_share_a_slot(pytester: pytest.Pytester) -> None:
    make(pytester, "conftest.py", AHEAD)
    make(pytester, "test_slots.py", SLOTS + "".join(f"\n    def test_{number}(): pass" for number in range(24)))
    start(pytester, "--regrow", "-n", "3").assert_outcomes(passed=24)
    running: set[str] = set()
    most = 0
    for note in notes(pytester):
        worker = note[1:]
        if note[0] == "+":
            assert worker in ("gw0", "gw1", "gw2")
            assert worker not in running
            running.add(worker)
        else:
            running.remove(worker)
        most = max(most, len(running))
    assert most == 3
    assert not running


@pytest.mark.parametrize("argument", ["-x", "--maxfail=1"])
def test_a_failure_that_ends_the_session_ends_all_that_are_ahead(pytester: pytest.Pytester, argument: str) -> None:
    make(pytester, "conftest.py", AHEAD)
    tests = ["def test_a(): assert 0", "def test_b(): time.sleep(30)", *(f"def test_{letter}(): pass" for letter in "cdef")]
    make(pytester, "test_ends.py", with_notes("\n".join(tests)))
    started = time.monotonic()
    start(pytester, "--regrow", "-n", "2", argument).assert_outcomes(failed=1)
    assert time.monotonic() - started < 30
    assert {note[1:] for note in notes(pytester)} <= {"test_a", "test_b"}


def test_what_is_left_of_a_unit_comes_before_all_that_are_ahead(pytester: pytest.Pytester) -> None:
    make(pytester, "conftest.py", AHEAD)
    make(pytester, "test_a.py", with_notes("def test_a():\n    time.sleep(0.5)\n    os.abort()\ndef test_b(): pass"))
    # It has the other slot until what is left of the first unit has begun.
    other = "def test_c():\n    while '+test_b' not in open('notes').read(): time.sleep(0.01)"
    make(pytester, "test_b.py", with_notes(other))
    for letter in "def":
        make(pytester, f"test_{letter}.py", with_notes(f"def test_{letter}(): pass"))
    start(pytester, "--regrow=module", "-n", "2").assert_outcomes(passed=5, failed=1)
    begun = [note[1:] for note in notes(pytester) if note[0] == "+"]
    assert sorted(begun) == [f"test_{letter}" for letter in "abcdef"]
    assert sorted(begun[:2]) == ["test_a", "test_c"]
    assert begun[2] == "test_b"


def test_a_time_limit_counts_from_the_turn(pytester: pytest.Pytester) -> None:
    make(pytester, "conftest.py", AHEAD)
    tests = "".join(f"    def test_{number}(): time.sleep(2)\n" for number in range(4))
    make(pytester, "test_limit.py", f"\n    import time\n{tests}")
    start(pytester, "--regrow", "-n", "2", "--regrow-timeout", "3.5").assert_outcomes(passed=4)


def test_a_process_that_is_ahead_of_a_session_that_is_killed_runs_nothing(pytester: pytest.Pytester) -> None:
    make(pytester, "conftest.py", AHEAD)
    make(pytester, "test_killed.py", with_notes("def test_a(): time.sleep(1)\ndef test_b(): pass"))
    words = [sys.executable, "-m", "pytest", *plugin_arguments(), "--regrow"]
    with subprocess.Popen(words, cwd=pytester.path, stdout=subprocess.DEVNULL) as session:
        until = time.monotonic() + 60
        while not (pytester.path / "notes").exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)
        session.kill()
    assert session.returncode == -signal.SIGKILL
    time.sleep(1.5)
    assert {note[1:] for note in notes(pytester)} == {"test_a"}


def test_many_short_tests_of_a_unit_are_shown_in_order_and_a_large_report_among_them(pytester: pytest.Pytester) -> None:
    tests = "".join(f"def test_{number}(): pass\n" for number in range(300))
    make(
        pytester, "test_unit.py", f"{tests}def test_large():\n    print('x' * 3_000_000)\n    assert 0\ndef test_last(): pass\n"
    )
    result = start(pytester, "--regrow=module", "-v", "--tb=no", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=301, failed=1)
    shown = [line.split()[0].rpartition("::")[2] for line in result.outlines if " PASSED" in line or " FAILED" in line]
    assert shown == [*(f"test_{number}" for number in range(300)), "test_large", "test_last"]


def test_a_failure_of_a_unit_is_seen_at_once_where_it_ends_the_session(pytester: pytest.Pytester) -> None:
    tests = ["def test_a(): pass", "def test_b(): assert 0", "def test_c(): time.sleep(1)", "def test_d(): pass"]
    make(pytester, "test_unit.py", with_notes("\n".join(tests)))
    start(pytester, "--regrow=module", "-x").assert_outcomes(passed=1, failed=1)
    assert not any("test_d" in note for note in notes(pytester))


def test_a_gate_tells_the_slot_or_that_there_is_none() -> None:
    gate = Gate()
    for slot in (0, 7, 1000):
        gate.open_for(slot)
        assert wait_at(os.dup(gate.theirs)) == slot
    waiting = os.dup(gate.theirs)
    gate.close()
    assert wait_at(waiting) is None


@pytest.mark.parametrize(
    ("processors", "processes", "ahead"), [(1, 1, 0), (2, 1, 1), (8, 1, 1), (2, 2, 0), (8, 6, 2), (8, 3, 3), (2, 4, 0)]
)
def test_processes_are_ahead_where_processors_are_left(
    monkeypatch: pytest.MonkeyPatch, processors: int, processes: int, ahead: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(processors)))
    assert controller.most_ahead(processes) == ahead
