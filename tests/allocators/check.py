#!/usr/bin/python3
"""The test suites of jemalloc and mimalloc over the memory service: the same results as without it, and the service has served.

    check.py TARGET [--short]       TARGET is cargo's folder, in which `make memory` has built the library;
                                    --short: jemalloc's integration tests, and one of mimalloc's, over
                                    the libraries that the tests of the workspace are built with

jemalloc's sources are those that cargo has fetched for `tikv-jemalloc-sys`, mimalloc's are those of the distribution's source package. They
are built in TARGET/allocators. Each test runs as it is, with `libregrow_memory.so` preloaded, and so once more with memory that goes back to
the kernel all the time; mimalloc's run also with all of their memory in a block of the service (`arena.c`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# A test that takes longer hangs.
LIMIT_S = 300
PRELOADED = {"REGROW_MEMORY_MMAP_KIB": "64"}
GIVING_BACK = {**PRELOADED, "REGROW_MEMORY_T1_MS": "5", "REGROW_MEMORY_T2_MS": "10"}
# What each of jemalloc's programs says at its end.
SUMMARY = re.compile(
    r"^--- pass: (\d+)/\d+, skip: (\d+)/\d+, fail: (\d+)/\d+ ---", re.MULTILINE
)
# The tests of mimalloc that fit: the others take the place of malloc themselves, or are wrong on purpose.
MIMALLOC = {"test-api": [], "test-api-fill": [], "test-stress": ["4", "20", "5"]}
# What each asks of the service. Mappings at an address that the program chooses do not come from it, and test-api-fill has no others. test-api
# asks for blocks at multiples of more than a segment, which mimalloc cannot have of an arena.
PRELOADED_MIMALLOC = {"test-api", "test-stress"}
IN_ARENA = {"test-api-fill", "test-stress"}
SHORT_MIMALLOC = "test-stress"
# Fewer would say that the suites are not what they were.
LEAST_JEMALLOC = 100
LEAST_SHORT = 12


@dataclass(frozen=True)
class Result:
    """What a test has come to: its exit status, and what it has counted."""

    status: int
    passed: int
    skipped: int
    failed: int


def run(words: list[str], folder: Path, **variables: str) -> str:
    """Runs a command that must succeed; its output."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(words)}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def built_once(folder: Path, stamp: str, build: Callable[[], None]) -> None:
    """Builds in a folder, unless that was done for the same stamp."""
    done = folder / "built"
    if not done.exists() or done.read_text() != stamp:
        fresh(folder)
        build()
        done.write_text(stamp)


def jemalloc(folder: Path, kinds: list[str]) -> list[Path]:
    """The programs of jemalloc's tests of some kinds. Their functions have a prefix: mappings alone go through the library."""
    metadata = json.loads(
        run(["cargo", "metadata", "--format-version=1", "--locked"], ROOT)
    )
    package = next(
        package
        for package in metadata["packages"]
        if package["name"] == "tikv-jemalloc-sys"
    )
    source = Path(package["manifest_path"]).parent
    # The part behind `+` names jemalloc's version.
    version = package["version"].partition("+")[2]

    def build() -> None:
        shutil.copytree(source / "jemalloc", folder, dirs_exist_ok=True)
        shutil.copy(source / "configure/configure", folder)
        words = [
            "--disable-cxx",
            "--disable-doc",
            "--with-jemalloc-prefix=je_",
            f"--with-version={version}",
        ]
        run(["sh", "./configure", *words, "EXTRA_CFLAGS=-w"], folder)
        run(
            ["make", f"-j{os.cpu_count()}", *(f"tests_{kind}" for kind in kinds)],
            folder,
        )

    built_once(folder, f"{source} {kinds}", build)
    found = [
        path
        for kind in kinds
        for path in sorted((folder / "test" / kind).iterdir())
        if not path.suffix and os.access(path, os.X_OK)
    ]
    return [path for path in found if path.is_file()]


def settings_of(test: Path) -> str:
    """The settings that a test of jemalloc runs with: its script sets them."""
    script = test.with_suffix(".sh")
    if not script.exists():
        return ""
    words = f'enable_fill=1 enable_prof=0 enable_xmalloc=0; . "{script}"; printf %s "$MALLOC_CONF"'
    return run(["sh", "-c", words], test.parent)


def mimalloc(folder: Path, memory: Path, tests: list[str]) -> None:
    """Builds mimalloc's tests: as they are, and with their memory in a block of the service."""

    def build() -> None:
        run(
            [str(ROOT / "scripts/install-deps"), "source", "mimalloc", str(folder)],
            ROOT,
        )
        (source,) = (
            path
            for path in folder.iterdir()
            if path.is_dir() and (path / "src/static.c").exists()
        )
        for test in tests:
            inputs = [str(source / "src/static.c"), str(source / f"test/{test}.c")]
            words = [
                "cc",
                "-O1",
                "-w",
                "-DMI_DEBUG=2",
                f"-I{source}/include",
                f"-I{memory}",
                *inputs,
            ]
            run([*words, "-o", str(folder / test), "-lpthread"], folder)
            arena = [
                str(ROOT / "tests/allocators/arena.c"),
                str(memory / "libregrow_memory.a"),
            ]
            libraries = ["-lpthread", "-ldl", "-lm", "-lgcc_s"]
            run(
                [*words, *arena, "-o", str(folder / f"{test}-arena"), *libraries],
                folder,
            )

    inputs = (memory / "libregrow_memory.a", ROOT / "tests/allocators/arena.c")
    stamp = f"{[path.stat().st_mtime_ns for path in inputs]} {tests}"
    built_once(folder, stamp, build)


