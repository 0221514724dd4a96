"""The lives of Celery's workers and of their brokers: they are stopped, killed, and started again, and no task is lost."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

celery = pytest.importorskip("celery")
pytest.importorskip("redis")

from billiard.exceptions import TimeLimitExceeded, WorkerLostError  # noqa: E402

from celery_servers import Client, RabbitMQ, Redis, Worker, is_gone, lines, until  # noqa: E402

#: How long a result may take, in seconds.
SOON = 30

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


def ended_tasks(path: Path) -> Counter[str]:
    """How often which task has told of its end."""
    return Counter(line.split()[1] for line in lines(path) if line.startswith("end"))


def test_another_worker_takes_over_from_one_that_was_killed(rabbitmq: RabbitMQ, redis: Redis, tmp_path: Path) -> None:
    rabbitmq.wait()
    client = Client(rabbitmq.url(), redis.url(2))
    path = tmp_path / "notes"
    first = Worker(tmp_path, rabbitmq.url(), redis.url(2), "-c", "2")
    first.wait()
    results = [client.late(str(path), str(number), 0.4) for number in range(10)]
    until(lambda: any(line.startswith("end") for line in lines(path)))
    running = [int(line.split()[2]) for line in lines(path) if line.startswith("begin")]
    first.kill()
    # With the worker its processes end: no task goes on of which nobody knows.
    for pid in running:
        until(functools.partial(is_gone, pid), 5)
    second = Worker(tmp_path, rabbitmq.url(), redis.url(2), "-c", "2").wait()
    try:
        for result in results:
            result.get(timeout=SOON)
        assert set(ended_tasks(path)) == {str(number) for number in range(10)}
        stats = client.stats(second)
        assert stats["recycled"] + stats["forked"] == sum(stats["creations"].values())
        # A warm shutdown waits for what runs, and says so to the broker.
        last = client.late(str(path), "last", 1.0)
        until(lambda: any(line.startswith("begin last") for line in lines(path)))
        assert second.end() == 0, second.text()
        assert lines(path)[-1] == "end last"
        assert last.get(timeout=SOON)
        with client.app.connection_for_write() as connection:
            assert connection.default_channel.queue_declare("celery", passive=True).message_count == 0
    finally:
        second.kill()


def test_workers_share_the_tasks_and_one_that_is_killed_takes_none_along(
    rabbitmq: RabbitMQ, redis: Redis, tmp_path: Path
) -> None:
    rabbitmq.wait()
    client = Client(rabbitmq.url(), redis.url(8))
    path = tmp_path / "notes"
    workers = [Worker(tmp_path, rabbitmq.url(), redis.url(8), "-c", "1") for _ in range(2)]
    try:
        for worker in workers:
            worker.wait()
        results = {str(number): client.late(str(path), str(number), 0.1) for number in range(40)}
        until(lambda: sum(line.startswith("end") for line in lines(path)) >= 10)
        taken = [client.stats(worker) for worker in workers]
        workers[0].kill()
        for result in results.values():
            result.get(timeout=SOON)
        ends = ended_tasks(path)
        assert set(ends) == set(results)
        # One that had ended just before its worker was killed is done again: the broker did not know.
        assert sum(ends.values()) - 40 <= 1, ends.most_common(3)
        assert all(sum(stats["creations"].values()) >= 3 for stats in taken), taken
        assert all(stats["executed"] == 0 for stats in taken), taken
        assert workers[1].end() == 0, workers[1].text()
    finally:
        for worker in workers:
            worker.kill()
        client.close()


def test_a_redis_that_is_killed_loses_no_task(tmp_path: Path) -> None:
    # What it has been told is on disk. What a worker had taken and not acknowledged comes again when the broker's time is up.
    # Two things are kombu's, with prefork also (2 and 4 of 36 tries): its worker may end on the lost connection, then somebody
    # starts it again; and what the server gave out when it was killed may be neither on its disk nor known to the worker.
    options = {"visibility_timeout": 5, "unacked_restore_interval": 1, "unacked_restore_throttle": 1, "unacked_mutex_expire": 5}
    redis = Redis(tmp_path)
    client = Client(redis.url(0), redis.url(1), broker_transport_options=options)
    path = tmp_path / "notes"
    start = functools.partial(Worker, tmp_path, redis.url(0), redis.url(1), "-c", "2", options=options)
    workers = [start()]
    try:
        workers[0].wait()
        numbers = {client.late(str(path), str(number), 0.02, ignore_result=True).id: str(number) for number in range(200)}
        until(lambda: len(lines(path)) >= 40)
        redis.stop(signal.SIGKILL)
        assert len(ended_tasks(path)) < 200
        redis.start()

        def is_all_done() -> bool:
            if workers[-1].process.poll() is not None:
                assert "Unrecoverable error" in workers[-1].text()
                workers.append(start())
            known = {*redis.tasks(0), *re.findall(r"late\[(.*?)\] received", "".join(worker.text() for worker in workers))}
            ends = ended_tasks(path)
            return len(ends) >= 199 and {numbers[task] for task in known} <= set(ends)

        until(is_all_done, 90)
        # One that ended while there was no broker to be told so is done again.
        ends = ended_tasks(path)
        assert sum(ends.values()) - len(ends) <= 4, ends.most_common(6)
        assert client.stats(workers[-1])["executed"] == 0
        assert workers[-1].end() == 0, workers[-1].text()
    finally:
        for worker in workers:
            worker.kill()
        client.close()
        redis.stop()


def test_an_acknowledgement_that_fails_does_not_end_a_warm_shutdown(redis: Redis, tmp_path: Path) -> None:
    client = Client(redis.url(15), redis.url(10))
    path = tmp_path / "notes"
    os.environ["REGROW_TEST_NO_ACKNOWLEDGEMENT"] = "yes"
    try:
        worker = Worker(tmp_path, redis.url(15), redis.url(10), "-c", "2").wait()
    finally:
        del os.environ["REGROW_TEST_NO_ACKNOWLEDGEMENT"]
    try:
        results = [client.late(str(path), str(number), seconds) for number, seconds in ((1, 1.0), (2, 2.0))]
        until(lambda: len(lines(path)) == 2)
        assert worker.end() == 0, worker.text()
        assert ended_tasks(path) == {"1": 1, "2": 1}, worker.text()
        assert worker.text().count("RuntimeError: there is no broker") == 2, worker.text()
        assert all(result.get(timeout=SOON) for result in results)
    finally:
        worker.kill()
        client.close()


def test_a_broker_that_restarts_loses_no_task(rabbitmq: RabbitMQ, redis: Redis, tmp_path: Path) -> None:
    rabbitmq.wait()
    # What is confirmed is on disk.
    client = Client(rabbitmq.url(), redis.url(3), broker_transport_options={"confirm_publish": True})
    path = tmp_path / "notes"
    worker = Worker(tmp_path, rabbitmq.url(), redis.url(3), "-c", "2").wait()
    try:
        for number in range(500):
            client.noted(str(path), str(number), 0.02, ignore_result=True)
        until(lambda: len(lines(path)) >= 50)
        rabbitmq.end()
        at_end = len(lines(path))
        rabbitmq.start()
        wanted = {str(number) for number in range(500)}
        until(lambda: set(lines(path)) >= wanted, 90)
        assert at_end < 500
        counts = Counter(lines(path))
        assert set(counts) == wanted
        # Of a task that began in the moment in which the broker ended the broker does not know that.
        assert sum(counts.values()) - 500 <= 4, counts.most_common(6)
        assert client.stats(worker)["executed"] == 0
        assert worker.end() == 0, worker.text()
    finally:
        worker.kill()
        client.close()


def test_ctrl_c_once_is_a_warm_shutdown_and_twice_a_cold_one(redis: Redis, tmp_path: Path) -> None:
    client = Client(redis.url(4), redis.url(5))
    path = tmp_path / "notes"
    warm = Worker(tmp_path, redis.url(4), redis.url(5), "-c", "1").wait()
    result = client.late(str(path), "warm", 1.0)
    until(lambda: lines(path))
    # As a terminal does it: all processes of the group have it.
    os.killpg(warm.process.pid, signal.SIGINT)
    # The status is what Celery says of an interrupt.
    assert warm.process.wait(20) == 1, warm.text()
    assert result.get(timeout=SOON)
    assert lines(path)[-1] == "end warm"

    cold = Worker(tmp_path, redis.url(4), redis.url(5), "-c", "1").wait()
    client.late(str(path), "cold", 60)
    until(lambda: lines(path)[-1].startswith("begin cold"))
    pid = int(lines(path)[-1].split()[2])
    os.killpg(cold.process.pid, signal.SIGINT)
    until(lambda: "Warm shutdown" in cold.text())
    os.killpg(cold.process.pid, signal.SIGINT)
    cold.process.wait(20)
    assert is_gone(pid)
    assert "end cold" not in lines(path)


def test_a_limit_of_memory_is_that_of_a_task(redis: Redis, tmp_path: Path) -> None:
    client = Client(redis.url(6), redis.url(7))
    log = tmp_path / "worker.log"
    worker = Worker(tmp_path, redis.url(6), redis.url(7), "-c", "1", "--max-memory-per-child", "300000", "-f", str(log))
    try:
        until(lambda: log.exists() and " ready." in log.read_text())
        with pytest.raises(MemoryError):
            client.allocates(500).get(timeout=SOON)
        assert client.allocates(50).get(timeout=SOON) == 50 << 20
        # What tasks print is in the log, also when that is a file.
        client.speaks("words").get(timeout=SOON)
        until(lambda: "printed words" in log.read_text())
        assert client.stats(worker)["executed"] == 0
    finally:
        assert worker.end() == 0, worker.text()
        client.close()


MAIN = """
import os, sys
from celery import Celery
app = Celery("main_app", broker=os.environ["REGROW_TEST_BROKER"], backend=os.environ["REGROW_TEST_BACKEND"])
@app.task
def where():
    return os.getpid(), __name__
