"""Pictures on paper: a page measured in inches from its upper left corner, with text, charts, bars, coloured cells.

Needs matplotlib. The charts are those of :mod:`pointset.reports.charts`, in the same colours as on a page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import NullLocator

from pointset.reports.charts import Chart, Part
from pointset.reports.palette import (
    DOT_SIZE,
    ERRORS,
    FAINT,
    HAIRLINE,
    INK,
    LINE_WIDTH,
    PAPER,
    QUIET,
    RING_SIZE,
    RING_WIDTH,
    SERIES,
    SHARES,
    WALLS,
    as_hex,
    colours_on,
    is_dark,
    rgb,
)

DPI = 100
MANY_LINES = 4000  # edges from which vector formats get them as pixels, so that the file stays small
MARGIN = 0.45  # inches around the page
HEAD = 1.15  # inches from the upper edge to what stands below the heading
HEADING, TEXT, SMALL, TINY = 22.0, 11.5, 10.5, 9.0  # points
_POINTS = 72.0  # in an inch
_MEASURED = 100.0  # points: the size at which letters are measured
_FRACTION = 2.0**16  # FreeType gives widths in these parts of a pixel
_ASCENT = 0.76  # how high a letter is, in terms of its size
_HINTED = 1.045  # small letters take whole pixels, and so a little more

Place = tuple[float, float, float, float]  # left, top, width and height in inches


class Page:
    """What is written and drawn at places in inches, measured from the upper left corner."""

    def __init__(self, wide: float, high: float):
        self.wide, self.high = wide, high
        self.figure = Figure(figsize=(wide, high), dpi=DPI, facecolor=PAPER)

    def write(self, left: float, top: float, text: str, size: float = TEXT, color: str = INK, **style: Any) -> Text:
        """A line whose highest letters reach up to ``top``; dollar signs are not mathematics."""
        style = dict[str, Any](va="baseline", parse_math=False) | style
        baseline = top + (_ASCENT * size / _POINTS if style["va"] == "baseline" else 0.0)
        return self.figure.text(left / self.wide, 1 - baseline / self.high, text, fontsize=size, color=color, **style)

    def head(self, heading: str, below: str) -> None:
        """The heading of the page and a line under it, smaller where the page is narrow."""
        space = self.wide - 2 * MARGIN
        size = min(HEADING, HEADING * space / max(width_of(heading, HEADING, bold=True), 1e-9))
        self.write(MARGIN, 0.38, heading, size, weight="bold")
        self.write(MARGIN, 0.75, below, min(13.0, 13.0 * space / max(width_of(below, 13.0), 1e-9)), QUIET)

    def box(self, left: float, top: float, wide: float, high: float, color: str, **style: Any) -> None:
        """A filled rectangle."""
        style = dict[str, Any](linewidth=0.0, facecolor=color, zorder=-1) | style
        corner = (left / self.wide, 1 - (top + high) / self.high)
        size = (wide / self.wide, high / self.high)
        self.figure.add_artist(Rectangle(corner, *size, transform=self.figure.transFigure, **style))

    def axes(self, left: float, top: float, wide: float, high: float) -> Axes:
        """Axes in a rectangle."""
        corner = (left / self.wide, 1 - (top + high) / self.high)
        return self.figure.add_axes((*corner, wide / self.wide, high / self.high))

    def inches(self, left: float, top: float, wide: float, high: float) -> Axes:
        """The same without any lines; places in it are inches from its upper left corner."""
        axes = self.axes(left, top, wide, high)
        axes.set(xlim=(0, wide), ylim=(high, 0))
        axes.set_axis_off()
        return axes

    def names(self, names: Sequence[str], left: float, top: float, wide: float, row: float, **style: Any) -> None:
        """One for each row of a table, clipped to the width."""
        for index, name in enumerate(names):
            text = broken(name, wide, TEXT, 1, bold="weight" in style)[0]
            self.write(left, top + (index + 0.5) * row, text, va="center_baseline", **style)


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Inches that a line of text takes."""
    return _HINTED * size * sum(_letter_width(letter, bold) for letter in text)


def widest_of(texts: Sequence[str], size: float, least: float, most: float, *, bold: bool = False) -> float:
    """Inches for a column of texts, within bounds."""
    return min(max([width_of(text, size, bold=bold) for text in texts] + [least]), most)


@lru_cache(maxsize=4096)
def _letter_width(letter: str, bold: bool) -> float:
    """Inches for each point of size. Letters are measured once each: matplotlib takes long to measure whole lines."""
    font = get_font(findfont(FontProperties(weight="bold" if bold else "normal")))
    font.set_size(_MEASURED, _POINTS)  # a point is a pixel
    return font.load_char(ord(letter)).linearHoriAdvance / _FRACTION / _MEASURED / _POINTS


