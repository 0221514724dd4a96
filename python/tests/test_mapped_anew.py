"""A process that maps memory of its image anew, or drops it, leaves the next ones what the image has there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import pytest

import mapped_anew_calls as calls
import regrow

WAYS = {
    "heap given back": partial(calls.give_heap_back, takes_it_again=False),
    "heap taken again": partial(calls.give_heap_back, takes_it_again=True),
    "mapping replaced": calls.replace_mapping,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_was_mapped_anew_has_what_the_image_has(way: Callable[[], NoReturn]) -> None:
    creations = []
    with regrow.Executor(1, reuse="always", preload=["mapped_anew_calls"]) as executor:
        for _ in range(4):
            assert isinstance(executor.submit(way).exception(timeout=60), regrow.BrokenProcess)
            # Some bodies serve in turn: one of them is that of the call before.
            for _ in range(4):
                future = executor.submit(calls.lost_pages)
                assert future.result(timeout=60) == 0
                creations.append(str(future.creation))
    # While a body is put back, another one can be forked.
    assert creations.count("recycled at warm") >= len(creations) / 2, creations


def quick(executor: regrow.Executor, function: Callable[[], object], times: int) -> list[object]:
    """What so many calls of a function give, all of them in bodies."""
    futures = [executor.submit(function) for _ in range(times)]
    values = [future.result(timeout=60) for future in futures]
    assert all(str(future.creation).endswith(" at warm") for future in futures)
    return values


def test_what_a_quick_reset_passes_over_a_closer_one_puts_back() -> None:
    with regrow.Executor(1, reuse="always", preload=["mapped_anew_calls"]) as executor:
        executor.submit(calls.nothing).result(timeout=60)
        # Pages of a process's own, which nobody has written for some time.
        quick(executor, calls.write_mapping, 8)
        quick(executor, calls.nothing, 200)
        quick(executor, calls.free_mapping, 8)
        quick(executor, calls.drop_pages_of_file, 8)
        # One of 1,024 resets of a body looks at all of that, and bodies serve in turn, some of them seldom.
        looks = (calls.lost_pages_of_file, calls.lost_pages_when_memory_is_short, calls.lost_pages)
        for _ in range(60):
            quick(executor, calls.nothing, 500)
            found = [set(quick(executor, look, 20)) for look in looks]
            if found == [{0}] * 3:
                break
        assert found == [{0}] * 3
