"""`pytest --regrow`: what a session shows, and what its tests can see of each other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

# Tests of every kind, with every way to end but a crash.
MIXED = {
    "conftest.py": """
        import pytest

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(item, call):
            outcome = yield
            report = outcome.get_result()
            if report.when == "call":
                report.sections.append(("added by conftest", item.name))
    """,
    "test_mixed.py": """
        import logging
        import unittest
        import warnings

        import pytest

        def test_passes():
            print("nobody sees this")

        def test_fails():
            print("seen on failure")
            left = {"a": 1, "b": [1, 2, 3]}
            assert left == {"a": 1, "b": [1, 2, 4]}

        def test_chain():
            try:
                raise KeyError("first")
            except KeyError as error:
                raise ValueError("second") from error

        @pytest.mark.skip(reason="not today")
        def test_skipped():
            pass

        def test_skips_itself():
            pytest.skip("in the middle")

        @pytest.mark.xfail(reason="known")
        def test_xfails():
            assert False

        @pytest.mark.xfail
        def test_xpasses():
            pass

        @pytest.mark.xfail(strict=True)
        def test_xpasses_strictly():
            pass

        @pytest.mark.parametrize("value", [1, 2, "with space", "x\\ny", "\\u00e4", None])
        def test_values(value):
            assert value != 2

        @pytest.fixture
        def broken():
            raise RuntimeError("no fixture")

        @pytest.fixture
        def breaks_later():
            yield 1
            raise RuntimeError("no teardown")

        def test_setup_error(broken):
            pass

        def test_teardown_error(breaks_later):
            pass

        def test_both(breaks_later):
            assert not breaks_later

        def test_logs():
            logging.getLogger("x").warning("a record")
            assert 0

        def test_warns():
            warnings.warn("old", DeprecationWarning)

        class Own(UserWarning):
            pass

        def test_warns_of_its_own():
            warnings.warn(Own("mine"))

        class TestGrouped:
            @pytest.fixture(scope="class", autouse=True)
            def ready(self):
                self.__class__.value = 7

            def test_class_fixture(self):
                assert self.value == 7

        class Case(unittest.TestCase):
            def setUp(self):
                self.value = 1

            def test_equal(self):
                self.assertEqual(self.value, 2)

            @unittest.skip("unittest's own")
            def test_skipped(self):
                pass

            @unittest.expectedFailure
            def test_expected(self):
                self.fail("as expected")
    """,
    "test_second.py": """
        import pytest

        @pytest.fixture(scope="module")
        def resource():
            yield [1]

        def test_first(resource):
            resource.append(2)

        def test_exit_code():
            raise SystemExit(3)
    """,
}

TIMES = re.compile(r"\b(in )?\d+\.\d+s\b( \(\d+:\d\d:\d\d\))?")
RULES = re.compile(r"={3,}|_{3,}|-{3,}")


@pytest.fixture
def files(pytester: pytest.Pytester) -> pytest.Pytester:
    """The mixed suite in a folder of its own."""
    for name, text in MIXED.items():
        make(pytester, name, text)
    pytester.maketxtfile(test_doc=">>> 1 + 1\n2\n>>> 1 + 1\n3\n")
    return pytester


def make(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / name).write_text(textwrap.dedent(text), encoding="utf-8")


def start(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """A pytest in a process of its own, as a user starts it."""
    return pytester.run(sys.executable, "-m", "pytest", *plugin_arguments(), *arguments, timeout=120)


def plugin_arguments() -> list[str]:
    """What loads the plugin where the package is not installed."""
    found: Any = entry_points()
    points = found.select(group="pytest11") if hasattr(found, "select") else found.get("pytest11", ())
    return [] if any(point.name == "regrow" for point in points) else ["-p", "regrow.pytest_plugin"]


def shown(result: pytest.RunResult) -> list[str]:
    """The output without what differs between any two sessions, or says that Regrow is there."""
    lines = [RULES.sub("=", TIMES.sub("T", line)) for line in result.outlines]
    return [line.strip() for line in lines if not line.startswith("regrow: ")]


#: Each is like another one: `make soak` tries them.
MORE_ARGUMENTS = [("-v",), ("-x",), ("--color=yes",)] if os.environ.get("REGROW_LONG") else []


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-rA", "-vv"),
        ("-q", "--tb=short"),
        ("--maxfail=3", "-v"),
        ("-k", "values or Case"),
        ("--setup-show", "-k", "teardown_error or passes"),
        ("-o", "log_cli=true", "--log-cli-level=INFO", "-k", "test_logs"),
        ("-p", "no:terminal"),
        *MORE_ARGUMENTS,
    ],
    ids=" ".join,
)
def test_output_is_that_of_plain_pytest(files: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    plain = start(files, *arguments)
    recycled = start(files, "--regrow", *arguments)
    assert shown(recycled) == shown(plain)
    assert recycled.ret == plain.ret


@pytest.mark.parametrize("unit", ["module", "file"])
def test_output_of_groups_is_that_of_plain_pytest(files: pytest.Pytester, unit: str) -> None:
    plain = start(files, "-v", "-rA")
    recycled = start(files, f"--regrow={unit}", "-v", "-rA")
    assert shown(recycled) == shown(plain)


def test_many_at_a_time_show_the_same(files: pytest.Pytester) -> None:
    plain = start(files, "-v", "-rA", "-p", "no:xdist")
    recycled = start(files, "--regrow", "-n", "3", "-v", "-rA", "-p", "no:xdist")
    assert shown(recycled) == shown(plain)


def test_junit_is_that_of_plain_pytest(files: pytest.Pytester) -> None:
    def cases(name: str) -> list[tuple[Any, ...]]:
        found = []
        for case in ElementTree.parse(files.path / name).iter("testcase"):
            parts = [(part.tag, part.get("message"), part.text) for part in case]
            found.append((case.get("classname"), case.get("name"), parts))
        return found

    start(files, "--junitxml=plain.xml")
    start(files, "--regrow", "--junitxml=recycled.xml")
    assert cases("recycled.xml") == cases("plain.xml")


def test_parts_of_tests_are_shown(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_parts.py",
        """
        import unittest

        class Case(unittest.TestCase):
            def test_parts(self):
                for number in range(3):
                    with self.subTest(number=number):
                        self.assertNotEqual(number, 1)
        """,
    )
    plain = start(pytester)
    recycled = start(pytester, "--regrow")
    assert recycled.parseoutcomes() == plain.parseoutcomes()
    assert recycled.ret == plain.ret


@pytest.mark.skipif(find_spec("_pytest.subtests") is None, reason="this pytest has no subtests fixture")
def test_failed_parts_make_the_test_fail(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_parts.py",
        """
        def test_parts(subtests):
            for number in range(3):
                with subtests.test(number=number):
                    assert number != 1
        """,
    )
    plain = start(pytester)
    recycled = start(pytester, "--regrow")
    assert recycled.parseoutcomes() == plain.parseoutcomes()


GLOBAL = """
    import os

    state = []

    def test_one():
        state.append(1)
        os.environ["LEFT"] = "1"
        assert state == [1]

    def test_two():
        state.append(2)
        assert state == [2]
        assert "LEFT" not in os.environ

    class TestThree:
        def test_pid(self):
            import os
            assert state == []
