"""The worker pool of Celery, with real brokers and real workers: every task in a fresh process, and none lost."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

celery = pytest.importorskip("celery")
pytest.importorskip("redis")

from billiard.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded, WorkerLostError  # noqa: E402
from celery import chain, chord, group  # noqa: E402
from celery.exceptions import TaskRevokedError  # noqa: E402

import celery_app as tasks  # noqa: E402
from celery_servers import RabbitMQ, Redis, Worker, rabbitmq_program, until  # noqa: E402

#: How long a result may take, in seconds.
SOON = 30

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("celery")


@pytest.fixture(scope="module", autouse=True)
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """It takes seconds to start: it does so while the first tests run."""
    if rabbitmq_program() is None:
        pytest.skip("rabbitmq-server is not installed")
    server = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def redis(folder: Path) -> Iterator[Redis]:
    server = Redis(folder)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shared(redis: Redis, folder: Path) -> Iterator[Worker]:
    """A worker that most tests give tasks to."""
    worker = Worker(folder, redis.url(0), redis.url(1), "-c", "2", "-E").wait()
    yield worker
    stats = worker.stats(app_for(redis.url(0), redis.url(1)))
    assert stats["executed"] == 0, stats["creations"]
    assert worker.end() == 0, worker.text()


def app_for(broker: str, backend: str) -> Any:
    """The app, connected to other servers than before."""
    app = tasks.app
    if (app.conf.broker_url, app.conf.result_backend) != (broker, backend):
        app.pool.force_close_all()
        app.conf.update(broker_url=broker, broker_read_url=broker, broker_write_url=broker, result_backend=backend)
        app.__dict__.pop("amqp", None)
        app._pool = None
        app._local.__dict__.clear()
        app._backend_cache = None
    return app


@pytest.fixture
def app(shared: Worker, redis: Redis) -> Any:
    """The app, connected to the shared worker."""
    return app_for(redis.url(0), redis.url(1))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_every_task_has_a_fresh_process_of_a_warm_image(app: Any, shared: Worker) -> None:
    before = shared.stats(app)
    results = [tasks.where.delay(f"task {number}") for number in range(30)]
    gave = [result.get(timeout=SOON) for result in results]
    after = shared.stats(app)
    assert len({pid for pid, _, _ in gave}) == 30
    assert [done for _, done, _ in gave] == [[f"task {number}"] for number in range(30)]
    warm = {name: count for name, count in after["creations"].items() if name.endswith("at warm")}
    assert sum(warm.values()) - sum(before["creations"].values()) == 30
    assert after["recycled"] - before["recycled"] >= 25, after
    assert after["executed"] == 0, after


def test_signals_of_processes_are_sent_in_each_and_that_of_the_image_once(app: Any, folder: Path) -> None:
    gave = [tasks.where.delay().get(timeout=SOON) for _ in range(3)]
    images = {heard[0] for _, _, heard in gave}
    assert len(images) == 1
    assert images.pop().startswith("image ")
    for pid, _, heard in gave:
        assert heard[1:] == [f"process {pid}"]
        until(lambda pid=pid: str(pid) in lines(folder / "ends"))


def test_long_arguments_and_results(app: Any) -> None:
    assert tasks.length.delay("x" * (8 << 20)).get(timeout=SOON) == 8 << 20
    assert tasks.long.delay(8 << 20).get(timeout=SOON) == "x" * (8 << 20)


def test_an_exception_travels_with_its_traceback(app: Any) -> None:
    result = tasks.fails.delay("key")
    with pytest.raises(KeyError, match="key"):
        result.get(timeout=SOON)
    assert "raise KeyError(text)" in result.traceback
    with pytest.raises(Exception, match="stubborn"):
        tasks.fails_stubbornly.delay().get(timeout=SOON)
    with pytest.raises(ValueError, match="xxx"):
        tasks.fails_at_length.delay(300_000).get(timeout=SOON)


@pytest.mark.parametrize(
    ("task", "args", "reason"),
    [
        ("exits", (3, True), "exitcode 3"),
        ("exits", (4, False), ""),
        ("kills_itself", (signal.SIGKILL,), "SIGKILL"),
        ("kills_itself", (signal.SIGTERM,), "SIGTERM"),
        ("crashes", (), "SIGSEGV"),
    ],
)
def test_a_process_that_dies_is_the_end_of_its_task_alone(app: Any, task: str, args: tuple[Any, ...], reason: str) -> None:
    dying = getattr(tasks, task).delay(*args)
    other = tasks.add.delay(1, 2)
    with pytest.raises(WorkerLostError, match=reason):
        dying.get(timeout=SOON)
    assert other.get(timeout=SOON) == 3


def test_endless_recursion_ends_its_task_alone(app: Any) -> None:
    with pytest.raises((RecursionError, WorkerLostError)):
        tasks.recurses.delay().get(timeout=SOON)
    assert tasks.add.delay(1, 2).get(timeout=SOON) == 3


def test_the_soft_time_limit_can_be_caught(app: Any) -> None:
    assert tasks.catches_limit.delay().get(timeout=SOON) == "caught"
    with pytest.raises(SoftTimeLimitExceeded):
        tasks.exceeds_soft_limit.delay().get(timeout=SOON)


def test_a_soft_limit_that_is_over_at_once_is_raised_in_the_task(app: Any) -> None:
    for _ in range(10):
        with pytest.raises(SoftTimeLimitExceeded):
            tasks.naps.apply_async((20,), soft_time_limit=0.001).get(timeout=SOON)


def test_the_hard_time_limit_kills_the_process(app: Any, tmp_path: Path) -> None:
    with pytest.raises(TimeLimitExceeded):
        tasks.exceeds_hard_limit.delay(str(tmp_path / "pid")).get(timeout=SOON)
    pid = int(lines(tmp_path / "pid")[0])
    until(lambda: is_gone(pid))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_task_that_runs_can_be_revoked(app: Any, shared: Worker, tmp_path: Path, name: str) -> None:
    result = tasks.tells_pid_and_naps.delay(str(tmp_path / "pid"), 30)
    until(lambda: lines(tmp_path / "pid"))
    result.revoke(terminate=True, signal=name)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=SOON)
    until(lambda: is_gone(int(lines(tmp_path / "pid")[0])))


def test_a_revoked_task_that_waits_never_runs(app: Any, tmp_path: Path) -> None:
    naps = [tasks.naps.delay(0.7) for _ in range(2)]
    waiting = tasks.noted.delay(str(tmp_path / "note"), "ran")
    waiting.revoke(terminate=True)
    assert [nap.get(timeout=SOON) for nap in naps] == [0.7, 0.7]
    assert tasks.add.delay(1, 2).get(timeout=SOON) == 3
    assert lines(tmp_path / "note") == []


def test_threads_and_children_that_a_task_leaves_behind_do_not_hold_it_up(app: Any) -> None:
    pid = tasks.leaves_thread.delay().get(timeout=SOON)
    until(lambda: is_gone(pid), 5)
    child = tasks.leaves_child.delay().get(timeout=SOON)
    os.kill(child, signal.SIGKILL)


def test_tasks_send_tasks(app: Any) -> None:
    from celery.result import AsyncResult

    ids = tasks.sends.delay(10).get(timeout=SOON)
    assert [AsyncResult(one, app=app).get(timeout=SOON) for one in ids] == [10, 11, 12]


def test_groups_chains_chords_retries_and_countdowns(app: Any, tmp_path: Path) -> None:
    assert group(tasks.add.s(one, 1) for one in range(4)).apply_async().get(timeout=SOON) == [1, 2, 3, 4]
    assert chain(tasks.add.s(1, 2), tasks.add.s(3), tasks.add.s(4)).apply_async().get(timeout=SOON) == 10
    assert chord((tasks.add.s(one, 1) for one in range(5)), tasks.total.s()).apply_async().get(timeout=SOON) == 15
    assert tasks.succeeds_at_last.delay(str(tmp_path / "pids")).get(timeout=SOON) == 2
    assert len(set(lines(tmp_path / "pids"))) == 3
    began = time.monotonic()
    assert tasks.add.apply_async((1, 1), countdown=0.5).get(timeout=SOON) == 2
    assert time.monotonic() - began >= 0.5


def test_the_state_of_a_task_that_has_begun_names_its_process(app: Any) -> None:
    pid, state = tasks.started_state.delay().get(timeout=SOON)
    assert state["pid"] == pid


def test_what_a_task_prints_is_in_the_log_of_the_worker(app: Any, shared: Worker) -> None:
    pid = tasks.speaks.delay("words").get(timeout=SOON)
    printed = until(lambda: [line for line in shared.text().splitlines() if "printed words" in line])
    logged = until(lambda: [line for line in shared.text().splitlines() if "logged words" in line])
    assert f"WARNING/Regrow-{pid}" in printed[0]
    assert "celery_app.speaks[" in logged[0]


def test_events_tell_of_tasks(app: Any) -> None:
    heard: list[tuple[str, Any]] = []
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": lambda event: heard.append((event["type"], event.get("uuid")))})
        with receiver.consumer_context() as (_connection, _channel, _consumers):
            result = tasks.add.delay(1, 2)
            assert result.get(timeout=SOON) == 3

            def types() -> set[str]:
                connection.drain_events(timeout=5)
                return {name for name, uuid in heard if uuid == result.id}

            until(lambda: types() >= {"task-received", "task-started", "task-succeeded"})


def test_the_pool_grows_and_shrinks(app: Any, shared: Worker) -> None:
    app.control.pool_grow(2, destination=[shared.name], reply=True)
    assert shared.stats(app)["max-concurrency"] == 4
    naps = [tasks.naps.delay(1.0) for _ in range(4)]
    until(lambda: len(shared.stats(app)["processes"]) == 4)
    assert [nap.get(timeout=SOON) for nap in naps] == [1.0] * 4
    app.control.pool_shrink(2, destination=[shared.name], reply=True)
    assert shared.stats(app)["max-concurrency"] == 2
    naps = [tasks.naps.delay(0.5) for _ in range(4)]
    most = 0
    while not all(nap.ready() for nap in naps):
        most = max(most, len(shared.stats(app)["processes"]))
    assert most == 2


def test_a_pool_that_is_restarted_goes_on(app: Any, shared: Worker) -> None:
    (heard_before,) = {tasks.where.delay().get(timeout=SOON)[2][0]}
    app.control.broadcast("pool_restart", destination=[shared.name], reply=True, timeout=SOON, limit=1)
    _, _, heard = tasks.where.delay().get(timeout=SOON)
    assert heard[0] != heard_before


def test_a_task_whose_process_is_lost_runs_again_where_it_asks_for_that(app: Any, tmp_path: Path) -> None:
    tasks.dies_once.delay(str(tmp_path / "note")).get(timeout=SOON)
    assert lines(tmp_path / "note") == ["begin"] * 2


def test_a_broker_that_restarts_loses_no_task(tmp_path: Path) -> None:
    server = Redis(tmp_path)
    app = app_for(server.url(0), server.url(1))
    path = tmp_path / "notes"
    worker = Worker(tmp_path, server.url(0), server.url(1), "-c", "2").wait()
    try:
        for number in range(500):
            tasks.noted.delay(str(path), str(number))
        until(lambda: len(lines(path)) >= 100)
        server.stop(signal.SIGKILL)
        server.start()
        until(lambda: len(lines(path)) >= 500, 60)
        counts = Counter(lines(path))
        assert counts == Counter(str(number) for number in range(500)), counts.most_common(3)
        assert worker.end() == 0
    finally:
        worker.kill()
        app.pool.force_close_all()
        server.stop()


def test_another_worker_takes_over_from_one_that_was_killed(rabbitmq: RabbitMQ, redis: Redis, tmp_path: Path) -> None:
    rabbitmq.wait()
    app = app_for(rabbitmq.url(), redis.url(2))
    path = tmp_path / "notes"
    first = Worker(tmp_path, rabbitmq.url(), redis.url(2), "-c", "2")
    first.wait()
    results = [tasks.late.delay(str(path), str(number), 0.4) for number in range(10)]
    until(lambda: any(line.startswith("end") for line in lines(path)))
    running = [int(line.split()[2]) for line in lines(path) if line.startswith("begin")]
    first.kill()
    # With the worker its processes end: no task goes on of which nobody knows.
    for pid in running:
        until(lambda pid=pid: is_gone(pid), 5)
    second = Worker(tmp_path, rabbitmq.url(), redis.url(2), "-c", "2").wait()
    try:
        for result in results:
            result.get(timeout=SOON)
        ends = Counter(line for line in lines(path) if line.startswith("end"))
        assert set(ends) == {f"end {number}" for number in range(10)}
        stats = second.stats(app)
        assert stats["recycled"] + stats["forked"] == sum(stats["creations"].values())
        # A warm shutdown waits for what runs, and says so to the broker.
        last = tasks.late.delay(str(path), "last", 1.0)
        until(lambda: any(line.startswith("begin last") for line in lines(path)))
        assert second.end() == 0, second.text()
        assert lines(path)[-1] == "end last"
        assert last.get(timeout=SOON)
        with app.connection_for_write() as connection:
            assert connection.default_channel.queue_declare("celery", passive=True).message_count == 0
    finally:
        second.kill()


def test_ctrl_c_once_is_a_warm_shutdown_and_twice_a_cold_one(redis: Redis, tmp_path: Path) -> None:
    app_for(redis.url(4), redis.url(5))
    path = tmp_path / "notes"
    warm = Worker(tmp_path, redis.url(4), redis.url(5), "-c", "1").wait()
    result = tasks.late.delay(str(path), "warm", 1.0)
    until(lambda: lines(path))
    # As a terminal does it: all processes of the group have it.
    os.killpg(warm.process.pid, signal.SIGINT)
    assert warm.process.wait(20) == 0, warm.text()
    assert result.get(timeout=SOON)
    assert lines(path)[-1] == "end warm"

    cold = Worker(tmp_path, redis.url(4), redis.url(5), "-c", "1").wait()
    tasks.late.delay(str(path), "cold", 60)
    until(lambda: lines(path)[-1].startswith("begin cold"))
    pid = int(lines(path)[-1].split()[2])
    os.killpg(cold.process.pid, signal.SIGINT)
    until(lambda: "Warm shutdown" in cold.text())
    os.killpg(cold.process.pid, signal.SIGINT)
    cold.process.wait(20)
    assert is_gone(pid)
    assert "end cold" not in lines(path)


def test_a_limit_of_memory_is_that_of_a_task(redis: Redis, tmp_path: Path) -> None:
    app_for(redis.url(6), redis.url(7))
    worker = Worker(tmp_path, redis.url(6), redis.url(7), "-c", "1", "--max-memory-per-child", "300000").wait()
    try:
        with pytest.raises(WorkerLostError, match="memory"):
            tasks.allocates.delay(500).get(timeout=SOON)
        assert tasks.allocates.delay(50).get(timeout=SOON) == 50 << 20
    finally:
        assert worker.end() == 0, worker.text()


def test_autoscale(redis: Redis, tmp_path: Path) -> None:
    app = app_for(redis.url(8), redis.url(9))
    worker = Worker(tmp_path, redis.url(8), redis.url(9), "--autoscale", "4,1").wait()
    try:
        naps = [tasks.naps.delay(1.5) for _ in range(4)]
        until(lambda: len(worker.stats(app)["processes"]) == 4)
        assert [nap.get(timeout=SOON) for nap in naps] == [1.5] * 4
    finally:
        assert worker.end() == 0, worker.text()


def test_a_worker_without_an_event_loop(redis: Redis, tmp_path: Path) -> None:
    broker = "filesystem://"
    app = app_for(broker, redis.url(10))
    (tmp_path / "queue").mkdir()
    folders = {"data_folder_in": str(tmp_path / "queue"), "data_folder_out": str(tmp_path / "queue")}
    kept = app.conf.broker_transport_options
    app.conf.broker_transport_options = folders
    words = ["-c", "2", "--", *(f"broker_transport_options={folders!r}".replace("'", '"') for _ in range(1))]
    worker = Worker(tmp_path, broker, redis.url(10), *words)
    try:
        worker.wait()
        assert len({tasks.where.delay().get(timeout=SOON)[0] for _ in range(4)}) == 4
        with pytest.raises(TimeLimitExceeded):
            tasks.naps.apply_async((30,), time_limit=0.3).get(timeout=SOON)
        with pytest.raises(WorkerLostError):
            tasks.exits.delay(3, True).get(timeout=SOON)
        nap = tasks.naps.delay(0.8)
        time.sleep(0.4)
        assert worker.end() == 0, worker.text()
        assert nap.get(timeout=SOON) == 0.8
    finally:
        worker.kill()
        app.conf.broker_transport_options = kept
