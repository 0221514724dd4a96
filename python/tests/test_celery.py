"""The worker pool of Celery, with a real broker and a real worker: every task in a fresh process, whatever it does there."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

celery = pytest.importorskip("celery")
pytest.importorskip("redis")

from billiard.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded, WorkerLostError  # noqa: E402
from celery import chain, chord, group  # noqa: E402
from celery.exceptions import TaskRevokedError  # noqa: E402
from kombu.exceptions import DecodeError  # noqa: E402

from celery_servers import Client, Redis, Worker, is_gone, is_noted, lines, until  # noqa: E402

#: How long a result may take, in seconds.
SOON = 30

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("celery")


@pytest.fixture(scope="module")
def shared(redis: Redis, folder: Path) -> Iterator[Worker]:
    """A worker that most tests give tasks to."""
    worker = Worker(folder, redis.url(0), redis.url(1), "-c", "2", "-E").wait()
    yield worker
    assert worker.end() == 0, worker.text()


@pytest.fixture(scope="module")
def client(shared: Worker, redis: Redis) -> Iterator[Client]:
    """A client of the shared worker."""
    client = Client(redis.url(0), redis.url(1))
    yield client
    stats = client.stats(shared)
    assert stats["executed"] == 0, stats["creations"]
    client.close()


def test_every_task_has_a_fresh_process_of_a_warm_image(client: Client, shared: Worker) -> None:
    before = client.stats(shared)
    results = [client.where(f"task {number}") for number in range(30)]
    gave = [result.get(timeout=SOON) for result in results]
    after = client.stats(shared)
    assert len({pid for pid, _, _ in gave}) == 30
    assert [done for _, done, _ in gave] == [[f"task {number}"] for number in range(30)]
    warm = {name: count for name, count in after["creations"].items() if name.endswith("at warm")}
    assert sum(warm.values()) - sum(before["creations"].values()) == 30
    assert after["recycled"] - before["recycled"] >= 25, after
    assert after["executed"] == 0, after


def test_a_task_has_the_variables_that_the_image_has_set(client: Client) -> None:
    names = ["SET_IN_THE_IMAGE", "REGROW_TEST_REMOVED", "CELERY_CUSTOM_WORKER_POOL"]
    pool = "regrow.celery:TaskPool"
    assert client.variables(*names).get(timeout=SOON) == [["yes", None, pool]] * 2


def test_tasks_go_the_quick_way_into_their_processes(client: Client) -> None:
    # That of the front end in which every run wakes. Orders that it reads itself are carried out by a function of their own.
    assert client.way_in().get(timeout=SOON) == "begin"


def test_signals_of_processes_are_sent_in_each_and_that_of_the_image_once(client: Client, folder: Path) -> None:
    gave = [client.where().get(timeout=SOON) for _ in range(3)]
    images = {heard[0] for _, _, heard in gave}
    assert len(images) == 1
    assert images.pop().startswith("image ")
    for pid, _, heard in gave:
        assert heard[1:] == [f"process {pid}"]
        until(functools.partial(is_noted, folder / "ends", pid))


def test_long_arguments_and_results(client: Client) -> None:
    assert client.length("x" * (8 << 20)).get(timeout=SOON) == 8 << 20
    assert client.long(8 << 20).get(timeout=SOON) == "x" * (8 << 20)


def test_an_exception_travels_with_its_traceback(client: Client) -> None:
    result = client.fails("key")
    with pytest.raises(KeyError, match="key"):
        result.get(timeout=SOON)
    assert "raise KeyError(text)" in result.traceback
    with pytest.raises(Exception, match="stubborn"):
        client.fails_stubbornly().get(timeout=SOON)
    with pytest.raises(ValueError, match="xxx"):
        client.fails_at_length(300_000).get(timeout=SOON)


@pytest.mark.parametrize(
    ("task", "args", "reason"),
    [
        ("exits", (3, True), "exitcode 3"),
        ("exits", (4, False), "exitcode 4"),
        ("kills_itself", (signal.SIGKILL,), "SIGKILL"),
        ("kills_itself", (signal.SIGTERM,), "SIGTERM"),
        ("crashes", (), "SIGSEGV"),
    ],
)
def test_a_process_that_dies_is_the_end_of_its_task_alone(
    client: Client, task: str, args: tuple[Any, ...], reason: str
) -> None:
    dying = getattr(client, task)(*args)
    other = client.add(1, 2)
    with pytest.raises(WorkerLostError, match=reason):
        dying.get(timeout=SOON)
    assert other.get(timeout=SOON) == 3


def test_endless_recursion_ends_its_task_alone(client: Client) -> None:
    with pytest.raises((RecursionError, WorkerLostError)):
        client.recurses().get(timeout=SOON)
    assert client.add(1, 2).get(timeout=SOON) == 3


def test_the_soft_time_limit_can_be_caught(client: Client) -> None:
    assert client.catches_limit().get(timeout=SOON) == "caught"
    with pytest.raises(SoftTimeLimitExceeded):
        client.exceeds_soft_limit().get(timeout=SOON)


def test_a_soft_limit_that_is_over_at_once_is_raised_in_the_task(client: Client) -> None:
    for _ in range(10):
        # Celery decodes the arguments when its task has begun, and calls whatever goes wrong in that an error of theirs.
        with pytest.raises((SoftTimeLimitExceeded, DecodeError), match=r"^SoftTimeLimitExceeded\("):
            client.naps(20, soft_time_limit=0.001).get(timeout=SOON)


def test_the_hard_time_limit_kills_the_process(client: Client, tmp_path: Path) -> None:
    with pytest.raises(TimeLimitExceeded):
        client.exceeds_hard_limit(str(tmp_path / "pid")).get(timeout=SOON)
    pid = int(lines(tmp_path / "pid")[0])
    until(lambda: is_gone(pid))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_task_that_runs_can_be_revoked(client: Client, shared: Worker, tmp_path: Path, name: str) -> None:
    result = client.tells_pid_and_naps(str(tmp_path / "pid"), 30)
    until(lambda: lines(tmp_path / "pid"))
    result.revoke(terminate=True, signal=name)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=SOON)
    until(lambda: is_gone(int(lines(tmp_path / "pid")[0])))


def test_a_revoked_task_that_waits_never_runs(client: Client, tmp_path: Path) -> None:
    naps = [client.naps(0.7) for _ in range(2)]
    waiting = client.noted(str(tmp_path / "note"), "ran")
    waiting.revoke(terminate=True)
    assert [nap.get(timeout=SOON) for nap in naps] == [0.7, 0.7]
    assert client.add(1, 2).get(timeout=SOON) == 3
    assert lines(tmp_path / "note") == []


def test_threads_and_children_that_a_task_leaves_behind_do_not_hold_it_up(client: Client) -> None:
    pid = client.leaves_thread().get(timeout=SOON)
    until(lambda: is_gone(pid), 5)
    child = client.leaves_child().get(timeout=SOON)
    os.kill(child, signal.SIGKILL)


def test_tasks_send_tasks(client: Client) -> None:
    from celery.result import AsyncResult

    ids = client.sends(10).get(timeout=SOON)
    assert [AsyncResult(one, app=client.app).get(timeout=SOON) for one in ids] == [10, 11, 12]


def test_groups_chains_chords_retries_and_countdowns(client: Client, tmp_path: Path) -> None:
    one = client.signature
    assert group(one("add", number, 1) for number in range(4)).apply_async().get(timeout=SOON) == [1, 2, 3, 4]
    assert chain(one("add", 1, 2), one("add", 3), one("add", 4)).apply_async().get(timeout=SOON) == 10
    assert chord((one("add", number, 1) for number in range(5)), one("total")).apply_async().get(timeout=SOON) == 15
    assert client.succeeds_at_last(str(tmp_path / "pids")).get(timeout=SOON) == 2
    assert len(set(lines(tmp_path / "pids"))) == 3
    began = time.monotonic()
    assert client.add(1, 1, countdown=0.5).get(timeout=SOON) == 2
    assert time.monotonic() - began >= 0.5


def test_the_state_of_a_task_that_has_begun_names_its_process(client: Client) -> None:
    pid, state = client.started_state().get(timeout=SOON)
    assert state["pid"] == pid


def test_what_a_task_prints_is_in_the_log_of_the_worker(client: Client, shared: Worker) -> None:
    pid = client.speaks("words").get(timeout=SOON)
    printed = until(lambda: [line for line in shared.text().splitlines() if "printed words" in line])
    logged = until(lambda: [line for line in shared.text().splitlines() if "logged words" in line])
    assert f"WARNING/Regrow-{pid}" in printed[0]
    assert "celery_app.speaks[" in logged[0]


def test_events_tell_of_tasks(client: Client) -> None:
    heard: list[tuple[str, Any]] = []

    def hear(event: dict[str, Any]) -> None:
        heard.append((event["type"], event.get("uuid")))

    receiver = client.app.events.Receiver(client.app.connection_for_read(), handlers={"*": hear})
    with receiver.consumer_context() as (connection, _channel, _consumers):

        def heard_of(uuid: str) -> set[str]:
            with contextlib.suppress(socket.timeout):
                connection.drain_events(timeout=0.3)
            return {name for name, one in heard if one == uuid}

        # The subscription begins with the first look.
        heard_of("")
        result = client.add(1, 2)
        until(lambda: heard_of(result.id) >= {"task-received", "task-started", "task-succeeded"})
        assert result.get(timeout=SOON) == 3


def test_the_pool_grows_and_shrinks(client: Client, shared: Worker) -> None:
    assert client.control("pool_grow", shared, n=2) == {"ok": "pool will grow"}
    assert client.stats(shared)["max-concurrency"] == 4
    naps = [client.naps(1.0) for _ in range(4)]
    until(lambda: len(client.stats(shared)["processes"]) == 4)
    assert [nap.get(timeout=SOON) for nap in naps] == [1.0] * 4
    assert client.control("pool_shrink", shared, n=2) == {"ok": "pool will shrink"}
    assert client.stats(shared)["max-concurrency"] == 2
    naps = [client.naps(0.5) for _ in range(4)]
    most = 0
    while not all(nap.ready() for nap in naps):
        most = max(most, len(client.stats(shared)["processes"]))
    assert most == 2


def test_a_pool_that_is_restarted_goes_on(client: Client, shared: Worker) -> None:
    (heard_before,) = {client.where().get(timeout=SOON)[2][0]}
    assert client.control("pool_restart", shared) == {"ok": "reload started"}
    _, _, heard = client.where().get(timeout=SOON)
    assert heard[0] != heard_before


def test_a_task_whose_process_is_lost_runs_again_where_it_asks_for_that(client: Client, tmp_path: Path) -> None:
    client.dies_once(str(tmp_path / "note")).get(timeout=SOON)
    assert lines(tmp_path / "note") == ["begin"] * 2
