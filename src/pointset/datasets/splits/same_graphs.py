"""Which of some graphs that look alike are the same, exactly (:class:`ExactComparison`).

Verbatim copies are found by their bytes and most different graphs by the colours of their pairs of nodes; for the rest
:mod:`pointset.points.matching` seeks a bijection of the nodes. Every "same" is a true isomorphism that keeps features
and weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pointset.datasets.splits.labelled_graphs import MOST_NODES, LabelledGraph, labelled_graphs
from pointset.points.graphs import Graph
from pointset.points.matching import match_by_components

_PATIENCE = 100  # vain searches for a bijection, in all; for strongly regular graphs one can take seconds


class Outcome(NamedTuple):
    """A partition of the graphs given, by their positions."""

    classes: list[list[int]]  # graphs of one class are the same
    undecided: list[int]  # graphs that could also be the same as one of another class: too large or hard to compare


class ExactComparison:
    """Sorts groups of graphs into classes; the patience for hard ones is shared by all groups."""

    def __init__(self) -> None:
        self.patience = _PATIENCE

    def classes(self, graphs: Sequence[Graph]) -> Outcome:
        """Graphs with features of one kind and shape → classes of the same."""
        outcome = Outcome([], [])
        first: list[LabelledGraph] = []  # of each class
        copies: dict[bytes, int] = {}  # bytes of a graph → its class
        candidates: dict[int | None, list[int]] = {}  # fingerprint → classes
        for position, graph in enumerate(labelled_graphs(graphs)):
            key = graph.key()
            if key not in copies:
                similar = candidates.setdefault(graph.fingerprint(), [])
                number, doubtful = self._search(graph, [(number, first[number]) for number in similar])
                if number is None:
                    number = len(first)
                    first.append(graph)
                    similar.append(number)
                    outcome.classes.append([])
                if doubtful:
                    outcome.undecided.append(position)
                copies[key] = number
            outcome.classes[copies[key]].append(position)
        return outcome

    def _search(self, graph: LabelledGraph, others: list[tuple[int, LabelledGraph]]) -> tuple[int | None, bool]:
        """The class that a graph belongs to, if any, and whether that was left undecided."""
        for number, other in others:
            if graph.num_nodes > MOST_NODES or not self.patience:
                return None, True
            if match_by_components(other.coloured(), graph.coloured()) is not None:
                return number, False
            self.patience -= 1
        return None, False
