"""The graphs that were predicted worst, drawn with what was true and what was predicted (:func:`worst_graphs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from pointset.reports.charts import Element, Figure, Floats, add, drawing, finished, picture_of, short
from pointset.reports.layout import place_nodes, smooth_values
from pointset.reports.palette import SCALE, as_hex, coloured
from pointset.runs.records import Attention, ExampleGraph, TargetValue, WorstGraph
from pointset.runs.result import RunResult
from pointset.text import clipped, counted, number

# Graphs on the page: nodes with their labels, or coloured by a strength (:func:`draw_graph`).


MOST_NODES = 300  # of a graph that is drawn; beyond it is a blot at this size
_WIDTH, _HEIGHT, _MARGIN = 300.0, 220.0, 16.0
_SMALLEST, _LARGEST, _LABELLED = 2.0, 11.0, 6.0  # radii of nodes, and from which on a label fits
_LONGEST_EDGE = 46.0  # units: two nodes do not fill the whole page
_LONGEST_LABEL = 3  # letters
_PLAIN = SCALE[1]


def label_colours(graphs: Sequence[ExampleGraph]) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """A colour for each node of each graph by its label, the same in all, and the legend (label, colour)."""
    labels = [graph.labels or [""] * graph.num_nodes for graph in graphs]
    names = sorted({label for one in labels for label in one})
    if names in ([], [""]):
        return [[_PLAIN] * graph.num_nodes for graph in graphs], []
    codes = [np.array([names.index(label) for label in one], dtype=np.int64) for one in labels]
    found = coloured(codes, dict(enumerate(names)))
    legend = [(label, as_hex(colour)) for label, colour in found.legend]
    return [[as_hex(colour) for colour in colours] for colours in found.colours], legend


def positions_of(graph: ExampleGraph) -> Floats:
    """(n, 2) in edge lengths; the same graph always gives the same picture."""
    return place_nodes(_adjacency(graph))


def smooth_order(graph: ExampleGraph, positions: Floats) -> NDArray[np.int64]:
    """(n,) the nodes in an order in which neighbours are near, so that blocks of a matrix can be seen."""
    return np.argsort(smooth_values(_adjacency(graph), positions), kind="stable")


def draw_graph(
    graph: ExampleGraph,
    colours: Sequence[str],
    description: str,
    *,
    strengths: Floats | None = None,
    ringed: int | None = None,
    positions: Floats | None = None,
) -> str:
    """A graph as a drawing for the page.

    Args:
        graph: with or without labels.
        colours: of each node.
        description: for those who do not see it.
        strengths: (n,) 0…1, how much of its colour a node has; by default all.
        ringed: a node that is marked.
        positions: (n, 2), by default computed.
    """
    root = drawing(_WIDTH, _HEIGHT, description, "graph")
    if not 0 < graph.num_nodes <= MOST_NODES:
        message = "no nodes" if not graph.num_nodes else f"{counted(graph.num_nodes, 'node')}: too many to draw"
        add(root, "text", message, x=_WIDTH / 2, y=_HEIGHT / 2, text_anchor="middle", class_="label")
        return finished(root)
    places = _on_page(positions_of(graph) if positions is None else positions)
    radius = _radius(places)
    _draw_edges(root, graph, places, radius)
    for node, place in enumerate(places.tolist()):
        strength = None if strengths is None else float(strengths[node])
        _draw_node(root, place, radius, colours[node], strength, ringed == node)
        if graph.labels is not None and radius >= _LABELLED:
            dark = strength is not None and strength < 0.6
            _write_label(root, place, radius, graph.labels[node], "on-weak" if dark else _legible(colours[node]))
    return finished(root)


def _draw_edges(root: Element, graph: ExampleGraph, places: Floats, radius: float) -> None:
    """Lines, and rings for self-loops."""
    lines = "".join(
        f"M{short(places[a, 0])} {short(places[a, 1])}L{short(places[b, 0])} {short(places[b, 1])}"
        for a, b in graph.edges
        if a != b
    )
    add(root, "path", d=lines, class_="edges", stroke_width=float(np.clip(radius / 4, 0.7, 1.8)))
    for node in sorted({a for a, b in graph.edges if a == b}):
        add(root, "circle", cx=places[node, 0], cy=places[node, 1], r=radius * 1.7, class_="loop")


def _draw_node(
    root: Element, place: list[float], radius: float, colour: str, strength: float | None, ring: bool
) -> None:
    x, y = place
    if strength is None:
        add(root, "circle", cx=x, cy=y, r=radius, fill=colour, class_="node")
    else:
        add(root, "circle", cx=x, cy=y, r=radius, class_="node-back")
        add(root, "circle", cx=x, cy=y, r=radius, fill=colour, fill_opacity=f"{strength:.2f}")
    if ring:
        add(root, "circle", cx=x, cy=y, r=radius + 3.5, class_="node-ring")


def _write_label(root: Element, place: list[float], radius: float, label: str, style: str) -> None:
    text = label.partition(" ")[0][:_LONGEST_LABEL]
    size = short(radius * (1.1 if len(text) == 1 else 0.95 if len(text) == 2 else 0.75))
    x, y = place
    add(root, "text", text, x=x, y=y + radius * 0.38, text_anchor="middle", font_size=size, class_=f"element {style}")


def _adjacency(graph: ExampleGraph) -> Floats:
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    for a, b in graph.edges:
        if a != b:
            adjacency[a, b] = adjacency[b, a] = 1.0
    return adjacency


def _on_page(positions: Floats) -> Floats:
    """(n, 2) units, x to the right and y down, as large as fits and in the middle."""
    low, high = positions.min(0), positions.max(0)
    room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    scale = float(min((room / np.maximum(high - low, 1e-9)).min(), _LONGEST_EDGE))
    return np.asarray((positions - (low + high) / 2) * (scale, -scale) + (_WIDTH / 2, _HEIGHT / 2))


def _radius(places: Floats) -> float:
    if len(places) < 2:
        return _LARGEST
    nearest, _ = KDTree(places).query(places, k=[2])  # the first is the node itself
    return float(np.clip(0.38 * np.quantile(nearest, 0.2), _SMALLEST, _LARGEST))


def _legible(colour: str) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return "on-dark" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.62 else "on-light"


_MOST_GRAPHS, _MOST_VALUES = 12, 3
_LONGEST_SMILES = 90


class Portrait(NamedTuple):
    """A graph on the page; ``svg`` is markup, everything else is plain text."""

    svg: str
    name: str
    facts: str
    values: list[tuple[str, str, str]]  # target, true, predicted
    left_out: int  # values that are not shown
    smiles: str


def worst_graphs(worst: Sequence[WorstGraph]) -> tuple[list[Portrait], list[tuple[str, str]]]:
    """The portraits, and what the colours of nodes mean: (label, colour)."""
    shown = list(worst[:_MOST_GRAPHS])
    colours, legend = label_colours([one.graph for one in shown])
    return [_portrait(one, colour) for one, colour in zip(shown, colours, strict=True)], legend


def error_words(result: RunResult | None) -> str:
    """What the error of a graph is."""
    text = "The graphs of the test split that were predicted worst."
    if result is None:
        return text
    if result.is_regression:
        text += (
            " Their error is the mean distance to the truth, in standard deviations of the target where it is scaled."
        )
    else:
        text += " Their error is the probability that was given to wrong answers."
    return text + (" Values are those of the worst node." if result.level == "node" else "")


def _portrait(one: WorstGraph, colours: list[str]) -> Portrait:
    graph = one.graph
    name = graph.name or (f"graph {one.position}" if one.position is not None else "graph")
    size = f"{counted(graph.num_nodes, 'node')}, {counted(len(graph.edges), 'edge')}"
    error = "" if one.error is None else f"error {number(one.error, 3)}"
    values = sorted(one.values, key=_difference, reverse=True)[:_MOST_VALUES]
    return Portrait(
        svg=draw_graph(graph, colours, f"Drawing of {name}: {size}"),
        name=clipped(name, 60),
        facts=", ".join(filter(None, (error, size))),
        values=[(value.target, _text(value.true), _text(value.predicted)) for value in values],
        left_out=len(one.values) - len(values),
        smiles=clipped(graph.smiles or "", _LONGEST_SMILES),
    )


def _difference(value: TargetValue) -> float:
    if isinstance(value.true, float) and isinstance(value.predicted, float):
        difference = abs(value.true - value.predicted)
        return difference if difference == difference else -1.0  # NaN comes last
    return 0.0


def _text(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value)


# Attention of an example graph: the graph, coloured by what one node attends to, and a matrix for each layer.


_COLOUR = SCALE[-1]
_SIZE, _MARGIN_ATTENTION_FIGURES = 200.0, 14.0
_MOST_LAYERS, _MOST_PIXELS = 12, 128


def attention_figures(attention: Attention) -> tuple[list[Figure], list[Figure], list[tuple[str, str]]]:
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
        Figure(plain, "The graph", f"{name}: {counted(graph.num_nodes, 'node')}. Node {node} has a ring."),
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
    inner = _SIZE - _MARGIN_ATTENTION_FIGURES
    href = picture_of(_pooled(_scaled(matrix)), _COLOUR)
    add(root, "rect", x=_MARGIN_ATTENTION_FIGURES, y=0.0, width=inner, height=inner, class_="matrix-back")
    size: dict[str, Any] = {"width": inner, "height": inner, "preserveAspectRatio": "none"}
    add(root, "image", x=_MARGIN_ATTENTION_FIGURES, y=0.0, href=href, class_="pixels", **size)
    add(root, "rect", x=_MARGIN_ATTENTION_FIGURES, y=0.0, width=inner, height=inner, class_="frame")
    middle = (place + 0.5) * inner / n
    add(root, "path", d=f"M3 {middle - 4:.1f}l8 4l-8 4z", class_="pointer")
    low, high = (number(end, 3) for end in _range(matrix))
    return Figure(finished(root), f"Layer {layer}", f"{low} to {high}")


def _pooled(matrix: Floats) -> Floats:
    """Not more than 128 rows: of larger matrices the strongest of each block."""
    starts = np.unique(np.linspace(0, len(matrix), min(len(matrix), _MOST_PIXELS), endpoint=False).astype(np.int64))
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(matrix, starts, axis=0), starts, axis=1))
