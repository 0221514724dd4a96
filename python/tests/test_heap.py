"""A process that gives back the end of the heap leaves the next one what the image has there."""

from __future__ import annotations

import pytest

import heap_calls as calls
import regrow


@pytest.mark.parametrize("takes_it_again", [False, True])
def test_the_end_of_the_heap_is_there_again(takes_it_again: bool) -> None:
    with regrow.Executor(1, reuse="always") as executor:
        for _ in range(8):
            assert executor.submit(calls.give_back, takes_it_again=takes_it_again).result() == 0
            # Of some bodies that wait, one is that of the call before.
            futures = [executor.submit(calls.is_whole) for _ in range(4)]
            assert [future.result() for future in futures] == [True] * 4
            assert all(str(future.creation).endswith(" at warm") for future in futures)
