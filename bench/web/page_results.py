"""What was measured of a web server's pages, in each way to get them: the shape of pages.json."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The policies of the gateway, and Linux as it is.
POLICIES = ("basic", "recycle", "pool", "adaptive")
CGID, FCGIWRAP = "Apache + mod_cgid", "nginx + fcgiwrap"
WAYS = (*POLICIES, CGID, FCGIWRAP)


@dataclass
class Measured:
    """What was measured of one way: a list for each repetition."""

    first_ms: list[list[float]] = field(default_factory=list)
    parallel_ms: list[float] = field(default_factory=list)
    one_by_one_ms: list[float] = field(default_factory=list)
    static_ms: list[float] = field(default_factory=list)
    page_faults: list[int] = field(default_factory=list)
    static_faults: list[int] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    # Seconds since the first request, and MiB; when ten clients became one, and when the last reply had come.
    memory: list[tuple[float, float]] = field(default_factory=list)
    marks: list[float] = field(default_factory=list)


def median_of_each(lists: list[list[float]]) -> list[float]:
    """The median of the first ones, of the second ones, and so on."""
    return [statistics.median(values) for values in zip(*lists)]


def held_at(measured: Measured, second: float) -> float:
    """MiB at a time: what was seen last."""
    return [mib for at, mib in measured.memory if at <= second][-1]


def write(path: Path, pages: dict[str, Measured]) -> None:
    """Writes what was measured."""
    plain: dict[str, Any] = {way: dataclasses.asdict(one) for way, one in pages.items()}
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, Measured]:
    """Reads a file of `write`, or the results in which it was kept."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    return {way: Measured(**one) for way, one in plain.get("figures", plain).items()}