if __name__ == "__main__":
    app.worker_main(sys.argv[1:])
"""


def check_fresh_processes(redis: Redis, folder: Path, script: str, name: str) -> None:
    """A worker that a script is has a fresh process of a warm image for each task."""
    client = Client(redis.url(11), redis.url(12))
    path = folder / "main_app.py"
    path.write_text(script)
    worker = Worker(folder, redis.url(11), redis.url(12), "-c", "1", program=[str(path)]).wait()
    try:
        pids = [client.app.send_task(name).get(timeout=SOON)[0] for _ in range(3)]
        assert len({*pids, worker.process.pid}) == 4
        assert client.stats(worker)["executed"] == 0
    finally:
        assert worker.end() == 0, worker.text()
        client.close()


def test_an_app_in_the_main_module(redis: Redis, tmp_path: Path) -> None:
    check_fresh_processes(redis, tmp_path, MAIN, "main_app.where")


NOWHERE = """
import os, sys
from celery import Celery
from kinds import Kind, Needy
def main():
    app = Celery("nowhere", broker=os.environ["REGROW_TEST_BROKER"], backend=os.environ["REGROW_TEST_BACKEND"])
    app.register_task(Kind())
    app.register_task(Needy(1))
    app.worker_main(sys.argv[1:])
if __name__ == "__main__":
    main()
