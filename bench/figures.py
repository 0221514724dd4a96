"""The figures of a benchmark: what was measured, beside what is asked of it.

A benchmark writes a JSON list of figures, each with the keys of `Figure`: the shape that `regrow bench` has for its own.
What was measured is a number in `unit`. `asked` is null where nothing is asked, and `holds` with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Optional, TypedDict


class Figure(TypedDict):
    """A figure."""

    name: str
    measured: float
    asked: Optional[float]
    unit: str
    holds: Optional[bool]


def figure(name: str, measured: float, asked: Optional[float], unit: str, at_most: bool = False) -> Figure:
    """Makes a figure. It holds when it is at least what is asked, or with `at_most` at most that."""
    holds = None if asked is None else measured <= asked if at_most else measured >= asked
    return {"name": name, "measured": round(measured, 2), "asked": asked, "unit": unit, "holds": holds}


def show(one: Figure) -> None:
    """Prints a figure as a line of a table."""
    asked = "" if one["asked"] is None else f"{one['asked']:g}"
    holds = {None: "", True: "yes", False: "no"}[one["holds"]]
    print(f"{one['name']:<78} {one['measured']:>10} {one['unit']:<6} {asked:>6} {holds}", flush=True)


def write(path: Path, figures: Iterable[Figure]) -> None:
    """Writes figures as JSON."""
    path.write_text(json.dumps(list(figures), indent=2) + "\n", encoding="utf-8")
