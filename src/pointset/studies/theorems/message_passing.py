"""Message passing and distances: Theorem 5.3 and Lemma A.3."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np

from pointset.studies.families.cycles import cycle
from pointset.studies.refinement.colours import flat
from pointset.studies.refinement.nodes import refine_nodes
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems.folklore_cycles import two_halves
from pointset.studies.theorems.random_models import SAME, difference, gin
from pointset.studies.theorems.relations import distances

SIZES = range(6, 21)  # below 6 one of the halves is no cycle


def theorem_5_3(sizes: range = SIZES, second: Callable[[int], nx.Graph[int]] = two_halves) -> Finding:
    """1-WL and a GIN with random weights take H_l and G_l for one; their distances differ."""
    taken, other_distances, furthest = [], [], 0.0
    for size in sizes:
        one, two = cycle(size), second(size)
        if refine_nodes([one, two]).same(0, 1):
            taken.append(size)
        if not np.array_equal(np.sort(distances(one), axis=None), np.sort(distances(two), axis=None)):
            other_distances.append(size)
        furthest = max(furthest, *difference(gin(5), one, two).apart)
    pairs = [size for size in taken if size in other_distances]
    evidence = (
        f"One cycle of l nodes and two of l/2 (rounded down and up), l = {sizes.start} … {sizes.stop - 1}: 1-WL, run "
        f"until stable, cannot tell {len(taken)} of {len(sizes)} pairs apart; GIN (PyG, 5 layers, random weights, "
        f"float64) differs by at most {furthest:.1g}; the multisets of distances differ in {len(other_distances)}."
    )
    return holds_if(
        bool(pairs) and furthest < SAME, evidence,
        pairs=len(pairs), largest_difference_of_gin=furthest, smallest_nodes=min(pairs, default=0),
    )  # fmt: skip


def lemma_a_3(
    sizes: range = SIZES, second: Callable[[int], nx.Graph[int]] = two_halves, most_rounds: int = 6
) -> Finding:
    """All nodes of all H_l and G_l have one colour after any number of rounds."""
    graphs = [graph for size in sizes for graph in (cycle(size), second(size))]
    colours = [len(np.unique(flat(refine_nodes(graphs, rounds).colours))) for rounds in range(most_rounds + 1)]
    stable = refine_nodes(graphs)
    evidence = (
        f"The {sum(map(len, graphs))} nodes of H_l and G_l, l = {sizes.start} … {sizes.stop - 1}, have {max(colours)} "
        f"colour in k = 0 … {most_rounds} rounds of 1-WL, and no class splits after round {stable.rounds}: so for all "
        "k. l is 6 or more, as smaller halves are no cycles."
    )
    return holds_if(
        max(colours) == 1 and stable.rounds == 0, evidence, nodes=sum(map(len, graphs)), colours=max(colours)
    )


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 5.3",
        "There are two graphs that message passing cannot tell apart, though their sets of distances differ.",
        theorem_5_3,
    ),
    Statement(
        "Lemma A.3",
        "All nodes of H_l, one cycle of l nodes, and G_l, two of l/2, have the same representation in an MPNN with any "
        "number of layers.",
        lemma_a_3,
    ),
)
