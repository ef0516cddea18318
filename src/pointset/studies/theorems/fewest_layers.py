"""How many layers counting needs at least: two places that L layers cannot tell apart, with different counts.

:func:`refine_points` gives the finest colours that L layers with any weights can give. If two places have one colour
and different counts, no such layers count. Searched: all small graphs, and the 4 × 4 rook's graph and Shrikhande's,
which 2-FWL takes for one, without a node or without two nodes that are not neighbours.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.counting.formulas import cycle_counts, path_matrix
from pointset.studies.families import rook, shrikhande
from pointset.studies.refinement.points import refine_points
from pointset.studies.theorems.small_graphs import LARGEST, adjacency_of, small_adjacencies

Array = NDArray[np.int64]
LAYERS = (1, 2)  # the numbers that are tried


@dataclass(frozen=True)
class Place:
    """A pair of nodes, or a node, of a graph, and what is counted there."""

    graph: int
    nodes: tuple[int, ...]
    count: int


def conflict(colours: Sequence[Array], counts: Sequence[Array]) -> tuple[Place, Place] | None:
    """Two places with one colour and different counts; of pairs (n, n) only those of different nodes."""
    where = [np.argwhere(~np.eye(len(one), dtype=bool) if one.ndim == 2 else np.ones(one.shape)) for one in colours]
    graph = np.repeat(np.arange(len(where)), [len(one) for one in where])
    places = [tuple(one.T) for one in where]
    colour = np.concatenate([one[at] for one, at in zip(colours, places, strict=True)])
    count = np.concatenate([one[at] for one, at in zip(counts, places, strict=True)])
    order = np.lexsort((count, colour))
    differs = (np.diff(colour[order]) == 0) & (np.diff(count[order]) != 0)
    if not differs.any():
        return None
    nodes = np.concatenate(where)
    first, second = (
        Place(int(graph[at]), tuple(nodes[at].tolist()), int(count[at]))
        for at in order[np.argmax(differs) : np.argmax(differs) + 2]
    )
    return first, second


class Searched(NamedTuple):
    """The graphs in which conflicts are looked for, with their numbers of paths and cycles."""

    graphs: list[Array]
    paths: dict[int, list[Array]]
    cycles: dict[int, list[Array]]


@functools.cache
def searched_graphs(max_nodes: int = LARGEST) -> Searched:
    """By size, so that each formula is worked out once for all graphs of a size."""
    graphs = [A.astype(np.int64) for A in small_adjacencies(max_nodes) if len(A)]
    for graph in (rook(4), shrikhande()):
        A = adjacency_of(graph).astype(np.int64)
        apart = [j for j in range(1, len(A)) if not A[0, j]]
        graphs += [np.delete(np.delete(A, nodes, 0), nodes, 1) for nodes in ([0], *([0, j] for j in apart))]
    graphs.sort(key=len)
    stacks = [np.stack(list(some)) for _, some in itertools.groupby(graphs, len)]
    paths = {k: [P for stack in stacks for P in (stack if k == 1 else path_matrix(stack, k))] for k in range(1, 7)}
    cycles = {k: [C for stack in stacks for C in cycle_counts(stack, k)] for k in range(3, 8)}
    return Searched(graphs, paths, cycles)


@functools.cache
def layers_needed(
    max_nodes: int = LARGEST, *, matrix: str = "adjacency", gate_after: bool = True, attend_after: bool = False
) -> Mapping[str, int]:
    """At least so many layers for P_k in the attention, C_k in the points' scalars, "diagonal C_k" in the attention.

    1 + the largest number tried for which there is a conflict.
    """
    graphs, paths, cycles = searched_graphs(max_nodes)
    needed = {f"P_{k}": 1 for k in paths} | {f"{where}C_{k}": 1 for where in ("", "diagonal ") for k in cycles}
    for layers in LAYERS:
        colours = refine_points(graphs, layers, matrix=matrix, gate_after=gate_after, attend_after=attend_after)
        pairs, nodes = colours.pairs.colours, colours.nodes.colours
        diagonals = [np.diagonal(one) for one in pairs]
        tried = [(f"P_{k}", pairs, counts) for k, counts in paths.items()]
        tried += [(f"C_{k}", nodes, counts) for k, counts in cycles.items()]
        tried += [(f"diagonal C_{k}", diagonals, counts) for k, counts in cycles.items()]
        needed |= {name: layers + 1 for name, some, counts in tried if conflict(some, counts)}
    return needed
