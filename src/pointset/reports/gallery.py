"""Several graphs on one page, with one legend (:func:`compose_gallery`). Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from pointset.arrays import Floats
from pointset.reports.canvas import DPI, MANY_LINES, MARGIN, Page, width_of
from pointset.reports.layout import MOST_NODES, Legend, Portrait, colouring_of, node_gap, positions_of, too_many
from pointset.reports.palette import FAINT, PAPER, QUIET, SCALE, Colouring, as_hex, colours_on
from pointset.text import clipped, number

_PANEL, _LOWEST = 4.0, 1.2  # inches: the width of the space for a graph, and its least height
_HEAD, _TITLES = 0.6, 0.7  # inches: above all graphs, above each
_LONGEST_LINE = 40  # characters above a graph
_SMALLER = 0.5  # markers of the one-graph picture would crowd this one
_AROUND = 1.15  # space around a graph, in terms of its size
LABELLED = 40  # nodes up to which each may carry its number
_SMALLEST, _LARGEST = 16.0, 360.0  # areas of markers


def compose_gallery(portraits: Sequence[Portrait], heading: str, legend: Legend) -> Figure:
    """The whole page; its size follows the number of graphs and the height of each row."""
    columns = _columns(len(portraits))
    places = [positions_of(one.graph) if one.graph.num_nodes <= MOST_NODES else np.zeros((0, 2)) for one in portraits]
    heights = [max(map(_height, places[start : start + columns])) for start in range(0, len(places), columns)]
    colouring = colouring_of(portraits, legend.node_names)
    widths = _edge_widths(portraits)
    keys = _keys(colouring, widths, legend, columns * _PANEL)
    foot = MARGIN + _HEAD + sum(heights) + len(heights) * _TITLES
    page = Page(2 * MARGIN + columns * _PANEL, foot + sum(key.height for key in keys) + MARGIN)
    title = " ".join(heading.split())
    fitting = 22.0 * columns * _PANEL / max(width_of(title, 22.0, bold=True), 1e-9)
    page.write(MARGIN, MARGIN + 0.05, title, min(22.0, fitting), weight="bold")
    for index, portrait in enumerate(portraits):
        row, column = divmod(index, columns)
        left, top = MARGIN + column * _PANEL, MARGIN + _HEAD + sum(heights[:row]) + row * _TITLES
        page.write(left, top + 0.11, clipped(portrait.title, _LONGEST_LINE), 13.5, weight="bold")
        page.write(left, top + 0.4, clipped(portrait.caption, _LONGEST_LINE), 11.5, QUIET)
        axes = page.axes(left, top + _TITLES, _PANEL, heights[row])
        _draw_graph(axes, portrait, places[index], colouring.colours[index], widths)
    for key in keys:
        _draw_key(page, key, foot)
        foot += key.height
    return page.figure


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


def _edge_widths(portraits: Sequence[Portrait]) -> dict[int, float]:
    """How much wider than the thinnest an edge of each value is; the same in all graphs."""
    values = [portrait.edge_values for portrait in portraits if portrait.edge_values is not None]
    present = np.unique(np.concatenate(values)) if values else np.zeros(0, dtype=np.int64)
    return {int(value): float(width) for value, width in zip(present, np.linspace(1, 3.2, len(present)), strict=True)}


def _draw_graph(axes: Axes, portrait: Portrait, positions: Floats, colours: Floats, widths: dict[int, float]) -> None:
    axes.set_axis_off()
    graph = portrait.graph
    if not len(positions):
        message = too_many(graph.num_nodes)
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
    draw_loops(axes, loops, 3.5 * area)
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


def draw_nodes(axes: Axes, positions: Floats, colours: Floats, areas: Floats) -> None:
    """Discs with a white rim, (n, 2) positions, (n, 3) colours, (n,) areas in square points."""
    rim = 1.2 if areas.max(initial=0.0) > 100 else 0.5
    style: dict[str, Any] = {"edgecolors": PAPER, "linewidths": rim, "zorder": 3, "clip_on": False}
    axes.scatter(positions[:, 0], positions[:, 1], s=areas, c=colours, **style)


def draw_loops(axes: Axes, positions: Floats, area: float) -> None:
    """Rings around the nodes that have an edge to themselves."""
    style: dict[str, Any] = {"facecolors": "none", "edgecolors": QUIET, "zorder": 2, "clip_on": False}
    axes.scatter(positions[:, 0], positions[:, 1], s=area, **style)


def marker_area(positions: Floats) -> float:
    """As large as neighbours leave room for, with positions in points."""
    share = 0.85 if len(positions) <= LABELLED else 0.65  # numbers need space, many nodes should let edges be seen
    return float(np.clip((share * node_gap(positions)) ** 2, _SMALLEST, _LARGEST))


_LINE = 0.27  # inches, from one line of entries to the next
_TITLE = 0.45  # inches, for the title of a key and the space above it
_LETTER, _LINE_SAMPLE, _DISC_SAMPLE, _GAP = 0.095, 0.35, 0.2, 0.25  # inches: of a letter, a symbol, between entries
_MOST_WIDTHS = 8  # of edges that can be distinguished


class _Key(NamedTuple):
    """What colours or widths mean: a title, and entries or a scale under it."""

    title: str
    height: float  # inches
    entries: list[tuple[str, dict[str, Any], float, float]]  # label, symbol, inches to the right and below the corner
    span: tuple[float, float] | None = None


def _keys(colouring: Colouring, widths: dict[int, float], legend: Legend, wide: float) -> list[_Key]:
    """What is to be explained on a page with this many inches of width."""
    keys = []
    if colouring.span is not None and colouring.span[0] < colouring.span[1]:
        keys.append(_Key(legend.nodes, _TITLE + _LINE, [], colouring.span))
    elif colouring.legend:
        discs = [(label, {"marker": "o", "markersize": 8, "color": as_hex(rgb)}) for label, rgb in colouring.legend]
        keys.append(_key(legend.nodes, discs, _DISC_SAMPLE, wide))
    if 1 < len(widths) <= _MOST_WIDTHS:
        names = legend.edge_names or {}
        lines = [
            (names.get(value, str(value)), {"color": FAINT, "linewidth": 1.6 * width})
            for value, width in widths.items()
        ]
        keys.append(_key(legend.edges, lines, _LINE_SAMPLE, wide))
    return keys


def _key(title: str, symbols: Sequence[tuple[str, dict[str, Any]]], sample: float, wide: float) -> _Key:
    """Entries from left to right, and on the next line where there is no room."""
    entries = []
    right, below = 0.0, _TITLE + _LINE / 2
    for label, symbol in symbols:
        width = sample + _LETTER * len(label) + _GAP
        if right and right + width > wide:
            right, below = 0.0, below + _LINE
        entries.append((label, symbol, right, below))
        right += width
    return _Key(title, below + _LINE / 2, entries)


def _draw_key(page: Page, key: _Key, top: float) -> None:
    page.write(MARGIN, top + _TITLE - 0.22, key.title)
    if key.span is not None:
        _draw_scale(page, key.span, top + _TITLE)
    if not key.entries:
        return
    axes = page.inches(MARGIN, top, page.wide - 2 * MARGIN, key.height)
    for label, symbol, right, below in key.entries:
        disc = "marker" in symbol
        axes.plot([right + 0.06] if disc else [right + 0.06, right + 0.25], [below] * (1 if disc else 2), **symbol)
        place = (right + (_DISC_SAMPLE if disc else _LINE_SAMPLE), below)
        axes.text(*place, label, color=QUIET, fontsize=11, va="center_baseline", parse_math=False)


def _draw_scale(page: Page, span: tuple[float, float], top: float) -> None:
    low, high = map(number, span)
    axes = page.axes(MARGIN + _LETTER * len(low) + 0.1, top + 0.07, 2.2, 0.14)
    axes.imshow(colours_on(SCALE, np.linspace(0, 1, 256))[None], aspect="auto", extent=(0, 1, 0, 1))
    axes.set_axis_off()
    for x, side, text in ((-0.04, "right", low), (1.04, "left", high)):
        axes.text(x, 0.5, text, ha=side, va="center", color=QUIET, fontsize=11)