def result_of(words: list[str], folder: Path, **variables: str) -> Result:
    """Runs a test."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = SUMMARY.search(done.stdout + done.stderr)
    passed, skipped, failed = map(int, said.groups()) if said else (0, 0, 0)
    return Result(done.returncode, passed, skipped, failed)


class Suite:
    """Runs tests in each way, compares, and counts."""

    def __init__(self, folder: Path, library: Path) -> None:
        """Counts of the processes go to a file in the folder."""
        self.counts = folder / "counts"
        self.library = library
        self.passed = 0
        self.failed: list[str] = []

    def served(self) -> int:
        """How many blocks and mappings the library has given since this was asked last."""
        text = self.counts.read_text() if self.counts.exists() else ""
        self.counts.unlink(missing_ok=True)
        return sum(
            map(
                int, re.findall(r"\b(?:malloc|calloc|realloc|aligned|mmap)=(\d+)", text)
            )
        )

    def judge(self, name: str, plain: Result, other: Result, served: int) -> None:
        """The results are the same, and the service has served."""
        if plain == other and served > 0:
            self.passed += 1
        else:
            self.failed.append(
                f"{name}: {plain} without, {other} with the service, which served {served}"
            )

    def compare(
        self, name: str, words: list[str], folder: Path, **variables: str
    ) -> Result:
        """A test without the library and with it."""
        plain = result_of(words, folder, **variables)
        own = {
            "LD_PRELOAD": str(self.library),
            "REGROW_MEMORY_STATISTICS": str(self.counts),
        }
        for settings in (PRELOADED, GIVING_BACK):
            self.served()
            other = result_of(words, folder, **variables, **own, **settings)
            self.judge(name, plain, other, self.served())
        return plain


def check_jemalloc(suite: Suite, folder: Path, kinds: list[str], least: int) -> None:
    """Runs jemalloc's tests of some kinds, of which there are so many at least."""
    tests = jemalloc(folder, kinds)
    plain = []
    for test in tests:
        settings = settings_of(test)
        variables = {
            "MALLOC_CONF": settings,
            "JE_MALLOC_CONF": settings,
            "LD_LIBRARY_PATH": str(folder / "lib"),
        }
        plain.append(suite.compare(test.name, [str(test)], test.parent, **variables))
    cases = [
        sum(getattr(result, kind) for result in plain)
        for kind in ("passed", "skipped", "failed")
    ]
    print(
        "jemalloc: {} programs; {} cases pass, {} are skipped, {} fail, with and without".format(
            len(tests), *cases
        )
    )
    if len(tests) < least or cases[0] == 0:
        suite.failed.append(f"jemalloc has {len(tests)} tests")


def check_mimalloc(suite: Suite, folder: Path, memory: Path, tests: list[str]) -> None:
    """Runs mimalloc's tests, also with all of their memory in a block of the service."""
    mimalloc(folder, memory, tests)
    for test in tests:
        words = MIMALLOC[test]
        plain = [str(folder / test), *words]
        if test in PRELOADED_MIMALLOC:
            result = suite.compare(test, plain, folder)
        else:
            result = result_of(plain, folder)
        if test in IN_ARENA:
            count = folder / "arena-count"
            count.unlink(missing_ok=True)
            own = result_of(
                [str(folder / f"{test}-arena"), *words], folder, ARENA_COUNT=str(count)
            )
            served = int(count.read_text()) if count.exists() else 0
            suite.judge(f"{test}, arena", result, own, served)
        print(f"mimalloc: {test}: status {result.status}, with and without")
        if result.status != 0:
            suite.failed.append(f"{test} fails by itself")


def libraries(target: Path, folder: Path, is_short: bool) -> Path:
    """The folder with the library to preload, the one to link, and the header."""
    if not is_short:
        return target / "release/memory"
    memory = fresh(folder / "memory")
    built = target / "checked/deps"
    # Cargo puts a hash into its name, so that earlier ones may be there, too.
    static = sorted(
        built.glob("libregrow_memory_c*.a"), key=lambda path: path.stat().st_mtime
    )
    if not static:
        sys.exit(f"the tests of the workspace are not built in {built}")
    links = {
        "libregrow_memory.so": built / "libregrow_memory_preload.so",
        "libregrow_memory.a": static[-1],
        "regrow_memory.h": ROOT / "crates/regrow-memory-c/include/regrow_memory.h",
    }
    for name, path in links.items():
        (memory / name).symlink_to(path)
    return memory


def main() -> None:
    """Builds, runs, and says what has come of it."""
    is_short = "--short" in sys.argv[2:]
    target = Path(sys.argv[1]).resolve()
    folder = target / "allocators" / ("short" if is_short else "whole")
    folder.mkdir(parents=True, exist_ok=True)
    memory = libraries(target, folder, is_short)
    suite = Suite(folder, memory / "libregrow_memory.so")
    kinds = ["integration"] if is_short else ["unit", "integration"]
    check_jemalloc(
        suite, folder / "jemalloc", kinds, LEAST_SHORT if is_short else LEAST_JEMALLOC
    )
    tests = [SHORT_MIMALLOC] if is_short else list(MIMALLOC)
    check_mimalloc(suite, folder / "mimalloc", memory, tests)
    for failure in suite.failed:
        print(failure)
    print(f"{suite.passed} passed, {len(suite.failed)} failed")
    sys.exit(bool(suite.failed))


if __name__ == "__main__":
    main()
