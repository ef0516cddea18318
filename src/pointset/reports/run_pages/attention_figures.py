"""Attention of an example graph: the graph, coloured by what one node attends to, and a matrix for each layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from pointset.reports.drawing.node_colours import SCALE
from pointset.reports.run_pages.axis import Floats
from pointset.reports.run_pages.figure import Figure
from pointset.reports.run_pages.forms import AttentionForm
from pointset.reports.run_pages.graph_drawing import MOST_NODES, draw_graph, label_colours, positions_of, smooth_order
from pointset.reports.run_pages.svg import add, drawing, finished, picture_of
from pointset.reports.run_pages.words import count, number

_COLOUR = SCALE[-1]
_SIZE, _MARGIN = 200.0, 14.0
_MOST_LAYERS, _MOST_PIXELS = 12, 128


def attention_figures(attention: AttentionForm) -> tuple[list[Figure], list[Figure], list[tuple[str, str]]]:
    """The graph as it is and as the node sees it, a matrix for each layer, and the legend of the labels."""
    graph, node = attention.graph, attention.node
    matrices = [np.nan_to_num(np.abs(np.asarray(layer, dtype=np.float64))) for layer in attention.layers]
    if not matrices or graph.num_nodes > MOST_NODES:
        return [], [], []
    positions = positions_of(graph)
    order = smooth_order(graph, positions)
    ((colours,), legend) = label_colours([graph])
    name = graph.name or "the example graph"
    plain = draw_graph(graph, colours, f"Drawing of {name}", positions=positions, ringed=node)
    row = np.mean([_scaled(matrix)[node] for matrix in matrices], axis=0)
    red = [_COLOUR] * graph.num_nodes
    text = f"{name}, coloured by the attention of node {node}"
    seen = draw_graph(graph, red, text, positions=positions, ringed=node, strengths=row)
    drawings = [
        Figure(plain, "The graph", f"{name}: {count(graph.num_nodes, 'node')}. Node {node} has a ring."),
        Figure(seen, f"What node {node} attends to", "The stronger the colour, the more, on average over the layers."),
    ]
    place = int(np.flatnonzero(order == node)[0])
    layers = [
        _matrix_figure(matrix[np.ix_(order, order)], index, place)
        for index, matrix in enumerate(matrices[:_MOST_LAYERS], start=1)
    ]
    return drawings, layers, legend


def _scaled(matrix: Floats) -> Floats:
    """Numbers 0…1 from the weakest to the strongest pair of nodes; the square root makes weak ones visible."""
    low, high = _range(matrix)
    return np.sqrt(np.clip((matrix - low) / ((high - low) or 1.0), 0.0, 1.0))


def _range(matrix: Floats) -> tuple[float, float]:
    """The weakest and the strongest attention of a node to another one."""
    pairs = matrix[~np.eye(len(matrix), dtype=np.bool_)]
    return (float(pairs.min()), float(pairs.max())) if len(pairs) else (0.0, 1.0)


def _matrix_figure(matrix: Floats, layer: int, place: int) -> Figure:
    n = len(matrix)
    root = drawing(_SIZE, _SIZE, f"Attention of layer {layer}, {n} by {n}", "matrix")
    inner = _SIZE - _MARGIN
    href = picture_of(_pooled(_scaled(matrix)), _COLOUR)
    add(root, "rect", x=_MARGIN, y=0.0, width=inner, height=inner, class_="matrix-back")
    size: dict[str, Any] = {"width": inner, "height": inner, "preserveAspectRatio": "none"}
    add(root, "image", x=_MARGIN, y=0.0, href=href, class_="pixels", **size)
    add(root, "rect", x=_MARGIN, y=0.0, width=inner, height=inner, class_="frame")
    middle = (place + 0.5) * inner / n
    add(root, "path", d=f"M3 {middle - 4:.1f}l8 4l-8 4z", class_="pointer")
    low, high = (number(end, 3) for end in _range(matrix))
    return Figure(finished(root), f"Layer {layer}", f"{low} to {high}")


def _pooled(matrix: Floats) -> Floats:
    """Not more than 128 rows: of larger matrices the strongest of each block."""
    starts = np.unique(np.linspace(0, len(matrix), min(len(matrix), _MOST_PIXELS), endpoint=False).astype(np.int64))
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(matrix, starts, axis=0), starts, axis=1))
