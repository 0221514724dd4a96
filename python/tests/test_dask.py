"""Dask: tasks of a cluster in fresh processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("distributed")

import dask
from distributed import Client, LocalCluster

import regrow
from regrow.dask import FreshProcesses


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A cluster with one worker, which is a process of its own."""
    cluster = LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.register_plugin(FreshProcesses(preload=["decimal"]))
        yield client


def fresh(client: Client, function: Any, *args: Any) -> Any:
    with dask.annotate(executor="regrow"):
        return client.submit(function, *args, pure=False)


def creations(client: Client) -> dict[str, int]:
    (found,) = client.run(lambda dask_worker: dict(dask_worker.executors["regrow"].creations)).values()
    counts: dict[str, int] = found
    return counts


def test_every_task_has_a_fresh_process_of_a_warm_image(client: Client) -> None:
    def tell(number: int) -> tuple[int, int, bool]:
        kept = sys.__dict__.setdefault("kept", [])
        kept.append(number)
        return os.getpid(), len(kept), "decimal" in sys.modules

    (worker,) = client.run(os.getpid).values()
    gave = client.gather([fresh(client, tell, number) for number in range(20)])
    assert len({pid for pid, _, _ in gave} - {worker}) == 20
    assert {(count, imported) for _, count, imported in gave} == {(1, True)}
    assert all(name.endswith("at warm") for name in creations(client)), creations(client)


def test_tasks_depend_on_others_and_fail_alone(client: Client) -> None:
    def end() -> None:
        os._exit(3)

    def fail() -> None:
        raise KeyError("key")

    first = fresh(client, lambda: list(range(1000)))
    assert fresh(client, sum, first).result() == 499500
    with pytest.raises(KeyError):
        fresh(client, fail).result()
    with pytest.raises(regrow.BrokenProcess):
        fresh(client, end).result()
    assert fresh(client, lambda: 42).result() == 42


def test_graphs(client: Client) -> None:
    with dask.annotate(executor="regrow"):
        parts = [dask.delayed(os.getpid)() for _ in range(4)]
    assert len(set(dask.compute(*parts, scheduler=client, optimize_graph=False))) == 4
