"""2-FWL, the "folklore" test on pairs of nodes: as strong as 3-WL, the bound of PST's kin.

The multiset {{(h_ik, h_kj)}} is compared by its fingerprint

    F_ij = Σ_k g(h_ik) · f(h_kj)  mod p,        p = 2²² − 3, prime,

with g and f drawn at random for each colour: a product of two matrices, exact in float64. Equal multisets have equal
fingerprints. Different ones differ by a matrix D of counts, D ≠ 0 also mod p as n < p, and share a fingerprint only
where gᵀDf = 0 mod p: of probability at most 2/p (Schwartz–Zippel), with five independent draws under 10⁻³¹. Two graphs
of 200 nodes have under 4·10⁹ such comparisons, hence a chance of error under 10⁻²¹ in each round. The error would be to
join two classes: "different" is always right. The draws are seeded, so that the same input gives the same colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pointset.datasets.splits.labelled_graphs import LabelledGraph
from pointset.points.memory import check_fits
from pointset.studies.refinement.colours import (
    Colours,
    Refinement,
    coloured_graphs,
    num_classes,
    of_first,
    of_second,
    refine,
    split,
)
from pointset.studies.refinement.modular import DRAWS, PRIME, product

_SEED = 0x2F31


def refine_pairs(graphs: Sequence[Any], rounds: int | None = None) -> Refinement:
    """2-FWL: h_ij ← (h_ij, {{(h_ik, h_kj) : k}}), started from (i = j, A_ij, x_i, x_j); A_ij with edge features.

    n³ for each graph and round, by BLAS: two graphs of 200 nodes take about half a second.

    Args:
        graphs: anything :func:`pointset.to_points` takes; features of all graphs must have one shape.
        rounds: how many; None for as many as split a class.

    Returns:
        colours (n, n) of each graph.
    """
    read = coloured_graphs(graphs)
    num_pairs, largest = sum(graph.num_nodes**2 for graph in read), max((graph.num_nodes for graph in read), default=0)
    check_fits(
        48 * num_pairs + 48 * largest**2,
        f"2-FWL on {len(read)} graphs of up to {largest} nodes needs",
        "Use refine_nodes",
    )
    generator = np.random.default_rng(_SEED)

    def step(colours: Colours) -> Colours:
        after = colours
        for _ in range(DRAWS):
            left, right = generator.integers(PRIME, size=(2, num_classes(colours))).astype(np.float64)
            after = split(after, [product(left[one], right[one]).astype(np.int64) for one in colours])
        return after

    return refine(_start(read), step, rounds)


def _start(graphs: list[LabelledGraph]) -> Colours:
    """(n, n) for each graph: i = j, then A_ij, then x_i, then x_j."""
    colours: Colours = [np.eye(graph.num_nodes, dtype=np.int64) for graph in graphs]
    nodes = [graph.node_class for graph in graphs]
    for by in ([graph.edge_table() for graph in graphs], of_first(nodes), of_second(nodes)):
        colours = split(colours, by)
    return colours
