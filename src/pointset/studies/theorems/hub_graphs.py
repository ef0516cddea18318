"""A centre joined to eight nodes that are alike: the pair with nine nodes in the proof of Theorem B.2.

The proof takes the pair from a figure of Zhang et al. (2023), which the paper does not show; its description fits a
centre joined to all nodes of one cycle of eight, and of two cycles of four. Whatever the figure shows, the proof needs
a centre and eight other nodes that refinement by distances cannot tell apart: they are then all joined to the centre,
and form a regular graph. All of these are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from pointset.studies.families.cycles import cycle, two_cycles
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems.dihedral_graphs import twelve_nodes
from pointset.studies.theorems.relations import GAP, graphormer_same, resistance_same, return_probabilities


def with_centre(rim: nx.Graph[int]) -> nx.Graph[int]:
    """One more node, joined to all."""
    graph = rim.copy()
    graph.add_edges_from((len(rim), node) for node in range(len(rim)))
    return graph


def regular_graphs_on_eight() -> list[nx.Graph[int]]:
    """All 22 (OEIS A005176): degrees 0 to 3, and their complements.

    The cubic ones are drawn at random: if one of the six did not come, it would show in the number.
    """
    threes: list[nx.Graph[int]] = []
    for seed in range(100):
        drawn = nx.random_regular_graph(3, 8, seed=seed)
        if not any(nx.is_isomorphic(drawn, known) for known in threes):
            threes.append(drawn)
    pairs = nx.disjoint_union_all([nx.path_graph(2)] * 4)
    twos = [cycle(8), nx.disjoint_union(cycle(3), cycle(5)), two_cycles(4)]
    sparse = [nx.empty_graph(8), pairs, *twos, *threes]
    return [*sparse, *(nx.complement(graph) for graph in sparse)]


@dataclass(frozen=True)
class Comparison:
    """What is seen of two graphs."""

    walks: float  # largest difference of return probabilities, as multisets at each number of steps
    graphormer: bool  # taken for one by distances and degrees
    resistance: bool  # taken for one by resistances

    @property
    def as_described(self) -> bool:
        """Equal RWSE, one graph to Graphormer, two to resistances."""
        return self.walks < GAP and self.graphormer and not self.resistance


def compared(first: nx.Graph[int], second: nx.Graph[int]) -> Comparison:
    """Two graphs with equally many nodes."""
    walks = [np.sort(return_probabilities(graph), axis=0) for graph in (first, second)]
    return Comparison(
        float(np.abs(walks[0] - walks[1]).max()), graphormer_same(first, second), resistance_same(first, second)
    )


def proof_of_b_2(rims: Sequence[nx.Graph[int]] | None = None) -> Finding:
    """Is there a pair as the proof describes it, around all regular graphs on eight nodes (or ``rims``)?"""
    rims = regular_graphs_on_eight() if rims is None else rims
    pairs = [
        compared(with_centre(one), with_centre(other))
        for one, other in itertools.combinations(rims, 2)
        if one.number_of_edges() == other.number_of_edges()
    ]
    described = sum(one.as_described for one in pairs)
    one, two = with_centre(cycle(8)), with_centre(two_cycles(4))
    wheel = compared(one, two)
    steps = [float(return_probabilities(graph)[0, 3]) for graph in (one, two)]
    larger = compared(*(with_centre(rim) for rim in twelve_nodes())).as_described
    alike = sum(pair.graphormer for pair in pairs)
    evidence = (
        "A centre joined to one cycle of eight and to two of four: Graphormer's refinement "
        f"{'cannot tell them apart' if wheel.graphormer else 'tells them apart'}, resistances "
        f"{'cannot either' if wheel.resistance else 'tell them apart'}, but RWSE differs by {wheel.walks:.3f} (a node "
        f"of the rim is back after 4 steps with probability {steps[0]:.4f}, {steps[1]:.4f}). Of the {len(rims)} "
        f"regular graphs on eight nodes, each joined to a centre, {len(pairs)} pairs have the same degree: Graphormer "
        f"cannot tell {alike} of them apart, and {described} are as described: RWSE differs by "
        f"{min(pair.walks for pair in pairs):.1g} or more. A centre joined to the twelve nodes of the graphs of "
        f"Theorem B.2 {'is' if larger else 'is not'} as described."
    )
    return holds_if(
        described > 0, evidence,
        rims=len(rims), pairs=len(pairs), taken_for_one_by_graphormer=alike,
        pairs_as_described=described, difference_of_return_probabilities=wheel.walks, larger_pair_as_described=larger,
    )  # fmt: skip


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem B.2, the pair in the proof",
        "Two graphs with nine nodes, a centre and eight nodes alike, have equal RWSE, and Graphormer and GPS "
        "cannot tell them apart, while resistances tell them apart.",
        proof_of_b_2,
    ),
)
