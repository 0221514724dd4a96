"""The wheel is what `check_wheel.py` says, which finds what is wrong with one; the package that is tested is of the wheel."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import regrow
from regrow import _core

CHECK = Path(__file__).resolve().parents[1] / "check_wheel.py"
LIBRARY = "regrow/_core.abi3.so"


@pytest.fixture
def wheel() -> Path:
    """The wheel that check.sh has built."""
    folder = os.environ.get("REGROW_WHEELS")
    if folder is None:
        pytest.skip("REGROW_WHEELS names no folder with a wheel: check.sh does that")
    (found,) = Path(folder).glob("*.whl")
    return found


def check(wheel: Path, target: Path) -> tuple[int, str]:
    """What is said of a wheel."""
    words = ["/usr/bin/python3", str(CHECK), str(wheel), str(target)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def changed(wheel: Path, copy: Path, path: str, content: bytes | None) -> Path:
    """A copy of a wheel in which a file is another one, or missing."""
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(copy, "w") as after:
        for name in before.namelist():
            if name != path:
                after.writestr(name, before.read(name))
            elif content is not None:
                after.writestr(name, content)
    return copy


def test_the_package_is_of_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        expected = hashlib.sha256(archive.read(LIBRARY)).digest()
    assert _core.__file__ is not None
    assert hashlib.sha256(Path(_core.__file__).read_bytes()).digest() == expected
    assert Path(regrow.__file__).is_relative_to(sys.prefix)


def test_the_wheel_is_for_each_linux_and_each_cpython(wheel: Path, tmp_path: Path) -> None:
    target = wheel.parents[2]
    status, said = check(wheel, target)
    assert (status, "needs the C library 2." in said) == (0, True), said
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read(LIBRARY)
    agents = target.glob("x86_64-unknown-linux-gnu/*/build/regrow-image-*/out/agent.bin")
    agent = max(agents, key=lambda path: path.stat().st_mtime)
    at = library.index(agent.read_bytes()) + 1000
    other = library[:at] + bytes([library[at] ^ 1]) + library[at + 1 :]
    copy = tmp_path / wheel.name
    for path, content, fault in (
        (LIBRARY, other, "the agent is not in"),
        (LIBRARY, Path(sys.executable).resolve().read_bytes(), "regrow/_core.abi3.so needs"),
        ("regrow/py.typed", None, "missing: ['regrow/py.typed']"),
    ):
        status, said = check(changed(wheel, copy, path, content), target)
        assert status == 1
        assert fault in said
    status, said = check(copy.rename(tmp_path / wheel.name.replace("2_17", "2_12")), target)
    assert (status, "other tags" in said) == (1, True), said


def test_a_free_threaded_build_is_told_that_the_package_is_not_for_it() -> None:
    source = "import sys; sys.abiflags = 't'; import regrow"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert done.returncode == 1
    assert "ImportError: regrow is not for free-threaded builds of CPython" in done.stderr
    assert f"Use the build of CPython {version} that has the global interpreter lock" in done.stderr
