"""The legend under a gallery: colours of nodes, widths of edges. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pointset.reports.drawing.node_colours import Colouring, as_hex, scale_colours
from pointset.reports.drawing.style import FAINT, INK, QUIET
from pointset.reports.portraits import Legend, ends_of

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
