"""A process that maps memory of its image anew leaves the next one what the image has there."""

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
