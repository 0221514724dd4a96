#!/usr/bin/python3
"""Checks a wheel of the package: `check_wheel.py WHEEL TARGET`. It is what its name says, and has all that it needs.

    tag        one wheel for CPython 3.9 and later (abi3), and for each Linux with the GNU C library 2.17
    library    needs no library beside that one and the compiler's, which unwinds frames, and nothing of it that is newer
    agent      what runs inside processes is in the library, byte for byte as it was built
    files      each file of the package is in the wheel

TARGET is the folder that cargo has built to. `readelf` tells what the library needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON_TAG = "cp39-abi3"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64")
NEWEST_GLIBC = (2, 17)
LIBRARY = "regrow/_core.abi3.so"
#: What it must need. With an unwinder of its own the library would crash where the interpreter ends threads at its exit.
LEAST_NEEDED = {"libc.so.6", "libgcc_s.so.1"}
#: What each system with the GNU C library has: `libgcc_s` comes with it, the others are parts of it.
NEEDED = {*LEAST_NEEDED, "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}


class WrongWheelError(Exception):
    """What is wrong with a wheel."""


def check_tag(wheel: zipfile.ZipFile, name: str) -> None:
    """Whether the wheel says of itself for which systems it is."""
    if not name.endswith(f"-{PYTHON_TAG}-{'.'.join(PLATFORMS)}.whl"):
        raise WrongWheelError(f"its name has other tags: {name}")
    (path,) = (path for path in wheel.namelist() if path.endswith(".dist-info/WHEEL"))
    tags = re.findall(r"^Tag: (.*?)\r?$", wheel.read(path).decode(), re.MULTILINE)
    if sorted(tags) != [f"{PYTHON_TAG}-{platform}" for platform in sorted(PLATFORMS)]:
        raise WrongWheelError(f"{path} has other tags than its name: {tags}")


def readelf(option: str, library: Path) -> str:
    """What is in a library."""
    words = ["env", "LC_ALL=C", "readelf", "--wide", option, str(library)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def check_library(library: Path) -> str:
    """Whether a system with the C library of the tag can load it. Gives the newest version that it needs of that."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", library)))
    if not LEAST_NEEDED <= needed <= NEEDED:
        raise WrongWheelError(f"{LIBRARY} needs {', '.join(sorted(needed))}")
    versions = re.findall(r"Name: GLIBC_([0-9.]+)", readelf("--version-info", library))
    newest = max((tuple(map(int, version.split("."))) for version in versions), default=(0, 0))
    if not (2, 0) < newest[:2] <= NEWEST_GLIBC:
        raise WrongWheelError(f"{LIBRARY} needs version {newest} of the C library")
    return ".".join(map(str, newest))


def newest_agent(folder: Path) -> bytes | None:
    """The agent that was built last below a folder."""
    built = sorted(folder.glob("*/build/regrow-image-*/out/agent.bin"), key=lambda path: path.stat().st_mtime)
    return built[-1].read_bytes() if built else None


def check_agent(content: bytes, target: Path) -> int:
    """Whether the agent is in the library as it was built. Gives its length."""
    agent = newest_agent(target / "x86_64-unknown-linux-gnu")
    if not agent:
        raise WrongWheelError(f"no agent was built below {target}")
    if content.count(agent) != 1:
        raise WrongWheelError(f"the agent is not in {LIBRARY}")
    return len(agent)


def check_files(wheel: zipfile.ZipFile) -> None:
    """Whether each file of the package is there, and nothing that no package has."""
    ours = {str(path.relative_to(HERE)) for path in (HERE / "regrow").rglob("*") if path.suffix in (".py", ".pyi", ".typed")}
    ours |= {"regrow/py.typed", LIBRARY}
    theirs = {path for path in wheel.namelist() if ".dist-info/" not in path}
    if ours != theirs:
        raise WrongWheelError(f"missing: {sorted(ours - theirs)}, not the package's: {sorted(theirs - ours)}")


def check(path: Path, target: Path) -> str:
    """Checks a wheel, and says what it is."""
    with zipfile.ZipFile(path) as wheel, tempfile.TemporaryDirectory() as folder:
        check_tag(wheel, path.name)
        check_files(wheel)
        content = wheel.read(LIBRARY)
        version = check_library(Path(wheel.extract(LIBRARY, folder)))
        length = check_agent(content, target)
    return f"{path.name}: needs the C library {version}, has the agent of {length:,} bytes, {path.stat().st_size:,} bytes"


def main() -> int:
    """Checks the wheel that the arguments name."""
    try:
        wheel, target = map(Path, sys.argv[1:])
        print(check(wheel, target))
    except WrongWheelError as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
