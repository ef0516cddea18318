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

_ROUNDS = (2, 4, None)  # most graphs are told apart by few, and the rounds until all is stable cost the most


def same_when_marked(graphs: Sequence[Any]) -> list[bool]:
    """For each graph after the first, whether it cannot be told from the first; n⁴ for each round.

    Args:
        graphs: anything :func:`pointset.to_points` takes, without node features.
    """
    every = [_each_node_marked(graph) for graph in graphs]
    same = [True] * (len(graphs) - 1)
    for rounds in _ROUNDS:
        left = [0, *(position + 1 for position, together in enumerate(same) if together)]
        if len(left) == 1:
            break
        refinement = refine_pairs([one for position in left for one in every[position]], rounds)
        begin, seen = 0, []
        for position in left:
            stop = begin + len(every[position])
            seen.append(Counter(tuple(refinement.histogram(index).items()) for index in range(begin, stop)))
            begin = stop
        for position, multiset in zip(left[1:], seen[1:], strict=True):
            same[position - 1] = multiset == seen[0]
        if refinement.stable:
            break
    return same


def _each_node_marked(graph: Any) -> list[Data]:
    """The graph n times, each time with another node marked."""
    return [marked(graph, node) for node in range(int(read_graph(graph).num_nodes[0]))]
