"""Measures fresh Python processes beside what people use for them: `fresh_processes.py REGROW OUTPUT`.

The ways of a row take turns in one run, each by calls back to back. The benchmark checks what each call returned, and that
each process of Regrow's came out of a warm image. Figures are medians. The table goes to standard output, and the figures
go to OUTPUT (`figures.py`).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import multiprocessing
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import regrow
from regrow import _core

import figures
from calls_per_second import throughput
from figures import Figure, figure

MODULES = ("json", "re", "decimal", "http.client", "email")
ROUNDS = 200
# Calls that follow each other: a process that is made ahead of its call is paid for by the one before.
CALLS = 10
ARRAY_BYTES = 8 << 20
# Between two measurements, in seconds.
PAUSE = 0.02
# What is preloaded for the row of an image of 80 MiB, and what a run writes.
LARGE = """
blocks = [bytearray(4096 - 64) for _ in range(20480)]

def write():
    for block in blocks[::200][:100]: block[0] = 1
    return 42
"""
# A process that forks when it is told to, and says how long that took.
FORKS = """
import os, pickle, sys, time
for name in sys.argv[2:]: __import__(name)
for _ in sys.stdin:
    started = time.perf_counter()
    for _ in range(int(sys.argv[1])):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, pickle.dumps(42))
            os._exit(0)
        os.close(write)
        with open(read, "rb") as pipe: assert pickle.load(pipe) == 42
        _, status = os.waitpid(child, 0)
        assert status == 0
    print((time.perf_counter() - started) / int(sys.argv[1]), flush=True)
"""


def answer() -> int:
    """What each call of an executor is."""
    return 42


def same(value: Any) -> Any:
    """What each call with an array is."""
    return value


def timed(call: Callable[[], object], times: int = 1) -> float:
    """Seconds that a call takes, as one of some that follow each other."""
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def check(value: object) -> None:
    """Whether a call has returned what it should."""
    assert value == 42, value


def check_creation(creation: str) -> None:
    """Whether a process comes out of the image that is measured."""
    assert creation.endswith("at warm"), f"what is measured is no warm image: a process was started by {creation}"


def recycled(executor: regrow.Executor) -> None:
    """A call of an executor that is checked."""
    future = executor.submit(answer)
    check(future.result())
    assert future.creation is not None
    check_creation(future.creation)


def in_turn(ways: Sequence[Callable[[], float]], rounds: int = ROUNDS, warm_up: int = 20) -> list[float]:
    """The medians of ways that are measured in turn, after some rounds that do not count."""
    seconds: list[list[float]] = [[] for _ in ways]
    for number in range(warm_up + rounds):
        for way, taken in zip(ways, seconds):
            # What the one before has left to be done is not to be part of this one.
            time.sleep(PAUSE)
            one = way()
            if number >= warm_up:
                taken.append(one)
    return [statistics.median(taken) for taken in seconds]


class Forks:
    """An interpreter with modules imported, that forks."""

    def __init__(self, modules: Sequence[str]) -> None:
        command = [sys.executable, "-c", FORKS, str(CALLS), *modules]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fork(self) -> float:
        """Seconds of a fork, its answer by a pipe, and the wait for its end, as one of some that follow each other."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("fork\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """Ends it."""
        self.process.communicate()


