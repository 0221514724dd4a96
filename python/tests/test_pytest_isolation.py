"""`pytest --regrow`: who shares a process, what it may take and leaves behind, and images that files change under."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest

from test_pytest_plugin import make, plugin_arguments, start

UNITS = """
    import os, pytest

    @pytest.fixture(autouse=True)
    def note(record_property): record_property("pid", os.getpid())

    class TestTogether:
        def test_a(self): pass
        def test_b(self): pass

    def test_alone(): pass

    def test_alone_too(): pass

    @pytest.mark.regrow_isolate("test")
    class TestApart:
        def test_a(self): pass
        def test_b(self): pass

    @pytest.mark.regrow_isolate("module")
    def test_with_others_a(): pass

    @pytest.mark.regrow_isolate("module")
    def test_with_others_b(): pass
"""


OF_A_MODULE = """
    import os, pytest

    pytestmark = pytest.mark.regrow_isolate("file")

    @pytest.fixture(autouse=True)
    def note(record_property): record_property("pid", os.getpid())

    def test_a(): pass

    @pytest.mark.regrow_isolate("class")
    class TestTogether:
        def test_a(self): pass
        def test_b(self): pass

    def test_b(): pass
"""

GROUPS = """
    import os, pytest

    @pytest.fixture(autouse=True)
    def note(record_property): record_property("pid", os.getpid())

    @pytest.mark.xdist_group("one")
    def test_a(): pass

    def test_alone(): pass

    @pytest.mark.xdist_group(name="one")
    @pytest.mark.regrow_isolate("test")
    def test_b(): pass

    @pytest.mark.xdist_group("two")
    class TestTwo:
        def test_a(self): pass
        @pytest.mark.xdist_group("one")
        def test_b(self): pass
        def test_c(self): pass
"""


def pids_of(pytester: pytest.Pytester) -> dict[str, str | None]:
    """The processes of the tests of a file, as a report has them."""
    return {
        f"{case.get('classname')}.{case.get('name')}".partition(".")[2]: next(case.iter("property")).get("value")
        for case in ElementTree.parse(pytester.path / "x.xml").iter("testcase")
    }


def test_units_of_an_option_and_of_markers(pytester: pytest.Pytester) -> None:
    make(pytester, "test_units.py", UNITS)
    start(pytester, "--regrow-isolate=class", "--strict-markers", "--junitxml=x.xml").assert_outcomes(passed=8)
    pids = pids_of(pytester)
    assert pids["TestTogether.test_a"] == pids["TestTogether.test_b"]
    assert pids["test_with_others_a"] == pids["test_with_others_b"]
    assert len(set(pids.values())) == 6


def test_a_marker_of_a_module_and_one_below_it(pytester: pytest.Pytester) -> None:
    make(pytester, "test_units.py", OF_A_MODULE)
    start(pytester, "--regrow", "--junitxml=x.xml").assert_outcomes(passed=4)
    pids = pids_of(pytester)
    assert pids["test_a"] == pids["test_b"]
    assert pids["TestTogether.test_a"] == pids["TestTogether.test_b"]
    assert len(set(pids.values())) == 2


@pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_groups_of_xdist_share_a_process_where_it_is_asked_for(pytester: pytest.Pytester) -> None:
    make(pytester, "test_groups.py", GROUPS)
    start(pytester, "--regrow", "-n", "2", "--dist=loadgroup", "--junitxml=x.xml").assert_outcomes(passed=6)
    pids = pids_of(pytester)
    assert pids["test_a"] == pids["test_b"]
    assert pids["TestTwo.test_a"] == pids["TestTwo.test_c"]
    assert len(set(pids.values())) == 4
    start(pytester, "--regrow", "-n", "2", "--junitxml=x.xml").assert_outcomes(passed=6)
    assert len(set(pids_of(pytester).values())) == 6


@pytest.mark.parametrize("arguments", ["'house'", "", "'test', 'class'"])
def test_a_marker_that_names_no_unit_is_refused(pytester: pytest.Pytester, arguments: str) -> None:
    make(pytester, "test_odd.py", f"import pytest\n@pytest.mark.regrow_isolate({arguments})\ndef test_odd(): pass\n")
    result = start(pytester, "--regrow")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_odd.py::test_odd: the marker regrow_isolate has one argument*"])


LEAVES = """
    import _thread, pytest, socket, threading, time
    kept = []

    def test_thread(): threading.Thread(target=time.sleep, args=(600,), name="sleeper", daemon=True).start()
    def test_socket(): kept.append(socket.socket())
    def test_file(tmp_path): kept.append(open(tmp_path / "left", "w"))
    def test_thread_of_nobody():
        seen = []
        _thread.start_new_thread(lambda: seen.append(threading.current_thread()), ())
        while not seen:
            time.sleep(0.001)
    def test_that_fails():
        kept.append(socket.socket())
        assert 0

    @pytest.fixture(scope="session")
    def connection():
        with socket.socket() as open_while_used:
            yield open_while_used

    def test_tidy(connection):
        thread = threading.Thread(target=time.sleep, args=(0.001,))
        thread.start()
