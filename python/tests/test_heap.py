"""A process that gives back the end of the heap leaves the next one what the image has there."""

from __future__ import annotations

import pytest

import heap_calls as calls
import regrow


@pytest.mark.parametrize("takes_it_again", [False, True])
def test_the_end_of_the_heap_is_there_again(takes_it_again: bool) -> None:
    with regrow.Executor(1, reuse="always") as executor:
        for _ in range(4):
            with pytest.raises(regrow.BrokenProcess):
                executor.submit(calls.give_back, takes_it_again=takes_it_again).result()
            # Some bodies serve in turn: one of them is that of the call before.
            for _ in range(4):
                future = executor.submit(calls.lost_pages)
                assert future.result() == 0
                assert str(future.creation).endswith("recycled at warm"), future.creation
