"""What a picture of several graphs is made of (:class:`Portrait`), on paper or in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.points.graphs import Graph
from pointset.reports.drawing.layout import Floats, place_nodes
from pointset.reports.drawing.node_colours import Colouring, coloured


class Portrait(NamedTuple):
    """One graph to be drawn, with what is written above it."""

    graph: Graph
    title: str
    caption: str = ""
    node_values: NDArray[Any] | None = None  # (n,) what colours the nodes: whole numbers are categories
    edge_values: NDArray[Any] | None = None  # (m,) whole numbers that make edges wider


class Legend(NamedTuple):
    """What colours of nodes and widths of edges mean."""

    nodes: str = ""
    edges: str = ""
    node_names: Mapping[int, str] | None = None  # of categories; by default their numbers
    edge_names: Mapping[int, str] | None = None


NO_LEGEND = Legend()
MOST_NODES = 1000  # of a graph that is drawn; beyond it is a blot


def ends_of(span: tuple[float, float]) -> tuple[str, str]:
    """The numbers at both ends of a scale of colours, as they are written beside it."""
    low, high = (f"{number:,.4g}".replace("-", "−") for number in span)
    return low, high


def positions_of(graph: Graph) -> Floats:
    """(n, 2) where the nodes are drawn; the same graph always gives the same picture."""
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    first, second = graph.edges[:, graph.edges[0] != graph.edges[1]]
    adjacency[first, second] = adjacency[second, first] = 1.0
    return place_nodes(adjacency)


def colouring_of(portraits: Sequence[Portrait], names: Mapping[int, str] | None) -> Colouring:
    """Colours of all nodes; where any graph has no values, every node has the same colour and there is no legend."""
    values = [portrait.node_values for portrait in portraits]
    given = [one for one in values if one is not None]
    if len(given) < len(values) or not given:
        plain = coloured([np.zeros(portrait.graph.num_nodes, dtype=np.int64) for portrait in portraits])
        return plain._replace(legend=[])
    return coloured(given, names)