def broken(text: str, space: float, size: float, most: int, *, bold: bool = False) -> list[str]:
    """At most ``most`` lines that fit into ``space`` inches; an ellipsis stands for what does not."""
    fits: Callable[[str], bool] = lambda line: width_of(line, size, bold=bold) <= space  # noqa: E731
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if fits(longer) or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    shown = lines[:most]
    if len(lines) > most:
        shown[-1] += " …"
    return [line if fits(line) else _cut(line, fits) for line in shown]


def _cut(line: str, fits: Callable[[str], bool]) -> str:
    """As many words of a line as fit, or letters of its only word, with an ellipsis."""
    line = line.removesuffix(" …")
    while len(line) > 1 and not fits(f"{line} …"):
        line = line.rpartition(" ")[0] if " " in line else line[:-1]
    return f"{line} …"


_SLANTED = 8  # names on an axis from which they are slanted
_SAMPLE, _ENTRY = 0.35, 0.3  # inches: of a legend's sample with the space behind it, from entry to entry
_AFTER = 0.3  # inches between the entries of a row


def draw_chart(page: Page, chart: Chart, place: Place) -> Axes:
    """Draw a chart; ``place`` is the space between its axes, outside of which labels and ticks stand."""
    axes = page.axes(*place)
    for scale, axis in ((axes.set_xscale, chart.x), (axes.set_yscale, chart.y)):
        if axis.log:
            scale("log")
    axes.set(xlim=(chart.x.low, chart.x.high), ylim=(chart.y.low, chart.y.high))
    slanted: dict[str, Any] = {"rotation": 35, "ha": "right"} if len(chart.x.names) > _SLANTED else {}
    for ticks, axis, style in ((axes.xaxis, chart.x, slanted), (axes.yaxis, chart.y, {})):
        values, texts = zip(*axis.ticks(), strict=True)
        ticks.set_ticks(values, texts, parse_math=False, **style)
        ticks.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(length=0, pad=6, labelsize=SMALL, labelcolor=QUIET)
    axes.set_xlabel(chart.x.label, fontsize=SMALL, color=QUIET, parse_math=False)
    if chart.y.label:
        page.write(place[0] - _ticks_width(chart), place[1] - 0.3, chart.y.label, SMALL, QUIET)
    for index, part in enumerate(chart.parts):
        _draw_part(axes, part, 2 + index / 100)
    return axes


def draw_legend(page: Page, chart: Chart, left: float, top: float, *, in_a_row: bool = False) -> None:
    """A sample and the label of each line and kind of dots, one below the other or in a row."""
    axes = page.inches(left, top, page.wide - left, page.high - top)
    x, y = 0.0, 0.1
    for label, style, kind in chart.legend:
        draw_sample(axes, x, y, style, kind)
        axes.text(x + _SAMPLE, y, label, color=INK, fontsize=SMALL, va="center_baseline", parse_math=False)
        x, y = (x + _SAMPLE + width_of(label, SMALL) + _AFTER, y) if in_a_row else (x, y + _ENTRY)


def draw_sample(axes: Axes, x: float, y: float, style: str, kind: str = "line") -> None:
    """What stands for a line or for dots in a legend: a quarter of an inch from ``x`` on."""
    if kind in ("line", "spans"):
        axes.plot([x, x + 0.25], [y, y], **_line_style(style.split()))
    else:
        axes.scatter(x + 0.125, y, **_dot_style(style.split()))


def compose_chart(chart: Chart, wide: float, high: float) -> Figure:
    """A page with nothing but a chart of this size in inches, and its legend at the right."""
    left, top = 0.2 + _ticks_width(chart), 0.45 if chart.y.label else 0.15
    slanted = len(chart.x.names) > _SLANTED
    names = 0.35 + 0.6 * max(width_of(name, SMALL) for name in chart.x.names) if slanted else 0.0
    right = 0.55 + _SAMPLE + max((width_of(label, SMALL) for label, _, _ in chart.legend), default=0.0)
    page = Page(left + wide + right, top + high + max(names, 0.65))
    draw_chart(page, chart, (left, top, wide, high))
    draw_legend(page, chart, left + wide + 0.3, top)
    return page.figure


def _ticks_width(chart: Chart) -> float:
    return 0.1 + max(width_of(text, SMALL) for _, text in chart.y.ticks())


def _colour(looks: Sequence[str]) -> str:
    return next((SERIES[int(look[1:])] for look in looks if look[0] == "c" and look[1:].isdigit()), QUIET)


def _line_style(looks: Sequence[str]) -> dict[str, Any]:
    dashes = {"reference": (0, (4, 4)), "dashed": (0, (5, 2)), "dotted": (0, (1.5, 1.5))}
    return {
        "color": _colour(looks),
        "linewidth": LINE_WIDTH * (0.6 if {"thin", "reference"} & set(looks) else 0.9),
        "linestyle": next((dashes[look] for look in looks if look in dashes), "-"),
        "alpha": 0.22 if "faded" in looks else 0.45 if "pale" in looks else 1.0,
    }