"""


def test_what_a_test_leaves_behind_is_told(pytester: pytest.Pytester) -> None:
    make(pytester, "test_leaves.py", LEAVES)
    result = start(pytester, "--regrow", "--log-file=all.log", "--log-level=DEBUG")
    result.assert_outcomes(passed=5, failed=1)
    told = [line for line in result.outlines if line.startswith("regrow: ") and "leaves behind" in line]
    assert len(told) == 3
    pytest.LineMatcher(told).fnmatch_lines(
        [
            "regrow: test_leaves.py::test_thread leaves behind thread 'sleeper'",
            "regrow: test_leaves.py::test_socket leaves behind descriptor * (socket)",
            "regrow: test_leaves.py::test_file leaves behind descriptor * (/*/left)",
        ]
    )


def test_of_many_that_leave_something_behind_the_first_are_told(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_many.py",
        "import pytest, socket\n@pytest.mark.parametrize('n', range(12))\ndef test_n(n): test_n.kept = socket.socket()\n",
    )
    result = start(pytester, "--regrow")
    result.assert_outcomes(passed=12)
    assert sum("leaves behind descriptor" in line for line in result.outlines) == 10
    result.stdout.fnmatch_lines(["regrow: 2 more tests leave something behind"])


def test_what_tests_of_one_process_leave_behind_is_told_once(pytester: pytest.Pytester) -> None:
    make(pytester, "test_two.py", "import socket\nkept = []\ndef test_a(): kept.append(socket.socket())\ndef test_b(): pass\n")
    result = start(pytester, "--regrow=module")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["regrow: test_two.py::test_b, or another test of its process, leaves behind descriptor * (socket)"]
    )


@pytest.mark.parametrize("without_extension", [False, True])
def test_memory_has_a_limit(pytester: pytest.Pytester, without_extension: bool) -> None:
    make(pytester, "without_core.py", "import sys\nsys.modules['regrow._core'] = None\n")
    make(pytester, "test_large.py", "def test_large(): bytearray(1 << 30)\ndef test_small(): bytearray(1 << 20)\n")
    arguments = ["-p", "without_core"] if without_extension else []
    result = start(pytester, *arguments, "--regrow", "--regrow-memory-limit=512M")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED test_large.py::test_large - MemoryError"])
    assert ("not recycled" in result.stdout.str()) == without_extension


def test_a_memory_limit_that_is_none_is_refused(pytester: pytest.Pytester) -> None:
    make(pytester, "test_any.py", "def test_any(): pass\n")
    for limit in ("much", "0", "-1", "G"):
        assert start(pytester, "--regrow", f"--regrow-memory-limit={limit}").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.skipif(find_spec("pytest_timeout") is None, reason="pytest-timeout is not installed")
def test_the_limits_of_pytest_timeout_hold(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_slow.py",
        """
        import pytest, signal, time

        def test_fast(): pass

        @pytest.mark.timeout(1)
        def test_ends_itself(): time.sleep(600)

        @pytest.mark.timeout(1)
        def test_cannot():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(600)
        """,
    )
    result = start(pytester, "--regrow", "--timeout=60")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "FAILED test_slow.py::test_ends_itself - Failed: Timeout*",
            "FAILED test_slow.py::test_cannot - took longer than 4 s and was killed",
        ]
    )


@pytest.mark.parametrize("without_extension", [False, True])
def test_standard_input_is_the_sessions_where_nothing_is_captured(pytester: pytest.Pytester, without_extension: bool) -> None:
    make(pytester, "without_core.py", "import sys\nsys.modules['regrow._core'] = None\n")
    make(pytester, "test_input.py", "def test_a(): assert input() == 'one'\ndef test_b(): assert input() == 'two'\n")
    arguments = ["-p", "without_core"] if without_extension else []
    command = [sys.executable, "-m", "pytest", *plugin_arguments(), *arguments, "--regrow"]
    done = subprocess.run(
        [*command, "-s"], cwd=pytester.path, input=b"one\ntwo\n", capture_output=True, timeout=120, check=False
    )
    assert b"2 passed" in done.stdout, done.stdout
    done = subprocess.run(command, cwd=pytester.path, input=b"one\ntwo\n", capture_output=True, timeout=120, check=False)
    assert b"2 failed" in done.stdout, done.stdout


def not_recycled(result: pytest.RunResult) -> int:
    """How many tests were started by exec."""
    return sum(int(line.split()[1]) for line in result.outlines if line.startswith("regrow: ") and "not recycled" in line)


def test_the_first_session_in_a_folder_recycles(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    names = [f"module_{number}" for number in range(20)]
    for name in names:
        make(pytester, f"{name}.py", "value = 1\n")
    make(pytester, "conftest.py", "import module_0\n")
    make(pytester, "test_first.py", f"import {', '.join(names)}\ndef test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n")
    result = start(pytester, "--regrow")
    result.assert_outcomes(passed=3)
    assert not_recycled(result) == 0
    assert len(os.listdir(pytester.path / "__pycache__")) == len(names) + 2


def test_a_session_does_not_see_files_that_change_behind_its_collection(pytester: pytest.Pytester) -> None:
    """As without processes."""
    make(pytester, "helper.py", "VALUE = 1\n")
    tests = "".join(f"def test_{number}(): assert helper.VALUE == 1\n" for number in range(12))
    change = "def test_change():\n    with open(helper.__file__, 'w') as file: file.write('VALUE = 2')\n"
    make(pytester, "test_change.py", f"import helper\n{change}{tests}")
    result = start(pytester, "--regrow")
    result.assert_outcomes(passed=13)
    assert not_recycled(result) == 0


def test_files_that_a_collection_passes_by_may_change(pytester: pytest.Pytester) -> None:
    """The output of the session is one: it goes to a file in this folder."""
    make(
        pytester,
        "test_writes.py",
        """
        import logging, pytest

        @pytest.mark.parametrize("number", range(6))
        def test_writes(number):
            logging.warning("record %d", number)
            with open("results.txt", "a") as file:
                file.write(str(number))
        """,
    )
    make(pytester, "results.txt", "")
    result = start(pytester, "--regrow", "-v", "--log-file=all.log")
    result.assert_outcomes(passed=6)
    assert not_recycled(result) == 0
    assert (pytester.path / "results.txt").read_text() == "012345"
    assert (pytester.path / "all.log").read_text().count("record") == 6


def test_patterns_are_compiled_in_the_next_image(pytester: pytest.Pytester) -> None:
    make(
        pytester,
        "test_patterns.py",
        """
        import pytest, re, warnings

        def note(text):
            with open("notes", "a") as file:
                file.write(text)

        @pytest.mark.parametrize("number", range(3))
        def test_compiles(number):
            note(str(int(any("learned+by" in key for key in re._cache))))
            assert re.match("learned+by", "learnedddby")

        @pytest.mark.parametrize("number", range(2))
        def test_warns(number):
            with pytest.warns(FutureWarning):
                re.compile("[[a]b]")
        """,
    )
    notes = pytester.path / "notes"
    start(pytester, "--regrow").assert_outcomes(passed=5)
    assert notes.read_text() == "000"
    start(pytester, "--regrow").assert_outcomes(passed=5)
    assert notes.read_text() == "000111"
    start(pytester, "--regrow", "-p", "no:cacheprovider").assert_outcomes(passed=5)
    assert notes.read_text() == "000111000"
    for broken in ("{}", "[1, [2], [[], 3, 4], ['(', false, 0], ['x', false, 1e9]]"):
        (pytester.path / ".pytest_cache" / "v" / "regrow" / "patterns").write_text(broken)
        start(pytester, "--regrow").assert_outcomes(passed=5)
