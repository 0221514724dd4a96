"""`pytest --regrow`, one process at a time: the next one is ahead, and nobody sees it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from test_pytest_plugin import make, start

# Each test notes when it begins and when it is over.
NOTES = """
    import os, pytest, time

    def note(text):
        with open("notes", "a") as file:
            file.write(text + " ")

    @pytest.fixture(autouse=True)
    def noted(request):
        note(f"+{request.node.name}")
        yield
        time.sleep(0.05)
        note(f"-{request.node.name}")
"""


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
