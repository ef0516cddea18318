"""Graphs that could be the same, found among hundreds of thousands by colour refinement (:func:`alike`).

Weisfeiler–Leman on all graphs at once, in flat arrays: a node's colour starts as a hash of its features, and in each
round becomes a hash of itself and of the multiset {(edge's colour, neighbour's colour)}. The multiset of a graph's
colours is the same for isomorphic graphs. A collision of 64-bit hashes could only make different graphs look alike,
which the exact comparison of :mod:`pointset.datasets.splits.same_graphs` sets right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]
_MOST_ROUNDS = 64  # a change travels one edge in a round; what more rounds would tell apart, the exact comparison does


@dataclass(frozen=True, eq=False)
class ColouredGraphs:
    """Many graphs with colours; each edge once, node numbers counted through all graphs."""

    members: Integers  # (G,) the number by which the caller knows each graph
    num_nodes: Integers  # (G,)
    num_edges: Integers  # (G,)
    edges: Integers  # (2, M)
    graph_colour: Hashes  # (G,) of what is not in nodes and edges
    node_colour: Hashes  # (N,)
    edge_colour: Hashes  # (M,)

    def take(self, kept: Integers) -> ColouredGraphs:
        """Some of the graphs."""
        nodes, edges = rows_of(self.num_nodes, kept), rows_of(self.num_edges, kept)
        shift = (np.cumsum(self.num_nodes) - self.num_nodes)[kept]
        counts = self.num_nodes[kept]
        moved = np.repeat(np.cumsum(counts) - counts - shift, self.num_edges[kept])
        return ColouredGraphs(
            members=self.members[kept],
            num_nodes=counts,
            num_edges=self.num_edges[kept],
            edges=self.edges[:, edges] + moved,
            graph_colour=self.graph_colour[kept],
            node_colour=self.node_colour[nodes],
            edge_colour=self.edge_colour[edges],
        )

    def refined(self) -> ColouredGraphs:
        """The same graphs after one round."""
        gathered = np.zeros_like(self.node_colour)
        for here, there in (self.edges, self.edges[::-1]):
            np.add.at(gathered, here, scrambled(self.node_colour[there] ^ self.edge_colour))
        colours = scrambled(self.node_colour + scrambled(gathered))
        return ColouredGraphs(**{**self.__dict__, "node_colour": colours})

    def fingerprints(self) -> Hashes:
        """(G,) equal for graphs with equal multisets of colours."""
        result = self.graph_colour.copy()
        for counts, colours in ((self.num_nodes, self.node_colour), (self.num_edges, self.edge_colour)):
            added = np.zeros_like(result)
            np.add.at(added, np.repeat(np.arange(len(counts)), counts), scrambled(colours))
            result = scrambled(result + scrambled(added ^ scrambled(counts.astype(np.uint64))))
        return result


def alike(graphs: ColouredGraphs) -> list[Integers]:
    """Groups of two or more graphs that colour refinement cannot tell apart, by their ``members``, in order."""
    colours = -1
    for _ in range(_MOST_ROUNDS):
        _, group, size = np.unique(graphs.fingerprints(), return_inverse=True, return_counts=True)
        kept = np.flatnonzero(size[group] > 1)
        if not len(kept):
            return []
        if len(kept) < len(graphs.members):
            graphs, colours = graphs.take(kept), -1
        before, colours = colours, len(np.unique(graphs.node_colour))
        if colours <= before:  # stable: a further round would change nothing
            break
        graphs = graphs.refined()
    return _groups(graphs)


def _groups(graphs: ColouredGraphs) -> list[Integers]:
    _, group, size = np.unique(graphs.fingerprints(), return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    parts = np.split(graphs.members[order], np.cumsum(size)[:-1])
    return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))


def scrambled(codes: Hashes) -> Hashes:
    """Splitmix64: 64-bit numbers to well-mixed ones, one to one."""
    mixed = codes * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Hashes = mixed ^ (mixed >> np.uint64(31))
    return result


def rows_of(counts: Integers, kept: Integers) -> Integers:
    """The rows of the kept graphs in a flat array that ``counts`` cuts."""
    start, chosen = (np.cumsum(counts) - counts)[kept], counts[kept]
    begin = np.cumsum(chosen) - chosen
    return np.repeat(start - begin, chosen) + np.arange(int(chosen.sum()))
