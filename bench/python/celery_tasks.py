"""Measures Celery with Regrow's pool beside its prefork pool: `celery_tasks.py OUTPUT`.

Redis is broker and result backend. A queue is filled, a worker with two processes at a time is started, and its rate is that of
all tasks but the first ones. Each task writes down its process and how many tasks that has had: the benchmark checks that
none was lost, none ran twice, and that Regrow's processes were fresh and came out of a warm image. The prefork pool with one
task for each process is given fewer tasks, and compared by its rate. The table goes to standard output, and the figures go to
OUTPUT (`figures.py`).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from celery import Celery
from redis import Redis
from redis.exceptions import RedisError

import figures
from figures import Figure, figure

TASKS = int(os.environ.get("REGROW_BENCH_TASKS", "10000"))
ROUNDS = 3
# What is not measured: the first tasks of a worker, which find its caches empty.
FIRST = 0.05
APP = """
import os
from celery import Celery
app = Celery("bench_app", broker=os.environ["BENCH_BROKER"], backend=os.environ["BENCH_BACKEND"])
had = []
def note():
    had.append(1)
    with open(os.environ["BENCH_NOTES"], "ab", buffering=0) as file:
        file.write(b"%d %d\\n" % (os.getpid(), len(had)))
@app.task(ignore_result=True)
def ignored():
    note()
@app.task
def stored():
    note()
    return 42
"""


class Way(NamedTuple):
    """A pool that is measured."""

    pool: str
    words: tuple[str, ...]
    #: How many of the tasks it is given.
    share: float


REGROW = Way("custom", (), 1)
RENEWED = Way("prefork", ("--max-tasks-per-child=1",), 0.03)
REUSED = Way("prefork", (), 1)


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Place:
    """A folder with the app, and a Redis."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        port = free_port()
        words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        self.server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.redis = Redis(port=port)
        while True:
            with contextlib.suppress(RedisError):
                if self.redis.ping():
                    break
            time.sleep(0.05)
        broker, backend = f"redis://127.0.0.1:{port}/0", f"redis://127.0.0.1:{port}/1"
        pathlib.Path(folder, "bench_app.py").write_text(APP, encoding="utf-8")
        self.notes = pathlib.Path(folder, "notes")
        self.environment = {
            **os.environ,
            "BENCH_BROKER": broker,
            "BENCH_BACKEND": backend,
            "BENCH_NOTES": str(self.notes),
            "CELERY_CUSTOM_WORKER_POOL": "regrow.celery:TaskPool",
        }
        self.app = Celery("bench_app", broker=broker, backend=backend)

    def count(self) -> int:
        """How many tasks have run."""
        return self.notes.read_bytes().count(b"\n")

    def noted(self) -> list[tuple[int, int]]:
        """The process of each task so far, and how many tasks that had had by then."""
        text = self.notes.read_text(encoding="ascii")
        whole = text[: text.rfind("\n") + 1]
        return [(int(pid), int(had)) for pid, had in map(str.split, whole.splitlines())]

    def fill(self, task: str, number: int) -> None:
        """Sends tasks that nobody takes yet."""
        self.redis.flushall()
        self.notes.write_bytes(b"")
        with self.app.producer_pool.acquire(block=True) as producer:
            for _ in range(number):
                self.app.send_task(f"bench_app.{task}", producer=producer, ignore_result=task == "ignored")

    def worker(self, way: Way) -> subprocess.Popen[bytes]:
        """Starts a worker."""
        words = [sys.executable, "-m", "celery", "-A", "bench_app", "worker", "-P", way.pool, "-c", "2", "-l", "WARNING"]
        words += ["--without-gossip", "--without-mingle", "--without-heartbeat", *way.words]
        return subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        """Ends Redis."""
        self.server.terminate()
        self.server.wait()


def rate(place: Place, way: Way, task: str) -> float:
    """Tasks in a second."""
    number = int(TASKS * way.share)
    place.fill(task, number)
    first = int(number * FIRST)
    worker = place.worker(way)
    began = 0.0
    count = at_first = 0
    while count < number:
        time.sleep(0.02)
        assert worker.poll() is None, "the worker has ended"
        count = place.count()
        if not began and count >= first:
            began, at_first = time.perf_counter(), count
    seconds = time.perf_counter() - began
    check(place, way, task, number)
    worker.terminate()
    assert worker.wait() == 0
    return (number - at_first) / seconds


def check(place: Place, way: Way, task: str, number: int) -> None:
    """Whether all tasks have run, each once, in the processes that they should have."""
    noted = place.noted()
    assert len(noted) == number, len(noted)
    fresh = sum(had == 1 for _, had in noted)
    assert fresh == number if way is not REUSED else fresh == 2, (way, fresh)
    stats: dict[str, Any] = {}
    while not stats or sum(next(iter(stats.values()))["total"].values()) < number:
        stats = place.app.control.inspect(timeout=5, limit=1).stats() or {}
    (one,) = stats.values()
    assert one["total"] == {f"bench_app.{task}": number}, one["total"]
    if way is REGROW:
        creations = one["pool"]["creations"]
        assert sum(creations.values()) == number, creations
        assert all(name.endswith("at warm") for name in creations), creations
    if task == "stored":
        assert place.redis.info("keyspace")["db1"]["keys"] == number


def main() -> None:
    """Measures everything."""
    (output,) = sys.argv[1:]
    measured: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder)
        for task in ("ignored", "stored"):
            rates: dict[Way, list[float]] = {REGROW: [], RENEWED: [], REUSED: []}
            for _ in range(ROUNDS):
                for way, found in rates.items():
                    found.append(rate(place, way, task))
            ours, renewed, reused = (statistics.median(found) for found in rates.values())
            asked = task == "ignored"
            rows = [
                figure(f"Celery, {TASKS:,} small tasks, results {task}", ours, None, "1/s"),
                figure("against prefork, max_tasks_per_child=1", ours / renewed, 15 if asked else None, "times"),
                figure("against prefork, whose processes are used again", ours / reused, 0.7 if asked else None, "times"),
            ]
            for one in rows:
                figures.show(one)
            measured += rows
        place.close()
    figures.write(pathlib.Path(output), measured)


if __name__ == "__main__":
    main()