def executors() -> list[Figure]:
    """Calls of an executor beside a pool whose processes serve one call each, and beside a fork."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(MODULES))
    forks = Forks(MODULES)
    with (
        regrow.Executor(1, preload=MODULES) as executor,
        ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool,
    ):
        ways = [
            lambda: timed(lambda: recycled(executor), CALLS),
            lambda: timed(lambda: check(pool.submit(answer).result()), CALLS),
            forks.fork,
        ]
        ours, theirs, fork = in_turn(ways)
    forks.close()
    return [
        figure("Executor.submit(f).result(), p50", ours * 1e6, None, "us"),
        figure("against ProcessPoolExecutor(max_tasks_per_child=1, forkserver, preload)", theirs / ours, 70, "times"),
        figure("against os.fork + pipe + wait of a warm interpreter", fork / ours, 3, "times"),
    ]


def with_pandas() -> list[Figure]:
    """The same with pandas preloaded."""
    forks = Forks(["pandas"])
    with regrow.Executor(1, preload=["pandas"]) as executor:
        ours, fork = in_turn([lambda: timed(lambda: recycled(executor), CALLS), forks.fork])
    forks.close()
    return [
        figure("the same with pandas preloaded, p50", ours * 1e6, None, "us"),
        figure("against os.fork from an interpreter with pandas", fork / ours, 8, "times"),
    ]


def arrays() -> list[Figure]:
    """A large array there and back, beside a pool of the standard library whose process is used again."""
    if importlib.util.find_spec("numpy") is None:
        return []
    numpy: Any = importlib.import_module("numpy")
    array = numpy.arange(ARRAY_BYTES // 8, dtype="f8")
    context = multiprocessing.get_context("forkserver")
    with regrow.Executor(1, preload=["numpy"]) as executor, ProcessPoolExecutor(1, mp_context=context) as pool:

        def there_and_back(calls: Any) -> None:
            future = calls.submit(same, array)
            result = future.result()
            assert result[-1] == array[-1]
            assert result.nbytes == array.nbytes
            if calls is executor:
                check_creation(future.creation)

        ways = [lambda: timed(lambda: there_and_back(executor)), lambda: timed(lambda: there_and_back(pool))]
        ours, theirs = in_turn(ways, rounds=100)
    return [
        figure("an array of 8 MiB there and back, p50", ours * 1e3, None, "ms"),
        figure("against ProcessPoolExecutor, whose process is used again", theirs / ours, None, "times"),
    ]


class Daemon:
    """A daemon in a folder of its own, with a log that says why runs are not recycled."""

    def __init__(self, program: str, folder: str) -> None:
        self.program = program
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": folder}
        self.log = pathlib.Path(folder, "log")
        with self.log.open("wb") as log:
            words = [program, "--log", "debug", "daemon"]
            self.process = subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stderr=log)

    def run(self, words: Sequence[str]) -> float:
        """Seconds that a command takes."""
        return timed(lambda: subprocess.run(words, env=self.environment, check=True))

    def status(self, *flags: str) -> str:
        """What it says of itself; nothing where it does not listen."""
        words = [self.program, "status", *flags]
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False).stdout

    def warm_runs(self) -> int:
        """How many runs came out of warm images."""
        creations = json.loads(self.status("--json"))["pool"]["creations"]
        return int(creations["recycled"]["warm"] + creations["forked_body"]["warm"])

    def why(self) -> str:
        """What it says of runs that are not what they should be."""
        return "\n".join([self.status(), *self.log.read_text(encoding="utf-8").splitlines()[-20:]])

    def __enter__(self) -> Daemon:
        # A command that finds no daemon would start another one.
        while not self.status():
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def command(program: str) -> list[Figure]:
    """`regrow run --preload pandas` beside plain python3."""
    rounds, warm_up = 30, 3
    plain = [sys.executable, "-c", "import pandas"]
    ours = [program, "run", "--preload", "pandas", "--", *plain]
    with tempfile.TemporaryDirectory() as folder, Daemon(program, folder) as daemon:
        # The daemon makes the image meanwhile.
        for _ in range(100):
            daemon.run(ours)
            if daemon.warm_runs() > 0:
                break
            time.sleep(0.3)
        before = daemon.warm_runs()
        ways = [lambda: daemon.run(ours), lambda: daemon.run(plain)]
        quick, slow = in_turn(ways, rounds=rounds, warm_up=warm_up)
        warm = daemon.warm_runs() - before
        assert warm == rounds + warm_up, f"of {rounds + warm_up} runs {warm} came out of a warm image\n{daemon.why()}"
    return [
        figure("regrow run --preload pandas -- python3 -c 'import pandas', p50", quick * 1e6, None, "us"),
        figure("against python3 -c 'import pandas'", slow / quick, 120, "times"),
    ]


def large_image() -> list[Figure]:
    """How long a body of a large image takes to be put back after a call that wrote 100 pages."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "large.py").write_text(LARGE, encoding="utf-8")
        sys.path.insert(0, folder)
        write = importlib.import_module("large").write
        with regrow.Executor(1, preload=["large"]) as executor:
            # The executor's own pool, but for the times that this one notes.
            starter = executor._calls._starter = executor._calls._make_starter()
            pool = starter._pool.core = _core.Pool(1, warm_only=True, timed=True, trusts_runs=True)
            resets = []
            for _ in range(ROUNDS):
                future = executor.submit(write)
                check(future.result())
                check_creation(str(future.creation))
                # Nothing where the body was made anew meanwhile, which happens once.
                seconds = pool.reset_seconds()
                resets += [seconds] if seconds else []
        assert len(resets) > ROUNDS * 0.9
        sys.path.remove(folder)
    return [
        figure("reset after a run that writes 100 pages, image of 80 MiB", statistics.median(resets) * 1e3, 0.2, "ms", True)
    ]


def tests() -> list[Figure]:
    """1,000 small tests under pytest, each in a process or not."""
    source = "import pytest\n@pytest.mark.parametrize('n', range(1000))\ndef test_small(n): assert n + 1 > n\n"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "test_small.py").write_text(source, encoding="utf-8")

        def run(*flags: str) -> float:
            words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags]
            started = time.perf_counter()
            done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, check=True)
            took = time.perf_counter() - started
            assert b"1000 passed" in done.stdout, done.stdout
            assert b"not recycled" not in done.stdout, done.stdout
            return took

        ways = [lambda: run("--regrow"), lambda: run("--forked"), lambda: run("--isolate"), lambda: run("-p", "no:regrow")]
        ours, forked, isolated, plain = in_turn(ways, rounds=3, warm_up=0)
    return [
        figure("1,000 small tests, pytest --regrow", ours, None, "s"),
        figure("against pytest --forked", forked / ours, 5, "times"),
        figure("against pytest --isolate of pytest-isolate", isolated / ours, 5, "times"),
        figure("times as long as plain pytest, no isolation", ours / plain, 2, "times", True),
    ]


