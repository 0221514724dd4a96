"""Ray: calls of a cluster in fresh processes. Where Ray is not installed this is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

ray = pytest.importorskip("ray")

import regrow  # noqa: E402
from regrow.ray import remote_fresh  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray on this machine, without its dashboard."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def test_every_call_has_a_fresh_process_of_a_warm_image() -> None:
    kept: list[int] = []

    @remote_fresh(preload=["decimal"], max_workers=2)
    def tell(number: int) -> tuple[int, list[int]]:
        kept.append(number)
        return os.getpid(), kept

    gave = ray.get([tell.remote(number) for number in range(20)])
    assert len({pid for pid, _ in gave}) == 20
    assert [numbers for _, numbers in gave] == [[number] for number in range(20)]
    creations = tell.creations()
    assert sum(creations.values()) == 20
    assert all(name.endswith("at warm") for name in creations), creations


def test_a_call_that_fails_or_dies_is_the_end_of_that_call_alone() -> None:
    @remote_fresh
    def divide(one: int, two: int) -> Any:
        if two == 7:
            os._exit(3)
        return one // two

    results = [divide.remote(10, number) for number in (0, 7, 5)]
    with pytest.raises(ZeroDivisionError):
        ray.get(results[0])
    with pytest.raises(regrow.BrokenProcess):
        ray.get(results[1])
    # The result of one call is an argument of another.
    assert ray.get(divide.remote(results[2], 1)) == 2


def test_a_function_of_the_cluster_is_not_called_directly() -> None:
    with pytest.raises(TypeError, match="remote"):
        remote_fresh(os.getpid)()
