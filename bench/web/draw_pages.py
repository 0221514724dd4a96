"""Draws figures 10 to 13 of Taniguchi, Yamauchi and Tamura (2020) from what `paper_figures.py` measured: `draw_pages.py PAGES
FOLDER`.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import drawing
import page_results
from page_results import POLICIES, Measured, held_at, median_of_each


def draw(folder: Path, measured: dict[str, Measured]) -> None:
    """The plots."""
    drawing.lines(
        folder / "pages-first-requests",
        "a page by a Perl script: the first requests after a start",
        ("request", "response time, ms"),
        {way: list(enumerate(median_of_each(one.first_ms), 1)) for way, one in measured.items()},
        logarithmic=True,
    )
    medians = {way: [statistics.median(one.parallel_ms), statistics.median(one.one_by_one_ms)] for way, one in measured.items()}
    drawing.bars(
        folder / "pages-total",
        "100 requests by ten clients, then 100 by one",
        "time for all, ms",
        ["10 × 10 requests", "100 requests one by one"],
        medians,
    )
    drawing.lines(
        folder / "pages-memory",
        "memory of the gateway's processes, kept and at work",
        ("seconds since the first request; circle: ten clients become one, square: the last reply", "MiB"),
        {way: measured[way].memory for way in POLICIES},
        # What recycles nothing takes many times longer, and looks the same all the time.
        right=max(measured[way].memory[-1][0] for way in POLICIES if way != "basic"),
        marks={way: [(at, held_at(measured[way], at)) for at in measured[way].marks] for way in POLICIES if way != "basic"},
    )
    drawing.bars(
        folder / "pages-static",
        "10 × 10 requests: a page by a script, and a page that is a file",
        "time for all, ms",
        ["(A) html + CGI", "(B) html"],
        {way: [statistics.median(one.parallel_ms), statistics.median(one.static_ms)] for way, one in measured.items()},
    )


def main() -> None:
    """Draws into a folder that is there."""
    measured, folder = sys.argv[1:]
    draw(Path(folder), page_results.read(Path(measured)))


if __name__ == "__main__":
    main()
