"""A process that gives back the end of the heap leaves the next one what the image has there."""

from __future__ import annotations

import pytest

import heap_calls as calls
import regrow


@pytest.mark.parametrize("takes_it_again", [False, True])
def test_the_end_of_the_heap_is_there_again(takes_it_again: bool) -> None:
    creations = []
    with regrow.Executor(1, reuse="always", preload=["heap_calls"]) as executor:
        for _ in range(4):
            died = executor.submit(calls.give_back, takes_it_again=takes_it_again)
            assert isinstance(died.exception(timeout=60), regrow.BrokenProcess)
            # Some bodies serve in turn: one of them is that of the call before.
            for _ in range(4):
                future = executor.submit(calls.lost_pages)
                assert future.result(timeout=60) == 0
                creations.append(str(future.creation))
    # While a body is put back, another one can be forked.
    assert creations.count("recycled at warm") >= len(creations) / 2, creations
