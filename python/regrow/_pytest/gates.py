"""Gates: where a process that is started ahead waits for its turn, ready to run its test.

    session    Gate() ──start of a process──> open_for(slot) ──end of the process──> used again, or close()
    process    wait_at(number) ──> slot

A gate is a pipe. What goes through it is the number of the slot that the process takes: which one is free is known by then
alone. A session that ends without opening a gate closes it, and the process that waits there ends without having run anything.
"""

from __future__ import annotations

import os
from typing import Optional

SLOT_BYTES = 4


class Gate:
    """A gate, in the session."""

    def __init__(self) -> None:
        self.theirs, self._mine = os.pipe()

    def open_for(self, slot: int) -> None:
        """Has the process that waits here, or is going to, take this slot."""
        os.write(self._mine, slot.to_bytes(SLOT_BYTES, "little"))

    def close(self) -> None:
        """Closes it for good."""
        os.close(self.theirs)
        os.close(self._mine)


def wait_at(number: int) -> Optional[int]:
    """Waits at the gate with this descriptor, in the process; gives its slot, None where it is not to run."""
    told = os.read(number, SLOT_BYTES)
    os.close(number)
    return int.from_bytes(told, "little") if told else None