def resident(pid: int) -> int:
    """KiB of a process, shared pages divided among those that share them."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def mapped_images(pid: int) -> int:
    """KiB of images in memory files that a process has mapped, shared pages divided."""
    total, of_image = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            of_image = "memfd:regrow-image" in line
        elif of_image and words[0] == "Pss:":
            total += int(words[1])
    return total


def held_images() -> int:
    """KiB of the images that this process has open, mapped or not."""
    held = {}
    for descriptor in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{descriptor}"
        if os.path.lexists(path) and "memfd:regrow-image" in os.readlink(path):
            status = os.stat(path)
            held[status.st_ino] = status.st_blocks // 2
    return sum(held.values())


def memory() -> list[Figure]:
    """8 warm bodies with pandas beside 8 interpreters with pandas, all alive.

    Pages of an image that nobody has mapped count as well.
    """
    code = "import pandas, sys, time\nprint('ready', flush=True)\ntime.sleep(600)\n"
    image = _core.Image(sys.executable, [], ["--preload", "pandas"])
    pool = _core.Pool(8, warm_only=True)
    point, why = pool.prepare(image, ["x"], call=b"time:sleep\n")
    assert point == "warm", why
    # An image that has shown what its runs write gives back what they do not.
    for _ in range(CALLS * CALLS):
        run = pool.start(image, ["x"], call=b"builtins:eval\nNone")
        run.wait()
        assert run.returncode == 0
    time.sleep(2)
    call = b"builtins:eval\n__import__('time').sleep(600)"
    runs = [pool.start(image, ["x"], call=call) for _ in range(8)]
    for run in runs:
        check_creation(run.creation)
    time.sleep(1)
    keepers = pool.keepers()
    ours = sum(map(resident, keepers)) + max(0, held_images() - sum(map(mapped_images, keepers)))
    for run in runs:
        run.kill()
        run.wait()
    pool.clear()
    others = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(8)]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
    theirs = sum(resident(other.pid) for other in others)
    for other in others:
        other.kill()
        other.communicate()
    return [
        figure("memory of 8 warm pandas bodies, with their image", ours / 1024, None, "MiB"),
        figure("as part of that of 8 interpreters with pandas", ours / theirs, 0.2, "times", True),
    ]


def with_gunicorn() -> list[Figure]:
    """A request to a server of which each worker answers one. It imports the modules before it starts workers."""
    if importlib.util.find_spec("gunicorn") is None:
        return []
    imports = "".join(f"import {name}\n" for name in MODULES)
    source = imports + "def app(environ, start):\n    start('200 OK', [('Content-Length', '2')])\n    return [b'42']\n"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "answers.py").write_text(source, encoding="utf-8")
        path = os.path.join(folder, "socket")
        words = ["gunicorn", "--preload", "--workers=1", "--max-requests=1", "--log-level=error", f"--bind=unix:{path}"]
        server = subprocess.Popen([sys.executable, "-m", *words, "answers:app"], cwd=folder)
        while not os.path.exists(path):
            assert server.poll() is None
            time.sleep(0.05)

        def request() -> None:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                answer = b"".join(iter(lambda: client.recv(4096), b""))
            assert answer.startswith(b"HTTP/1.1 200"), answer
            assert answer.endswith(b"42"), answer

        (seconds,) = in_turn([lambda: timed(request, CALLS)], rounds=10, warm_up=1)
        server.terminate()
        server.wait()
    return [figure("for orientation: gunicorn, max_requests=1, a request", seconds * 1e6, None, "us")]


def with_ray() -> list[Figure]:
    """A task whose worker carries out one."""
    if importlib.util.find_spec("ray") is None:
        return []
    # It would say on standard error that this will be so.
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray: Any = importlib.import_module("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    task = ray.remote(max_calls=1)(answer)
    (seconds,) = in_turn([lambda: timed(lambda: check(ray.get(task.remote())))], rounds=20, warm_up=2)
    ray.shutdown()
    return [figure("for orientation: Ray, max_calls=1, a task", seconds * 1e6, None, "us")]


def main() -> None:
    """Measures everything."""
    regrow_command, output = sys.argv[1:]
    measured: list[Figure] = []
    command_of = functools.partial(command, regrow_command)
    for part in (
        executors,
        lambda: throughput(MODULES),
        with_pandas,
        arrays,
        command_of,
        large_image,
        tests,
        memory,
        with_gunicorn,
        with_ray,
    ):
        for one in part():
            figures.show(one)
            measured.append(one)
    figures.write(pathlib.Path(output), measured)


if __name__ == "__main__":
    main()
