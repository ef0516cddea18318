"""Puts several graphs on one page, with one legend. Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pointset.reports.layout import Floats
from pointset.reports.palette import (
    MOST_NODES,
    Colouring,
    Legend,
    Portrait,
    as_hex,
    colouring_of,
    ends_of,
    positions_of,
    scale_colours,
)
from pointset.reports.panels import draw_nodes, marker_area
from pointset.reports.style import DPI, FAINT, INK, MANY_LINES, PAPER, QUIET
from pointset.text import clipped

# The legend under a gallery: colours of nodes, widths of edges. Needs matplotlib.


_LINE = 0.27  # inches, from one line of entries to the next
_TITLE = 0.45  # inches, for the title of a key and the space above it
_LETTER, _LINE_WIDTH, _DISC, _GAP = 0.095, 0.35, 0.2, 0.25  # inches: of a letter, a symbol, between entries
_MOST_WIDTHS = 8  # of edges that can be told apart


class Entry(NamedTuple):
    """A symbol and what it means, at a place in inches from the upper left corner of its key."""

    label: str
    symbol: dict[str, Any]
    symbol_width: float
    right: float
    below: float


class Key(NamedTuple):
    """One meaning: a title, and entries or a scale under it."""

    title: str
    entries: list[Entry]
    span: tuple[float, float] | None
    height: float  # inches


def keys_of(colouring: Colouring, widths: dict[int, float], legend: Legend, wide: float) -> list[Key]:
    """What is to be explained on a page with this many inches of width."""
    keys = []
    if colouring.span is not None and colouring.span[0] < colouring.span[1]:
        keys.append(Key(legend.nodes, [], colouring.span, _TITLE + _LINE))
    elif colouring.legend:
        keys.append(_key(legend.nodes, [(label, _disc(as_hex(colour))) for label, colour in colouring.legend], wide))
    if 1 < len(widths) <= _MOST_WIDTHS:
        names = legend.edge_names or {}
        lines = [
            (names.get(value, str(value)), {"color": FAINT, "linewidth": 1.6 * width})
            for value, width in widths.items()
        ]
        keys.append(_key(legend.edges, lines, wide))
    return keys


def draw_keys(figure: Figure, keys: Sequence[Key], margin: float) -> None:
    """Draw them one under the other, the last at the foot of the page."""
    wide, high = figure.get_size_inches()
    top = margin + sum(key.height for key in keys)
    for key in keys:
        title: dict[str, Any] = {"color": INK, "fontsize": 11.5, "parse_math": False}
        figure.text(margin / wide, (top - _TITLE + 0.1) / high, key.title, **title)
        if key.span is not None:
            _draw_scale(figure, key.span, margin, top - _TITLE - _LINE)
        for entry in key.entries:
            x, y = margin + entry.right, top - entry.below
            figure.add_artist(Line2D([x + 0.06, x + 0.25], [y, y], transform=figure.dpi_scale_trans, **entry.symbol))
            style: dict[str, Any] = {"color": QUIET, "fontsize": 11, "va": "center_baseline", "parse_math": False}
            figure.text((x + entry.symbol_width) / wide, y / high, entry.label, **style)
        top -= key.height


def _key(title: str, symbols: Sequence[tuple[str, dict[str, Any]]], wide: float) -> Key:
    """Entries from left to right, and on the next line where there is no room."""
    entries: list[Entry] = []
    right, below = 0.0, _TITLE + _LINE / 2
    for label, symbol in symbols:
        symbol_width = _DISC if "marker" in symbol else _LINE_WIDTH
        width = symbol_width + _LETTER * len(label) + _GAP
        if right and right + width > wide:
            right, below = 0.0, below + _LINE
        entries.append(Entry(label, symbol, symbol_width, right, below))
        right += width
    return Key(title, entries, None, below + _LINE / 2)


def _disc(colour: str) -> dict[str, Any]:
    return {"linestyle": "none", "marker": "o", "markersize": 8, "markevery": [0], "color": colour}


def _draw_scale(figure: Figure, span: tuple[float, float], left: float, bottom: float) -> None:
    wide, high = figure.get_size_inches()
    low, high_number = ends_of(span)
    start = left + _LETTER * len(low) + 0.1
    axes = figure.add_axes((start / wide, (bottom + 0.06) / high, 2.2 / wide, 0.14 / high))
    axes.imshow(scale_colours(np.linspace(0, 1, 256))[None], aspect="auto", extent=(0, 1, 0, 1))
    axes.set_axis_off()
    for x, side, text in ((-0.04, "right", low), (1.04, "left", high_number)):
        axes.text(x, 0.5, text, ha=side, va="center", color=QUIET, fontsize=11)


_PANEL, _LOWEST = 4.0, 1.2  # inches: the width of the space for a graph, and its least height
_MARGIN, _HEAD, _TITLE_GALLERY_PAGE = 0.45, 0.6, 0.7  # inches: around the page, above all graphs, above each
_LONGEST_LINE = 40  # characters above a graph
_SMALLER = 0.5  # markers of the one-graph picture would crowd this one
_AROUND = 1.15  # space around a graph, in terms of its size


def compose_gallery(portraits: Sequence[Portrait], heading: str, legend: Legend) -> Figure:
    """The whole page; its size follows the number of graphs and the height of each row."""
    columns = _columns(len(portraits))
    places = [positions_of(one.graph) if one.graph.num_nodes <= MOST_NODES else np.zeros((0, 2)) for one in portraits]
    heights = [max(map(_height, places[start : start + columns])) for start in range(0, len(places), columns)]
    colouring = colouring_of(portraits, legend.node_names)
    widths = _edge_widths(portraits)
    wide = 2 * _MARGIN + columns * _PANEL
    keys = keys_of(colouring, widths, legend, wide - 2 * _MARGIN)
    high = 2 * _MARGIN + _HEAD + sum(heights) + len(heights) * _TITLE_GALLERY_PAGE + sum(key.height for key in keys)
    figure = Figure(figsize=(wide, high), dpi=DPI, facecolor=PAPER)
    _write_heading(figure, heading)
    for index, portrait in enumerate(portraits):
        row, column = divmod(index, columns)
        left, top = _MARGIN + column * _PANEL, high - _MARGIN - _HEAD - sum(heights[:row]) - row * _TITLE_GALLERY_PAGE
        _write_title(figure, left, top, portrait)
        space = (left / wide, (top - _TITLE_GALLERY_PAGE - heights[row]) / high, _PANEL / wide, heights[row] / high)
        _draw(figure.add_axes(space), portrait, places[index], colouring.colours[index], widths)
    draw_keys(figure, keys, _MARGIN)
    return figure


def _columns(count: int) -> int:
    """Up to three in a row; then rows that are about as full as each other, on a page wider than high."""

    def badness(columns: int) -> float:
        rows = math.ceil(count / columns)
        return (rows * columns - count) / count + abs(math.log(columns / rows / 1.5))

    return count if count <= 3 else min(range(2, count + 1), key=badness)


def _height(positions: Floats) -> float:
    """Inches that a drawing needs where it is as wide as its space, or as high as that is wide."""
    half = _half(positions)
    return max(_PANEL * float(half[1] / half.max()), _LOWEST)


def _half(positions: Floats) -> Floats:
    """(2,) half the width and half the height of the space that a drawing takes, in edge lengths."""
    size = np.ptp(positions, axis=0) if len(positions) else np.zeros(2)
    least = np.array([1.2, 0.5])  # a single node is not as large as the page
    return np.asarray(np.maximum(_AROUND * size / 2, np.maximum(size / 2 + 0.25, least)))


def _write_heading(figure: Figure, heading: str) -> None:
    wide, high = figure.get_size_inches()
    text = " ".join(heading.split())
    fitting = (wide - 2 * _MARGIN) * 72 / (0.62 * max(len(text), 1))  # a bold letter is about 0.62 of its size wide
    style: dict[str, Any] = {"fontsize": min(22.0, fitting), "weight": "bold", "color": INK, "parse_math": False}
    figure.text(_MARGIN / wide, 1 - (_MARGIN + 0.3) / high, text, **style)


def _write_title(figure: Figure, left: float, top: float, portrait: Portrait) -> None:
    """Two lines at a place given in inches."""
    wide, high = figure.get_size_inches()
    for text, size, weight, colour, below in (
        (portrait.title, 13.5, "bold", INK, 0.25),
        (portrait.caption, 11.5, "normal", QUIET, 0.52),
    ):
        style: dict[str, Any] = {"fontsize": size, "weight": weight, "color": colour, "parse_math": False}
        figure.text(left / wide, (top - below) / high, clipped(text, _LONGEST_LINE), **style)


def _draw(axes: Axes, portrait: Portrait, positions: Floats, colours: Floats, widths: dict[int, float]) -> None:
    axes.set_axis_off()
    graph = portrait.graph
    if not len(positions):
        message = "no nodes" if not graph.num_nodes else f"{graph.num_nodes:,} nodes\nare too many to draw"
        axes.text(0.5, 0.5, message, color=QUIET, fontsize=13, ha="center", va="center", linespacing=1.5)
        return
    inches = _frame(axes, positions)
    area = marker_area(positions * inches * 72) * _SMALLER
    count = graph.edges.shape[1]
    base = float(np.clip(14 / np.sqrt(max(count, 1)), 0.4, 1.6))
    factors = np.ones(count) if portrait.edge_values is None else np.array([widths[v] for v in portrait.edge_values])
    thickness = np.minimum(base * factors, 0.7 * np.sqrt(area) * factors / max(widths.values(), default=1.0))
    lines = LineCollection(list(positions[graph.edges.T]), linewidths=thickness, colors=FAINT, zorder=1)
    lines.set_rasterized(count > MANY_LINES)
    axes.add_collection(lines)
    loops = positions[graph.edges[0][graph.edges[0] == graph.edges[1]]]
    ring: dict[str, Any] = {"facecolors": "none", "edgecolors": QUIET, "zorder": 2, "clip_on": False}
    axes.scatter(loops[:, 0], loops[:, 1], s=3.5 * area, **ring)
    draw_nodes(axes, positions, colours, np.full(len(positions), area))


def _frame(axes: Axes, positions: Floats) -> float:
    """Equal scales in both directions, the drawing in the middle; returns how many inches one unit is."""
    space = axes.get_window_extent()
    size = np.array([space.width, space.height]) / DPI
    middle = (positions.min(0) + positions.max(0)) / 2
    inches = float((size / (2 * _half(positions))).min())
    low, high = middle - size / (2 * inches), middle + size / (2 * inches)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return inches


def _edge_widths(portraits: Sequence[Portrait]) -> dict[int, float]:
    """How much wider than the thinnest an edge of each value is; the same in all graphs."""
    values = [portrait.edge_values for portrait in portraits if portrait.edge_values is not None]
    present = np.unique(np.concatenate(values)) if values else np.zeros(0, dtype=np.int64)
    return {int(value): float(width) for value, width in zip(present, np.linspace(1, 3.2, len(present)), strict=True)}