"""


def test_tests_do_not_see_each_other(pytester: pytest.Pytester) -> None:
    make(pytester, "test_global.py", GLOBAL)
    start(pytester).assert_outcomes(passed=1, failed=2)
    start(pytester, "--regrow").assert_outcomes(passed=3)
    start(pytester, "--regrow=module").assert_outcomes(passed=1, failed=2)


def test_each_unit_has_a_process(pytester: pytest.Pytester) -> None:
    text = """
        import os
        def test_a(record_property): record_property("pid", os.getpid())
        def test_b(record_property): record_property("pid", os.getpid())
    """
    make(pytester, "test_x.py", text)
    make(pytester, "test_y.py", text)

    def processes(*arguments: str) -> list[str]:
        start(pytester, *arguments, "--junitxml=x.xml").assert_outcomes(passed=4)
        properties = ElementTree.parse(pytester.path / "x.xml").iter("property")
        return [str(each.get("value")) for each in properties]

    assert len(set(processes())) == 1
    assert len(set(processes("--regrow"))) == 4
    for unit in ("module", "file"):
        first, second, third, fourth = processes(f"--regrow={unit}")
        assert first == second != third == fourth


def test_fixtures_of_every_scope(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_scopes.py",
        """
        import pytest
        from pathlib import Path

        def note(what):
            with open("notes", "a") as file:
                print(what, file=file)

        @pytest.fixture(scope="session")
        def session():
            note("session up"); yield; note("session down")

        @pytest.fixture(scope="module")
        def module(session):
            note("module up"); yield; note("module down")

        @pytest.fixture
        def function(module):
            note("function up"); yield; note("function down")

        def test_a(function): note("a")
        def test_b(function): note("b")
        def test_c(): note("c")
        """,
    )
    notes = pytester.path / "notes"
    up, down = ["session up", "module up"], ["module down", "session down"]
    a = ["function up", "a", "function down"]
    b = ["function up", "b", "function down"]
    start(pytester, "--regrow").assert_outcomes(passed=3)
    assert notes.read_text().splitlines() == [*up, *a, *down, *up, *b, *down, "c"]
    notes.unlink()
    start(pytester, "--regrow=module").assert_outcomes(passed=3)
    assert notes.read_text().splitlines() == [*up, *a, *b, "c", *down]


CRASHES = """
    import os, signal

    def test_before(): pass
    def test_segv():
        os.kill(os.getpid(), signal.SIGSEGV)
    def test_between(): pass
    def test_exit():
        os._exit(3)
    def test_after(): pass