"""
KINDS = """
import os
from celery import Task
class Kind(Task):
    name = "kind"
    def run(self):
        return os.getpid(), __name__
class Needy(Task):
    name = "needy"
    def __init__(self, argument):
        self.argument = argument
    def run(self):
        return self.argument
"""


def test_a_task_of_a_class_in_an_app_that_no_module_holds(redis: Redis, tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(KINDS)
    check_fresh_processes(redis, tmp_path, NOWHERE, "kind")


TWICE = """
import os, pathlib
from celery import Celery
app = Celery("twice", broker=os.environ["REGROW_TEST_BROKER"])
pathlib.Path(__file__).with_suffix(".seen").touch(exist_ok=False)
"""


def test_a_worker_whose_app_cannot_be_prepared_says_why_and_ends(redis: Redis, tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(TWICE)
    worker = Worker(tmp_path, redis.url(13), redis.url(14), program=["-m", "celery", "-A", "twice"])
    assert worker.process.wait(60) == 1
    assert "FileExistsError" in worker.text()


def test_autoscale(redis: Redis, tmp_path: Path) -> None:
    client = Client(redis.url(8), redis.url(9))
    worker = Worker(tmp_path, redis.url(8), redis.url(9), "--autoscale", "4,1").wait()
    try:
        naps = [client.naps(1.5) for _ in range(4)]
        until(lambda: len(client.stats(worker)["processes"]) == 4)
        assert [nap.get(timeout=SOON) for nap in naps] == [1.5] * 4
    finally:
        assert worker.end() == 0, worker.text()


def test_a_worker_without_an_event_loop(redis: Redis, tmp_path: Path) -> None:
    broker = "filesystem://"
    queue = tmp_path / "queue"
    queue.mkdir()
    folders = {"data_folder_in": str(queue), "data_folder_out": str(queue), "control_folder": str(tmp_path / "control")}
    client = Client(broker, redis.url(10), broker_transport_options=folders)
    worker = Worker(tmp_path, broker, redis.url(10), "-c", "2", options=folders).wait()
    try:
        assert len({client.where().get(timeout=SOON)[0] for _ in range(4)}) == 4
        with pytest.raises(TimeLimitExceeded):
            client.naps(30, time_limit=0.3).get(timeout=SOON)
        with pytest.raises(WorkerLostError):
            client.exits(3, True).get(timeout=SOON)
        nap = client.tells_pid_and_naps(str(tmp_path / "pid"), 0.8)
        until(lambda: lines(tmp_path / "pid"))
        assert worker.end() == 0, worker.text()
        assert nap.get(timeout=SOON) is None
    finally:
        worker.kill()
        client.close()