def _dot_style(looks: Sequence[str]) -> dict[str, Any]:
    colour, size = _colour(looks), (DOT_SIZE * (1.9 if "large" in looks else 1.2)) ** 2
    if "cross" in looks:
        return {"s": size, "c": colour, "marker": "x", "linewidths": 1.6}
    if "hollow" in looks:
        return {"s": size, "c": PAPER, "edgecolors": colour, "linewidths": 1.4}
    return {"s": size, "c": colour, "edgecolors": PAPER, "linewidths": 0.6, "alpha": 0.4 if "faint" in looks else 1.0}


def _draw_part(axes: Axes, part: Part, order: float) -> None:
    style: dict[str, Any]
    match part.kind:
        case "line":
            axes.plot(part.x, part.y, zorder=order, **_line_style(part.looks))
        case "dots":
            axes.scatter(part.x, part.y, zorder=order, clip_on=False, **_dot_style(part.looks))
        case "spans":
            line = _line_style(part.looks)
            style = {"colors": line["color"], "linewidth": line["linewidth"], "alpha": line["alpha"]}
            axes.vlines(part.x, part.y[0], part.y[1], zorder=order, **style)
        case "bars":
            style = {"color": _colour(part.looks), "alpha": 0.75, "edgecolor": PAPER, "linewidth": 0.8}
            axes.bar(part.x[:-1], part.y, np.diff(part.x), align="edge", zorder=order, **style)
        case "density":
            pixels = np.broadcast_to((*rgb(part.text), 1.0), (*part.y.shape, 4)).copy()
            pixels[..., 3] = part.y
            space = (*axes.get_xlim(), *axes.get_ylim())
            axes.imshow(pixels, extent=space, origin="lower", aspect="auto", zorder=order)
        case "rug":
            style = {"colors": QUIET, "linewidth": 0.8, "alpha": 0.45}
            axes.vlines(part.x, 0, 0.03, transform=axes.get_xaxis_transform(), zorder=order, **style)
        case "ring":
            _draw_ring(axes, part, order)


def _draw_ring(axes: Axes, part: Part, order: float) -> None:
    colour = _colour(part.looks)
    style: dict[str, Any] = {"facecolors": PAPER, "edgecolors": colour, "linewidths": 0.8 * RING_WIDTH}
    axes.scatter(part.x, part.y, s=RING_SIZE**2, zorder=order + 1, clip_on=False, **style)
    if part.text:
        place = (float(part.x[0]), float(part.y[0]))
        across, up = axes.transAxes.inverted().transform(axes.transData.transform(place))
        offset = (8 if across < 0.5 else -8, 12 if up < 0.5 else -18)
        style = {"textcoords": "offset points", "ha": "left" if across < 0.5 else "right", "weight": "bold"}
        style |= {"fontsize": SMALL, "color": INK, "parse_math": False, "zorder": order + 1}
        axes.annotate(part.text, place, offset, path_effects=[withStroke(linewidth=3, foreground=PAPER)], **style)


_BAR, _BETWEEN = 0.57, 0.03  # of a row; inches between cells


def draw_bar(page: Page, left: float, middle: float, row: float, length: float, colour: str, **style: Any) -> None:
    """A bar in a row of this height around ``middle``; its length is in inches."""
    page.box(left, middle - _BAR * row / 2, length, _BAR * row, colour, **style)


def draw_cell(page: Page, place: Place, colour: str, number: str, below: str = "") -> None:
    """A number, bold, and a smaller line under it, on a coloured ground."""
    left, top, wide, high = place
    page.box(left, top, wide - _BETWEEN, high - _BETWEEN, colour)
    middle = left + (wide - _BETWEEN) / 2
    ink = PAPER if is_dark(colour) else INK
    height = (TEXT + (1.5 * TINY if below else 0)) / _POINTS
    first = top + (high - _BETWEEN - height) / 2
    page.write(middle, first + 0.01, number, color=ink, weight="bold", ha="center")
    if below:
        page.write(middle, first + (TEXT + 0.5 * TINY) / _POINTS, below, TINY, ink, ha="center")


def share_colour(share: float | None) -> str:
    """Of a number between 0 and 1; below 0 is as 0."""
    return WALLS[2] if share is None else as_hex(colours_on(SHARES, share))


def error_colour(error: float | None, bound: float) -> str:
    """On a logarithmic scale: green below the bound, red above, the farthest at a hundredth and at hundredfold."""
    return WALLS[2] if error is None else as_hex(colours_on(ERRORS, 0.5 + math.log10(max(error, 1e-300) / bound) / 4))
