"""A module that holds a file open, as libffi does its own: opened to be read, and not read."""

from __future__ import annotations

import os

NUMBER = os.open(__file__, os.O_RDONLY | os.O_CLOEXEC)
INHERITABLE = os.open(__file__, os.O_RDONLY)
os.set_inheritable(INHERITABLE, True)


def read_both(size: int) -> tuple[list[int], list[bytes], list[bool], int]:
    """The numbers, how each file goes on, whether a program that is executed has it, and what is opened next."""
    numbers = [NUMBER, INHERITABLE]
    following = os.open(__file__, os.O_RDONLY)
    os.close(following)
    return numbers, [os.read(number, size) for number in numbers], [os.get_inheritable(number) for number in numbers], following


def close_both() -> None:
    """Closes them, and opens others under their numbers."""
    for number in (NUMBER, INHERITABLE):
        other = os.open("/dev/null", os.O_RDONLY)
        os.dup2(other, number)
        os.close(other)
