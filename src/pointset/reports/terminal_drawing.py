"""Graphs drawn with characters, for the terminal (:func:`drawn_side_by_side`).

Edges are dots of braille letters, two by four in each cell, which are about square; nodes are coloured discs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.text import Text

from pointset.arrays import Floats, Integers
from pointset.reports.layout import MOST_NODES, NO_LEGEND, Legend, Portrait, colouring_of, positions_of, too_many
from pointset.reports.palette import SCALE, Colouring, as_hex
from pointset.text import number

_BLANK = 0x2800  # the braille letter without dots
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # row and column in the cell → its bit
_WIDEST, _NARROWEST, _GAP = 34, 22, 2  # cells, of a drawing and between two
_MOST_SIDE_BY_SIDE = 4
_CROWDED = 0.12  # nodes for each cell beyond which discs would hide the edges
_NODE, _EDGE_STYLE = "●", "dim"


def drawn_side_by_side(portraits: Sequence[Portrait], width: int, legend: Legend = NO_LEGEND) -> list[Text]:
    """Lines of text: as many of the graphs as fit into ``width`` cells, each under its title, and what colours mean."""
    shown = portraits[: min(_MOST_SIDE_BY_SIDE, max(1, (width + _GAP) // (_NARROWEST + _GAP)))]
    if not shown:
        return []
    columns = max(4, min(_WIDEST, (width + _GAP) // len(shown) - _GAP))
    colouring = colouring_of(shown, legend.node_names)
    blocks = [_block(portrait, colours, columns) for portrait, colours in zip(shown, colouring.colours, strict=True)]
    lines = [Text(" " * _GAP).join(row) for row in zip(*blocks, strict=True)]
    return [*lines, *_key(colouring, legend)]


def draw(portrait: Portrait, colours: Floats, columns: int, rows: int) -> list[Text]:
    """One graph as ``rows`` lines of ``columns`` cells; ``colours`` (n, 3) in 0…1."""
    graph = portrait.graph
    letters = np.full((rows, columns), " ")
    styles = np.full((rows, columns), "", dtype=object)
    if 0 < graph.num_nodes <= MOST_NODES:
        dots = _on_grid(positions_of(graph), columns, rows)
        crowded = graph.num_nodes > _CROWDED * columns * rows
        bits = _edge_bits(dots, graph.edges, columns, rows)
        letters[bits > 0] = [chr(_BLANK + bit) for bit in bits[bits > 0].tolist()]
        styles[bits > 0] = _EDGE_STYLE
        x, y = dots.T[0] // 2, dots.T[1] // 4
        styles[y, x] = [as_hex(colour) for colour in colours]
        if not crowded:
            letters[y, x] = _NODE
    else:
        message = too_many(graph.num_nodes).replace("\n", " ")
        letters[rows // 2, : len(message)] = list(message)[:columns]
    lines = zip(letters.tolist(), styles.tolist(), strict=True)
    return [Text.assemble(*zip(*line, strict=True)) for line in lines]


def _block(portrait: Portrait, colours: Floats, columns: int) -> list[Text]:
    """Title, caption and drawing, each line ``columns`` cells wide."""
    title, caption = Text(portrait.title, style="bold"), Text(portrait.caption, style="dim")
    for line in (title, caption):
        line.truncate(columns, overflow="ellipsis", pad=True)
    return [title, caption, *draw(portrait, colours, columns, columns * 2 // 5)]


def _on_grid(positions: Floats, columns: int, rows: int) -> Integers:
    """(n, 2) dots, x to the right and y down, as large as fits and in the middle."""
    room = np.array([2 * columns - 2, 4 * rows - 4])
    low, high = positions.min(0), positions.max(0)
    size = np.maximum(high - low, 1e-9)
    scale = float(min((room / size).min(), 12.0))  # two nodes and an edge do not fill the whole space
    centred = (positions - (low + high) / 2) * (scale, -scale)
    return np.asarray(np.rint(centred + np.array((columns - 0.5, 2 * rows - 0.5))), dtype=np.int64)


def _edge_bits(dots: Integers, edges: Integers, columns: int, rows: int) -> Integers:
    """(rows, columns) the dots of straight lines between the ends of edges, as bits of braille letters."""
    bits = np.zeros((rows, columns), dtype=np.int64)
    for start, end in zip(dots[edges[0]], dots[edges[1]], strict=True):
        steps = int(np.abs(end - start).max()) + 1
        x, y = np.rint(np.linspace(start, end, steps)).astype(np.int64).T
        np.bitwise_or.at(bits, (y // 4, x // 2), _DOTS[y % 4, x % 2])
    return bits


def _key(colouring: Colouring, legend: Legend) -> list[Text]:
    title = (f"{legend.nodes}  " if legend.nodes else "", "dim")
    if colouring.legend:
        entries = [part for label, colour in colouring.legend for part in ((_NODE, as_hex(colour)), f" {label}  ")]
        return [Text.assemble(title, *entries)]
    if colouring.span is not None and colouring.span[0] < colouring.span[1]:
        low, high = map(number, colouring.span)
        return [Text.assemble(title, f"{low} ", *((_NODE, colour) for colour in SCALE), f" {high}")]
    return []
