"""2-FWL on graphs with one node marked, each in turn: between 3-WL and 4-WL (:func:`same_when_marked`).

Two graphs cannot be told apart if the multisets over their nodes v of "what 2-FWL says of the graph with v marked"
agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch_geometric.data import Data

from pointset.points.inputs import read_graph
from pointset.studies.families.marks import marked
from pointset.studies.refinement.pairs import refine_pairs


def same_when_marked(graphs: Sequence[Any], rounds: int | None = None) -> list[bool]:
    """For each graph after the first, whether it cannot be told from the first; n⁴ for each graph and round.

    Args:
        graphs: anything :func:`pointset.to_points` takes, without node features.
        rounds: of 2-FWL; None for as many as split a class.
    """
    every = [_each_node_marked(graph) for graph in graphs]
    refinement = refine_pairs([one for copies in every for one in copies], rounds)
    seen, begin = [], 0
    for copies in every:
        stop = begin + len(copies)
        seen.append(Counter(tuple(refinement.histogram(index).items()) for index in range(begin, stop)))
        begin = stop
    return [multiset == seen[0] for multiset in seen[1:]]


def _each_node_marked(graph: Any) -> list[Data]:
    """The graph n times, each time with another node marked."""
    return [marked(graph, node) for node in range(int(read_graph(graph).num_nodes[0]))]
