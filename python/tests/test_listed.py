"""The list of pools: `regrow status` and `regrow top` show a program's executors with true counts, until it ends in any way.

The command is the one that `REGROW` names; `check.sh` names the one that the tests of the workspace are built with.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest

#: How long what is to come about may take, in seconds. Nothing is measured by it.
LIMIT = 60

#: A program that carries out what it reads: a line of Python, after each of which it says so.
PROGRAM = """
import sys, time
import regrow

def wait_for(path):
    import os
    while not os.path.exists(path):
        time.sleep(0.01)

if __name__ == "__main__":
    names = {"regrow": regrow, "wait_for": wait_for}
    for line in sys.stdin:
        exec(line, names)
        print("done", flush=True)
"""


class Place:
    """A runtime folder of its own, programs in it, and what the command shows there."""

    def __init__(self, folder: Path, command: str) -> None:
        self.folder = folder
        self.runtime = folder / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.runtime),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TERM": "xterm",
        }
        self.command = command
        self.programs: list[subprocess.Popen[str]] = []
        (folder / "work.py").write_text(PROGRAM)

    def program(self) -> subprocess.Popen[str]:
        """Starts a program."""
        words = [sys.executable, str(self.folder / "work.py")]
        program = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment, start_new_session=True
        )
        self.programs.append(program)
        return program

    def status(self) -> list[dict[str, Any]]:
        """The pools that the status lists."""
        words = [self.command, "status", "--json"]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode == 2 and "there is no daemon" in done.stderr:
            return []
        assert (done.returncode, done.stderr) == (0, "")
        pools = json.loads(done.stdout)["pools"]
        assert isinstance(pools, list)
        return pools

    def files(self) -> list[str]:
        """What is in the folder of the list."""
        folder = self.runtime / "regrow-pools"
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def until(self, what: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """What is listed as soon as that is as it should be."""
        deadline = time.monotonic() + LIMIT
        while not what(pools := self.status()):
            assert time.monotonic() < deadline, json.dumps(pools)
            time.sleep(0.05)
        return pools


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place, whose programs end with it."""
    command = os.environ.get("REGROW", "")
    if not os.access(command, os.X_OK):
        pytest.skip("REGROW names no command")
    place = Place(tmp_path, command)
    yield place
    for program in place.programs:
        program.kill()
        program.wait()
        for stream in (program.stdin, program.stdout):
            if stream is not None:
                stream.close()


