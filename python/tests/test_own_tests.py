"""What CPython's, numpy's and pandas' own tests find in recycled processes is what they find outside, with this interpreter.

The tests of the system's interpreter are run by `crates/regrow/tests/python.rs`; these are for any other that the package is
tried with. They are fewer: those of processes, signals, memory, randomness, and of what an interpreter sets up when it starts.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import regrow

#: Runs tests and writes their outcomes.
OUTCOMES = Path(__file__).resolve().parents[2] / "crates/regrow/tests/python/outcomes.py"
#: Modules of CPython's own tests, or classes of those that take long.
CPYTHON = (
    "test_argparse",
    "test_atexit",
    "test_builtin",
    "test_contextlib",
    "test_decimal.PyUsabilityTest test_decimal.CUsabilityTest",
    "test_fcntl",
    "test_fork1",
    "test_gc",
    "test_json",
    "test_mmap",
    "test_os",
    "test_random",
    "test_runpy",
    "test_select",
    "test_signal.PosixTests test_signal.WakeupFDTests test_signal.PendingSignalsTests test_signal.RaiseSignalTest",
    "test_struct",
    "test_sys",
    "test_tempfile",
    "test_thread",
    "test_uuid",
)
#: Files of numpy's and pandas' own tests.
OF_PACKAGES = (
    "numpy/random/tests/test_random.py",
    "numpy/random/tests/test_seed_sequence.py",
    "numpy/_core/tests/test_errstate.py",
    "pandas/tests/frame/test_query_eval.py",
)


def recycled(path: Path, args: list[str], cwd: Path, preload: list[str]) -> regrow.Completed:
    """A run of a program out of a warm image."""
    for _ in range(3):
        done = regrow.run(path, args, preload=preload, cwd=cwd, reuse="always", timeout=600)
        if done.creation.endswith(" at warm"):
            return done
        # A file of the image has changed since that was made: interpreters write compiled modules.
        regrow.run("pass", preload=preload, cwd=cwd, reuse="always", timeout=60)
    raise AssertionError(done.creation)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for outside, and one for recycled processes."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    return outside, inside


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tests", CPYTHON, ids=lambda tests: str(tests).split(".")[0].split(" ")[0])
def test_cpythons_own_tests_end_as_outside(tests: str, folders: tuple[Path, Path]) -> None:
    if importlib.util.find_spec("test.test_os") is None:
        pytest.skip("this interpreter has come without its tests")
    outside, inside = folders
    names = [f"test.{name}" for name in tests.split(" ")]

    def outcomes() -> tuple[list[str], list[str], str]:
        words = [sys.executable, str(OUTCOMES), str(outside / "outcomes"), *names]
        subprocess.run(words, cwd=outside, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        done = recycled(OUTCOMES, [str(inside / "outcomes"), *names], inside, ["unittest"])
        expected, found = ((folder / "outcomes").read_text().splitlines() for folder in (outside, inside))
        return expected, found, done.stderr.decode(errors="replace")

    expected, found, errors = outcomes()
    if expected != found:
        # Some of CPython's tests wait for fractions of a second, and fail on a busy machine, outside as well.
        expected, found, errors = outcomes()
    assert expected
    assert found == expected, errors


def summary(output: bytes) -> str:
    """The last line of what pytest prints, without its time."""
    lines = [line for line in output.decode(errors="replace").splitlines() if " passed" in line]
    assert lines, output.decode(errors="replace")
    return lines[-1].split(" in ")[0]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", OF_PACKAGES)
def test_tests_of_packages_end_as_outside(file: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    package = file.split("/")[0]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    packages = Path(spec.origin).parents[1]
    script = tmp_path / "tests.py"
    script.write_text("import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n")
    args = ["-q", "-p", "no:cacheprovider", "-p", "no:regrow", f"--confcutdir={packages}", str(packages / file)]
    outside, inside = folders
    words = [sys.executable, str(script), *args]
    expected = subprocess.run(words, cwd=outside, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    done = recycled(script, args, inside, ["numpy", package])
    assert (done.returncode, summary(done.stdout)) == (expected.returncode, summary(expected.stdout))
