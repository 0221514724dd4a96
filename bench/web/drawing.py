"""Plots in the look of those that `regrow replay --plot` draws, each as SVG and as PNG."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLORS = ("#777777", "#3366cc", "#118877", "#dd8822", "#cc2244", "#773399")
# 960 by 600 points, at 100 to the inch.
SIZE, DPI = (9.6, 6.0), 100

Points = Sequence[tuple[float, float]]


def _library() -> Any:
    """matplotlib, told to draw into files, with letters as letters."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    settings = {"svg.fonttype": "none", "svg.hashsalt": "regrow", "font.family": "sans-serif", "font.size": 9.5}
    matplotlib.rcParams.update(settings)
    return importlib.import_module("matplotlib.pyplot")


def _save(figure: Any, path: Path, pyplot: Any) -> None:
    """Writes a plot to both files; the same figures give the same files."""
    figure.savefig(path.with_suffix(".svg"), dpi=DPI, metadata={"Date": None, "Creator": None})
    figure.savefig(path.with_suffix(".png"), dpi=DPI, metadata={"Software": None})
    pyplot.close(figure)
    # The library leaves blanks at the ends of lines.
    svg = path.with_suffix(".svg")
    svg.write_text("\n".join(line.rstrip() for line in svg.read_text().splitlines()) + "\n")


def _dress(axes: Any) -> None:
    """Grid and frame."""
    axes.grid(True, color="black", alpha=0.2, linewidth=1)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def lines(
    path: Path,
    title: str,
    names: tuple[str, str],
    series: Mapping[str, Points],
    *,
    logarithmic: bool = False,
    right: float | None = None,
    marks: Mapping[str, Points] | None = None,
) -> None:
    """Draws a line for each series, up to `right` where that is given. Marks are a circle, then a square on the line."""
    pyplot = _library()
    figure, axes = pyplot.subplots(figsize=SIZE, layout="constrained")
    dots = max(map(len, series.values())) <= 40
    for color, (name, points) in zip(COLORS, series.items()):
        xs, ys = zip(*points)
        axes.plot(xs, ys, color=color, linewidth=2, marker="o" if dots else None, markersize=5, label=name)
        for (x, y), shape in zip((marks or {}).get(name, ()), "os"):
            axes.plot([x], [y], color=color, marker=shape, markersize=9, markeredgecolor="black")
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_ylim(bottom=0)
    if right is not None:
        axes.set_xlim(min(x for points in series.values() for x, _ in points), right)
    if dots:
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(title, fontsize=13)
    axes.set_xlabel(names[0], fontsize=11)
    axes.set_ylabel(names[1], fontsize=11)
    _dress(axes)
    figure.legend(loc="outside lower center", ncols=len(series), frameon=False)
    _save(figure, path, pyplot)


def bars(path: Path, title: str, unit: str, groups: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    """Draws a panel for each group, with a bar for each series and its figure above it."""
    pyplot = _library()
    figure, panels = pyplot.subplots(1, len(groups), figsize=SIZE, layout="constrained")
    for number, (axes, group) in enumerate(zip(panels, groups)):
        values = [figures[number] for figures in series.values()]
        drawn = axes.bar(range(len(values)), values, color=COLORS[: len(values)])
        axes.bar_label(drawn, [f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in values], padding=3)
        axes.set_xticks(range(len(values)), [name.replace(" + ", " +\n") for name in series])
        axes.tick_params(axis="x", labelsize=8.5)
        axes.set_ylim(0, max(values) * 1.08)
        axes.set_title(group, fontsize=11)
        axes.set_ylabel(unit if number == 0 else "", fontsize=11)
        _dress(axes)
        axes.grid(False, axis="x")
    figure.suptitle(title, fontsize=13)
    _save(figure, path, pyplot)
