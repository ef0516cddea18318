"""1-WL, "colour refinement": the most that message passing can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pointset.datasets.splits.labelled_graphs import LabelledGraph
from pointset.studies.refinement.colours import Colours, Refinement, coloured_graphs, refine


def refine_nodes(graphs: Sequence[Any], rounds: int | None = None) -> Refinement:
    """1-WL: h_i ← (h_i, {{(e_ij, h_j) : j a neighbour of i}}), started from the node features x_i.

    e_ij is the edge's features and weight. Colours are numbers of sorted tuples: exact, no hash.

    Args:
        graphs: anything :func:`pointset.to_points` takes; features of all graphs must have one shape.
        rounds: how many; None for as many as split a class.

    Returns:
        colours (n,) of each graph.
    """
    read = coloured_graphs(graphs)
    neighbours = [_neighbours(graph) for graph in read]

    def step(colours: Colours) -> Colours:
        return _numbered(
            [
                [(int(own[i]), *sorted((edge, int(own[j])) for edge, j in near)) for i, near in enumerate(lists)]
                for own, lists in zip(colours, neighbours, strict=True)
            ]
        )

    return refine([graph.node_class for graph in read], step, rounds)


def _neighbours(graph: LabelledGraph) -> list[list[tuple[int, int]]]:
    """(edge's class, neighbour) of each node; a node with a loop is its own neighbour, once."""
    lists: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes)]
    for u, v, edge in zip(*graph.edges.tolist(), graph.edge_class.tolist(), strict=True):
        lists[u].append((edge, v))
        if u != v:
            lists[v].append((edge, u))
    return lists


def _numbered(keys: list[list[tuple[Any, ...]]]) -> Colours:
    """Numbers 0…C−1 in the order of the keys, equal for equal keys in all graphs."""
    number = {key: position for position, key in enumerate(sorted({key for graph in keys for key in graph}))}
    return [np.array([number[key] for key in graph], dtype=np.int64) for graph in keys]
