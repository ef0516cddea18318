"""The pictures of the results page, as SVG that is the same whenever it is drawn. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from pointset.reports.style import FAINT, HAIRLINE, INK, PAPER, QUIET

_COLOURS = (
    "#2274a5",
    "#e4572e",
    "#2a9d8f",
    "#d99a1f",
    "#9b5fc0",
    "#6d9a45",
    "#d46a9f",
    "#4a5563",
    "#7a4e2d",
    "#31348b",
)
_LOG_FROM = 20.0  # ratio of the largest to the smallest number from which a scale is logarithmic
_DECADES = 1e3  # up to this ratio there are ticks between the powers of ten
_NARROW = 8  # columns from which their names are slanted
_SPREAD = 0.6  # of the way to the next column: where the marks of one column stand
_TEXT = 10.5  # points


def draw_learning(content: Mapping[str, Any], digest: str) -> str:
    """A line for each run over the epochs; runs of one row share a colour."""
    figure, axes = _page(9.0, 4.2)
    for index, row in enumerate(content["rows"]):
        for number, curve in enumerate(row["curves"]):
            label = _plain(row["title"]) if number == 0 else None
            epochs, values = zip(*curve, strict=True)
            width = 1.8 if len(row["curves"]) == 1 else 1.1
            axes.plot(epochs, values, color=_colour(index), linewidth=width, label=label)
    every = [value for row in content["rows"] for curve in row["curves"] for _, value in curve]
    _scale(axes, every, content["low"])
    axes.set_xlabel("epoch", color=QUIET, fontsize=_TEXT)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    direction = "lower" if content["low"] else "higher"
    return _finished(figure, axes, f"{content['score']} ({direction} is better)", digest)


def draw_beside(content: Mapping[str, Any], digest: str) -> str:
    """For each column: ours as dots, what they repeat as rings, all rows of the paper as short lines behind."""
    columns, rows = content["columns"], content["rows"]
    figure, axes = _page(max(7.0, 0.75 * len(columns) + 2.5), 4.6)
    places = np.arange(len(columns))
    for index, row in enumerate(rows):
        _draw_pairs(axes, places + _SPREAD * ((index + 0.5) / len(rows) - 0.5), row, _colour(index))
    ring: dict[str, Any] = {
        "markerfacecolor": PAPER,
        "markeredgecolor": QUIET,
        "markeredgewidth": 1.6,
        "markersize": 6.5,
    }
    axes.add_line(Line2D([], [], marker="o", linestyle="", label="the paper's row that it repeats", **ring))
    label = "all rows of the paper"
    for other in content["others"]:
        style: dict[str, Any] = {"color": FAINT, "markersize": 22, "markeredgewidth": 1.2, "zorder": 1}
        axes.plot(places, _numbers(other), "_", label=label, **style)
        label = "_"  # a name that begins so stays out of the legend
    if content["bound"] is not None:
        label = f"counts: at most {content['bound']:g}"
        axes.axhline(content["bound"], color=QUIET, linewidth=1, linestyle=(0, (4, 4)), zorder=0, label=label)
    every = [value for one in [*content["others"], *(row["ours"] for row in rows)] for value in one]
    _scale(axes, [value for value in every if value is not None], content["low"])
    slant: dict[str, Any] = {"rotation": 35, "ha": "right"} if len(columns) > _NARROW else {}
    axes.set_xticks(places, [_plain(title) for title in columns], **slant)
    axes.set_xlim(-0.6, len(columns) - 0.4)
    unit = f"in {content['unit']}, " if content["unit"] else ""
    return _finished(figure, axes, f"{unit}{'lower' if content['low'] else 'higher'} is better", digest)


def _draw_pairs(axes: Axes, at: Any, row: Mapping[str, Any], colour: str) -> None:
    """Ours and what it repeats, joined by a line."""
    ours, printed = _numbers(row["ours"]), _numbers(row["printed"])
    axes.vlines(at, printed, ours, color=colour, linewidth=1.4, alpha=0.45, zorder=2)
    ring: dict[str, Any] = {"markerfacecolor": PAPER, "markeredgecolor": colour, "markeredgewidth": 1.6}
    axes.plot(at, printed, "o", markersize=6.5, zorder=3, **ring)
    axes.plot(at, ours, "o", color=colour, markersize=7.5, zorder=4, label=_plain(f"{row['title']}, measured here"))


DRAWINGS: dict[str, Callable[[Mapping[str, Any], str], str]] = {"learning": draw_learning, "beside": draw_beside}


def _page(wide: float, high: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(wide, high), facecolor=PAPER, layout="constrained")
    axes = figure.add_subplot(facecolor=PAPER)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _scale(axes: Axes, values: Sequence[float], low: bool) -> None:
    """Logarithmic where errors differ a lot, with numbers as people write them."""
    if low and min(values) > 0 and max(values) / min(values) > _LOG_FROM:
        axes.set_yscale("log")
        if max(values) / min(values) < _DECADES:
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
    axes.tick_params(which="both", length=0, labelsize=_TEXT, labelcolor=QUIET)


def _finished(figure: Figure, axes: Axes, above: str, digest: str) -> str:
    """The SVG without a date, with names of its parts and with a description that depend on the content alone."""
    axes.set_title(_plain(above), loc="left", color=QUIET, fontsize=_TEXT)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=_TEXT, labelcolor=INK)
    file = io.StringIO()
    metadata = {"Date": None, "Creator": "pointset results", "Description": f"content {digest}"}
    with mpl.rc_context({"svg.hashsalt": digest, "svg.fonttype": "path"}):
        figure.savefig(file, format="svg", metadata=metadata)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values])


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _plain(text: str) -> str:
    """Dollar signs are not mathematics, and an underscore at the beginning does not hide a label."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
