"""Graphs on the page: nodes with their labels, or coloured by a strength (:func:`draw_graph`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from pointset.reports.drawing.layout import Floats, place_nodes, smooth_values
from pointset.reports.drawing.node_colours import SCALE, as_hex, coloured
from pointset.reports.run_pages.forms import GraphForm
from pointset.reports.run_pages.svg import Element, add, drawing, finished, short
from pointset.reports.run_pages.words import count

MOST_NODES = 300  # of a graph that is drawn; beyond it is a blot at this size
_WIDTH, _HEIGHT, _MARGIN = 300.0, 220.0, 16.0
_SMALLEST, _LARGEST, _LABELLED = 2.0, 11.0, 6.0  # radii of nodes, and from which on a label fits
_LONGEST_EDGE = 46.0  # units: two nodes do not fill the whole page
_LONGEST_LABEL = 3  # letters
_PLAIN = SCALE[1]


def label_colours(graphs: Sequence[GraphForm]) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """A colour for each node of each graph by its label, the same in all, and the legend (label, colour)."""
    labels = [graph.labels or [""] * graph.num_nodes for graph in graphs]
    names = sorted({label for one in labels for label in one})
    if names in ([], [""]):
        return [[_PLAIN] * graph.num_nodes for graph in graphs], []
    codes = [np.array([names.index(label) for label in one], dtype=np.int64) for one in labels]
    found = coloured(codes, dict(enumerate(names)))
    legend = [(label, as_hex(colour)) for label, colour in found.legend]
    return [[as_hex(colour) for colour in colours] for colours in found.colours], legend


def positions_of(graph: GraphForm) -> Floats:
    """(n, 2) in edge lengths; the same graph always gives the same picture."""
    return place_nodes(_adjacency(graph))


def smooth_order(graph: GraphForm, positions: Floats) -> NDArray[np.int64]:
    """(n,) the nodes in an order in which neighbours are near, so that blocks of a matrix can be seen."""
    return np.argsort(smooth_values(_adjacency(graph), positions), kind="stable")


def draw_graph(
    graph: GraphForm,
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
        message = "no nodes" if not graph.num_nodes else f"{count(graph.num_nodes, 'node')}: too many to draw"
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


def _draw_edges(root: Element, graph: GraphForm, places: Floats, radius: float) -> None:
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


def _adjacency(graph: GraphForm) -> Floats:
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