"""


@pytest.mark.parametrize("unit", ["test", "module"])
def test_a_crash_is_the_failure_of_its_test(pytester: pytest.Pytester, unit: str) -> None:
    make(pytester, "test_crash.py", CRASHES)
    result = start(pytester, f"--regrow={unit}", "-v")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*::test_before PASSED*",
            "*::test_segv FAILED*",
            "*::test_between PASSED*",
            "*::test_exit FAILED*",
            "*::test_after PASSED*",
            "FAILED test_crash.py::test_segv - crashed with SIGSEGV",
            "FAILED test_crash.py::test_exit - its process ended with exit status 3",
        ]
    )


def test_a_crash_at_the_end_of_a_process_is_an_error(pytester: pytest.Pytester) -> None:
    make(pytester, "test_late.py", "import atexit, os\n\ndef test_late():\n    atexit.register(os.abort)\n")
    result = start(pytester, "--regrow")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["ERROR test_late.py::test_late - crashed with SIGABRT"])


@pytest.mark.parametrize("unit", ["test", "module"])
def test_a_test_that_takes_too_long_is_killed(pytester: pytest.Pytester, unit: str) -> None:
    make(
        pytester,
        "test_slow.py",
        "import time\ndef test_fast(): pass\ndef test_slow(): time.sleep(600)\ndef test_last(): pass\n",
    )
    result = start(pytester, f"--regrow={unit}", "--regrow-timeout=4")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["FAILED test_slow.py::test_slow - took longer than 4 s and was killed"])
    pytester.makeini("[pytest]\nregrow_timeout = 4\n")
    start(pytester, f"--regrow={unit}", "-k", "test_slow and not last and not fast").assert_outcomes(failed=1, deselected=2)


def test_output_that_is_not_captured_comes_in_order(pytester: pytest.Pytester) -> None:
    make(pytester, "test_out.py", "def test_a(): print('from a')\ndef test_b(): print('from b')\n")
    plain = start(pytester, "-s")
    recycled = start(pytester, "-s", "--regrow")
    assert shown(recycled) == shown(plain)


def test_last_failed_runs_what_failed(pytester: pytest.Pytester) -> None:
    make(pytester, "test_lf.py", "def test_a(): pass\ndef test_b(): assert 0\ndef test_c(): import os; os._exit(1)\n")
    start(pytester, "--regrow").assert_outcomes(passed=1, failed=2)
    start(pytester, "--regrow", "--lf").assert_outcomes(failed=2)
    result = start(pytester, "--regrow", "--ff", "-v")
    result.stdout.fnmatch_lines(["*::test_b FAILED*", "*::test_c FAILED*", "*::test_a PASSED*"])


def test_nothing_is_started_behind_the_failure_that_stops_the_session(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_stop.py",
        """
        from pathlib import Path

        def test_a(): Path("a").touch()
        def test_b(): assert 0
        def test_c(): Path("c").touch()
        """,
    )
    result = start(pytester, "--regrow", "-x")
    result.assert_outcomes(passed=1, failed=1)
    assert (pytester.path / "a").exists()
    assert not (pytester.path / "c").exists()


def test_hooks_of_conftest_choose_and_order(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "conftest.py",
        """
        def pytest_collection_modifyitems(config, items):
            gone = [item for item in items if item.name == "test_b"]
            config.hook.pytest_deselected(items=gone)
            items[:] = [item for item in reversed(items) if item not in gone]
        """,
    )
    make(pytester, "test_order.py", "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n")
    result = start(pytester, "--regrow", "-v")
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines(["*::test_c PASSED*", "*::test_a PASSED*"])


@pytest.mark.parametrize(
    "ending", ["raise KeyboardInterrupt", "import pytest; pytest.exit('enough', 7)", "request.session.shouldstop = 'enough'"]
)
def test_what_ends_a_session_ends_it(pytester: pytest.Pytester, ending: str) -> None:
    make(pytester, "test_end.py", f"def test_a(): pass\ndef test_b(request): {ending}\ndef test_c(): assert 0\n")
    plain = start(pytester)
    recycled = start(pytester, "--regrow")
    assert recycled.ret == plain.ret
    outcomes = plain.parseoutcomes()
    assert recycled.parseoutcomes() == outcomes
    assert "failed" not in outcomes


def test_as_many_at_a_time_as_asked_for(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_meet.py",
        """
        import time
        from pathlib import Path

        def meet(own, other):
            Path(own).touch()
            limit = time.monotonic() + 60
            while not Path(other).exists():
                assert time.monotonic() < limit
                time.sleep(0.01)

        def test_a(): meet("a", "b")
        def test_b(): meet("b", "a")
        """,
    )
    start(pytester, "--regrow", "-n", "2").assert_outcomes(passed=2)


@pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_xdist_gives_its_option_and_starts_nothing(pytester: pytest.Pytester) -> None:
    make(pytester, "test_id.py", "def test_id(worker_id): assert worker_id in ('gw0', 'gw1')\n")
    result = start(pytester, "--regrow", "-n", "2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["regrow: a fresh process for each test, 2 at a time"])
    result.stdout.no_fnmatch_line("*2 workers*")
    start(pytester, "-n", "1").stdout.fnmatch_lines(["*1 worker*"])


def test_tests_whose_names_change_are_started_by_exec_and_shown(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_names.py",
        """
        import os, pytest

        @pytest.mark.parametrize("value", [f"pid{os.getpid()}"])
        def test_changes(value): pass

        def test_stays(): pass
        """,
    )
    result = start(pytester, "--regrow")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*its name changes from one start to the next*", "regrow: * not recycled: *"])


def test_without_the_extension_tests_are_isolated_all_the_same(pytester: pytest.Pytester) -> None:
    make(pytester, "without_core.py", "import sys\nsys.modules['regrow._core'] = None\n")
    make(pytester, "test_global.py", GLOBAL)
    result = start(pytester, "-p", "without_core", "--regrow")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["regrow: 3 tests not recycled: the extension regrow._core cannot be loaded: *"])


def test_temporary_directories_are_the_sessions(pytester: pytest.Pytester) -> None:
    make(pytester, "test_tmp.py", "def test_a(tmp_path): (tmp_path / 'x').touch()\ndef test_b(tmp_path): pass\n")
    start(pytester, "--regrow", "--basetemp=base").assert_outcomes(passed=2)
    base = Path(pytester.path, "base")
    assert (base / "test_a0" / "x").exists()
    assert (base / "test_b0").is_dir()


def test_a_log_file_has_the_records_of_all_tests(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_log.py",
        """
        import logging
        def test_a(): logging.warning("from a")
        def test_b(): logging.warning("from b")
        """,
    )
    start(pytester, "--regrow", "--log-file=all.log").assert_outcomes(passed=2)
    text = (pytester.path / "all.log").read_text()
    assert "from a" in text
    assert "from b" in text


def test_a_report_that_cannot_be_sent_is_said(pytester: pytest.Pytester) -> None:
    make(pytester, "test_odd.py", "def test_odd(record_property): record_property('f', lambda: 0)\n")
    result = start(pytester, "--regrow")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the report of this test cannot be sent*"])


def test_a_large_report_arrives(pytester: pytest.Pytester) -> None:
    make(pytester, "test_large.py", "def test_large():\n    print('x' * 1_000_000)\n    assert 0\n")
    result = start(pytester, "--regrow")
    result.assert_outcomes(failed=1)
    assert "x" * 1_000_000 in result.stdout.str()


def test_usage_errors(pytester: pytest.Pytester) -> None:
    make(pytester, "test_any.py", "def test_any(): pass\n")
    for arguments in (
        ("--regrow", "--pdb"),
        ("--regrow=house",),
        ("--regrow-isolate=house",),
        ("--regrow", "--regrow-timeout=soon"),
    ):
        assert start(pytester, *arguments).ret == pytest.ExitCode.USAGE_ERROR
    if find_spec("xdist") is None:
        assert start(pytester, "-n", "2").ret == pytest.ExitCode.USAGE_ERROR


def test_a_path_behind_the_option_is_a_path(pytester: pytest.Pytester) -> None:
    make(pytester, "test_one.py", "def test_any(): pass\n")
    make(pytester, "test_two.py", "def test_any(): pass\n")
    start(pytester, "--regrow", "test_one.py").assert_outcomes(passed=1)


def test_sessions_without_tests(pytester: pytest.Pytester) -> None:
    make(pytester, "test_any.py", "def test_any(): pass\n")
    result = start(pytester, "--regrow", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["test_any.py::test_any"])
    assert start(pytester, "--regrow", "-k", "nothing").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    make(pytester, "test_broken.py", "import nothing_of_this_name\n")
    result = start(pytester, "--regrow")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)


@pytest.mark.parametrize("unit", ["test", "file"])
def test_an_interrupt_ends_session_and_tests(pytester: pytest.Pytester, unit: str) -> None:
    make(
        pytester,
        "test_long.py",
        """
        import os, time
        from pathlib import Path

        def test_short(): pass

        def test_long():
            Path("pid.part").write_text(str(os.getpid()))
            Path("pid.part").rename("pid")
            time.sleep(600)
        """,
    )
    command = [sys.executable, "-m", "pytest", "-v", *plugin_arguments(), f"--regrow={unit}"]
    session = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, start_new_session=True)
    assert session.stdout is not None
    said = b""
    # Both may run at once: the short one's result is there first.
    while b"PASSED" not in said:
        some = os.read(session.stdout.fileno(), 4096)
        assert some, said
        said += some
    while not (pytester.path / "pid").exists():
        assert session.poll() is None
        time.sleep(0.01)
    os.killpg(session.pid, signal.SIGINT)
    rest, _ = session.communicate(timeout=60)
    assert session.returncode == pytest.ExitCode.INTERRUPTED
    assert b"KeyboardInterrupt" in rest
    assert b"1 passed" in rest
    with pytest.raises(ProcessLookupError):
        os.kill(int((pytester.path / "pid").read_text()), 0)