def tell(program: subprocess.Popen[str], line: str) -> None:
    """Has a program carry out a line."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(line + "\n")
    program.stdin.flush()
    assert program.stdout.readline() == "done\n"


def counts(pool: dict[str, Any]) -> tuple[int, int, int]:
    """How many processes were recycled, had a forked body, and were executed."""
    creations = pool["creations"]
    return sum(creations["recycled"].values()), sum(creations["forked_body"].values()), creations["exec"]


def user(pools: list[dict[str, Any]], at: int = 0) -> Optional[dict[str, Any]]:
    """The only user of a pool, without what he is known by."""
    if at >= len(pools) or len(pools[at]["users"]) != 1:
        return None
    return {name: value for name, value in pools[at]["users"][0].items() if name != "number"}


def test_the_status_has_the_true_counts_of_an_executor(place: Place) -> None:
    program, stop = place.program(), place.folder / "stop"
    tell(program, "executor = regrow.Executor(2, preload=['json', 're'])")
    tell(program, "done = [executor.submit(int, word) for word in ['1', '2', 'x', '4', 'y']]")
    tell(program, "print(*(one.exception() for one in done), file=__import__('sys').stderr)")
    tell(program, f"waiting = [executor.submit(wait_for, {str(stop)!r}) for _ in range(6)]")
    expected = {"name": "Executor", "loaded": "json,re", "workers": 2, "waiting": 4, "failed": 2}
    # Of the four that wait two have their processes already, or fewer: none is started ahead that finds no body ready.
    (pool,) = place.until(lambda pools: user(pools) == expected and 2 <= sum(counts(pools[0])) - 5 <= 4)
    # A process that is ahead may sleep until its turn: its body is armed as long.
    (pool,) = place.until(lambda pools: 2 <= pools[0]["bodies"].get("running", 0) <= sum(counts(pools[0])) - 5)
    assert pool["pid"] == program.pid
    assert pool["command"].endswith("work.py")
    stop.touch()
    tell(program, "[one.result() for one in waiting]")
    tell(program, "ways = [one.creation.split()[0] for one in done + waiting]")
    tell(program, f"open({str(place.folder / 'ways')!r}, 'w').write(repr(ways))")
    expected = {**expected, "waiting": 0}
    (pool,) = place.until(lambda pools: user(pools) == expected and "running" not in pools[0]["bodies"])
    ways = (place.folder / "ways").read_text()
    assert counts(pool) == (ways.count("recycled"), ways.count("forked"), ways.count("exec"))
    assert pool["kept_bytes"] > 1 << 20
    # In words.
    done = subprocess.run([place.command, "status"], env=place.environment, capture_output=True, text=True, check=True)
    row = rf"^\s*{program.pid}  python\S* work\.py  Executor with json,re\s+2\s+0\s+0\s+{counts(pool)[0]}\s"
    assert re.search(row, done.stdout, re.MULTILINE), done.stdout
    tell(program, "executor.shutdown()")
    place.until(lambda pools: pools[0]["users"] == [])


def test_a_program_that_ends_or_is_killed_is_not_listed(place: Place) -> None:
    ends, killed = place.program(), place.program()
    for program in (ends, killed):
        tell(program, "executor = regrow.Executor(1)")
        tell(program, "executor.submit(int, 1).result()")
    assert {pool["pid"] for pool in place.until(lambda pools: len(pools) == 2)} == {ends.pid, killed.pid}
    assert ends.stdin is not None
    ends.stdin.close()
    assert ends.wait() == 0
    assert [name.split("-")[0] for name in place.files()] == [str(killed.pid)], "it has tidied up by itself"
    killed.kill()
    killed.wait()
    assert place.files() != []
    assert place.status() == []
    assert place.files() == [], "whoever looks has tidied up"


def test_the_files_are_their_owners_alone(place: Place) -> None:
    program = place.program()
    tell(program, "executor = regrow.Executor(1)")
    tell(program, "executor.submit(int, 1).result()")
    place.until(lambda pools: len(pools) == 1)
    folder = place.runtime / "regrow-pools"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [(folder / name).stat().st_mode & 0o777 for name in place.files()] == [0o600]


def test_pools_have_names_by_what_they_are_for(place: Place) -> None:
    program = place.program()
    tell(program, "one = regrow.Executor(1, preload=['json']); two = regrow.ProcessPoolExecutor(3, preload=['json'])")
    tell(program, "[executor.submit(int, 1).result() for executor in (one, two)]")
    tell(program, "regrow.run('import json', preload=['json']); regrow.run('1')")
    tell(program, "process = regrow.get_context(['re']).Process(target=int); process.start(); process.join()")

    def names(pools: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
        return sorted((one["name"], one["loaded"], one["workers"]) for pool in pools for one in pool["users"])

    wanted = [("Executor", "json", 1), ("ProcessPoolExecutor", "json", 3), ("multiprocessing", "re", 0)]
    pools = place.until(lambda pools: set(names(pools)) >= set(wanted))
    assert len([pool for pool in pools if len(pool["users"]) == 2]) == 1, "two executors with the same modules share a pool"


@pytest.mark.parametrize("runtime", ["none", "a file", "unwritable"])
def test_a_pool_that_cannot_be_listed_works(place: Place, runtime: str) -> None:
    folder = place.folder / "other"
    if runtime == "a file":
        folder.touch()
    elif runtime == "unwritable":
        folder.mkdir(mode=0o700)
        # Root may write everywhere: what is to be the list's folder is none.
        (folder / "regrow-pools").touch()
    place.environment["XDG_RUNTIME_DIR"] = str(folder)
    program = place.program()
    tell(program, "executor = regrow.Executor(1)")
    tell(program, "import time; end = time.monotonic() + 2.5")
    tell(program, "while time.monotonic() < end: assert executor.submit(int, 7).result() == 7")
    tell(program, "assert executor.submit(int, 7).creation.startswith('recycled')")
    assert program.stdin is not None
    program.stdin.close()
    assert program.wait() == 0


def test_top_shows_an_executor_until_it_is_killed(place: Place) -> None:
    program = place.program()
    tell(program, "executor = regrow.Executor(3, preload=['colorsys'])")
    tell(program, "[executor.submit(int, 1).result() for _ in range(7)]")
    controller, terminal = pty.openpty()
    words = ["sh", "-c", f"stty rows 30 cols 120; exec {place.command} top --interval-ms 50"]
    top = subprocess.Popen(words, stdin=terminal, stdout=terminal, env=place.environment, start_new_session=True)
    os.close(terminal)
    text = ""

    def until(comes_about: Callable[[], object]) -> None:
        nonlocal text
        deadline = time.monotonic() + LIMIT
        while not comes_about():
            assert time.monotonic() < deadline, text
            if select.select([controller], [], [], 0.1)[0]:
                text += os.read(controller, 65536).decode(errors="replace")

    try:
        # Blanks are not drawn, so that words come one by one.
        until(lambda: re.search(f"{program.pid}.*Executor.*colorsys", text, re.DOTALL))
        program.kill()
        program.wait()
        # Nobody but the command looks at the list here.
        until(lambda: place.files() == [])
        os.write(controller, b"q")
        assert top.wait(LIMIT) == 0
    finally:
        top.kill()
        top.wait()
        os.close(controller)
    assert place.files() == []
