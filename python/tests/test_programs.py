"""Whole programs that use an executor: their main module, their end, their signals, their forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Script


def test_functions_and_classes_of_the_main_module_work(script: Script) -> None:
    done = script(
        """
import regrow

class Point:
    def __init__(self, x):
        self.x = x

class Wrong(Exception):
    pass

def double(point):
    return Point(2 * point.x)

def fail():
    raise Wrong("so")

print("imported as", __name__)

if __name__ == "__main__":
    with regrow.Executor(1) as executor:
        print(executor.submit(double, Point(4)).result().x)
        try:
            executor.submit(fail).result()
        except Wrong as error:
            print("caught", error)
"""
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if "__mp_main__" not in line] == ["imported as __main__", "8", "caught so"]


def test_a_main_module_without_a_guard_is_told_so(script: Script) -> None:
    done = script(
        """
import regrow

with regrow.Executor(1) as executor:
    print(executor.submit(abs, -1).exception().__cause__)
"""
    )
    assert "bootstrapping phase" in done.stdout, done.stderr


def test_an_executor_of_the_main_module_works(script: Script) -> None:
    done = script(
        """
import sys, regrow

executor = regrow.Executor(1)

def path():
    return sys.path

if __name__ == "__main__":
    sys.path.append("/added/later")
    print(executor.submit(abs, -1).result(), executor.submit(path).result()[-1])
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 /added/later\n"


def test_calls_that_run_at_the_end_are_waited_for(script: Script, tmp_path: Path) -> None:
    done = script(
        """
import sys, time, regrow

def work(path):
    time.sleep(0.5)
    open(path, "w").write("done")

if __name__ == "__main__":
    executor = regrow.Executor(1)
    for name in sys.argv[1:]:
        executor.submit(work, name)
""",
        str(tmp_path / "first"),
        str(tmp_path / "second"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "second").read_text() == "done"


def test_a_forked_copy_can_use_the_executor(script: Script, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = script(
        """
import os, pathlib, sys, regrow

if __name__ == "__main__":
    executor = regrow.Executor(2)
    print(executor.submit(abs, -1).result(), flush=True)
    # It runs for as long as nobody writes to the FIFO: it is under way when the process is copied.
    running = executor.submit(pathlib.Path(sys.argv[1]).read_text)
    child = os.fork()
    if child == 0:
        print(executor.submit(abs, -2).result(), flush=True)
        try:
            running.result()
        except regrow.BrokenProcess as error:
            print("refused", flush=True)
        executor.shutdown()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    pathlib.Path(sys.argv[1]).write_text("8")
    print(running.result(), executor.submit(abs, -3).result(), flush=True)
""",
        str(fifo),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "2", "refused", "8", "3"]


INTERRUPTED = """
import time, sys, regrow

if __name__ == "__main__":
    with regrow.Executor(1) as executor:
        print(executor.submit(abs, -1).result(), flush=True)
        future = executor.submit(time.sleep, 60)
        try:
            print("waiting", flush=True)
            future.result()
        except KeyboardInterrupt:
            print("interrupted", future.cancel(), flush=True)
        print(executor.submit(abs, -2).result(), flush=True)
"""


def test_an_interrupt_reaches_who_waits(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True, env=environment)
    assert program.stdout is not None
    assert program.stdout.readline() == "1\n"
    assert program.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    program.send_signal(signal.SIGINT)
    rest, _ = program.communicate(timeout=60)
    assert rest.splitlines() == ["interrupted True", "2"]
    assert program.returncode == 0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_person_sees_that_modules_are_imported(script: Script, tmp_path: Path, is_terminal: bool) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(1.5)\n")
    text = f"""
import os, select, sys, pty, regrow
sys.path.insert(0, {str(tmp_path)!r})

if __name__ == "__main__":
    if {is_terminal}:
        main, side = pty.openpty()
        sys.stderr = open(side, "w")
    with regrow.Executor(1, preload=["slow_module"]) as executor:
        executor.submit(abs, -1).result()
    if {is_terminal}:
        sys.stderr.flush()
        # A terminal gives what is written to it in pieces, and a little later.
        seen = b""
        while not (b"importing slow_module" in seen and seen.endswith(b"\\x1b[K")):
            assert select.select([main], [], [], 20)[0], seen
            seen += os.read(main, 100000)
"""
    done = script(text)
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupts_at_any_moment_leave_an_executor_whole(script: Script) -> None:
    done = script(
        """
import signal, regrow

def interrupt(*_):
    raise KeyboardInterrupt

if __name__ == "__main__":
    with regrow.Executor(2) as executor:
        executor.submit(abs, -1).result()
        signal.signal(signal.SIGALRM, interrupt)
        futures, interrupts = [], 0
        for turn in range(300):
            try:
                # Every call is interrupted once, each at another moment of it.
                signal.setitimer(signal.ITIMER_REAL, 0.00001 * (turn + 1))
                futures.append(executor.submit(abs, -turn))
                futures[-1].result()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
        assert interrupts > 0
        for future in futures:
            assert future.exception(timeout=60) is None or isinstance(future.exception(), KeyboardInterrupt)
        assert executor.submit(abs, -2).result(timeout=60) == 2
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
