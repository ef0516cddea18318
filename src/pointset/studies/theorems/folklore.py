"""2-FWL and distances: Theorem 5.2, Lemmas A.4 and A.5.

K rounds tell distances up to 2^K apart, because a round squares what pairs know, as A^K A^K = A^2K; and no further.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np

from pointset.studies.families.cycles import cycle
from pointset.studies.refinement.colours import Colours, flat
from pointset.studies.refinement.pairs import refine_pairs
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems import folklore_cycles
from pointset.studies.theorems.relations import Array, adjacency, distances
from pointset.studies.theorems.small_graphs import small_graphs


def varied_graphs(max_nodes: int, longest: int) -> list[nx.Graph[int]]:
    """All small graphs, one cycle and two of up to ``longest`` nodes, paths and random graphs of up to half as many."""
    cycles = [graph for n in range(8, longest + 1) for graph in (cycle(n), folklore_cycles.two_halves(n))]
    paths = [nx.path_graph(n) for n in range(8, longest // 2 + 1)]
    chance = [nx.gnp_random_graph(n, p, seed=n) for n in range(8, longest // 2 + 1) for p in (0.12, 0.2, 0.4)]
    return [*(graph for graph in small_graphs(max_nodes) if len(graph)), *cycles, *paths, *chance]


def undetermined(colours: Colours, values: Sequence[Array], chosen: Sequence[Array] | None = None) -> int:
    """How many colours occur with several values (among the entries ``chosen``): 0 where colours know the value."""
    every, value = flat(colours), np.concatenate([one.ravel() for one in values])
    if chosen is not None:
        kept = np.concatenate([one.ravel() for one in chosen])
        every, value = every[kept], value[kept]
    classes = np.unique(np.stack([every, np.nan_to_num(value, posinf=-1).astype(np.int64)]), axis=1)[0]
    return int((np.unique(classes, return_counts=True)[1] > 1).sum())


def told_apart(max_nodes: int = 7, longest: int = 40, most_rounds: int = 3, reach: int = 0) -> Finding:
    """Theorem 5.2, first part: of pairs with distances ≤ 2^K (+ ``reach``), equal colours mean equal distances."""
    graphs = varied_graphs(max_nodes, longest)
    spd = [distances(graph) for graph in graphs]
    mixed = further = 0
    numbers: dict[str, int] = {"graphs": len(graphs), "pairs": sum(one.size for one in spd)}
    for rounds in range(most_rounds + 1):
        colours, limit = refine_pairs(graphs, rounds).colours, 2**rounds + reach
        mixed += undetermined(colours, spd, [one <= limit for one in spd])
        further += undetermined(colours, [np.minimum(one, limit + 1) for one in spd])
        numbers[f"colours_after_{rounds}_rounds"] = len(np.unique(flat(colours)))
    evidence = (
        f"{numbers['pairs']:,} pairs of nodes of {len(graphs):,} graphs (all with up to {max_nodes} nodes, cycles, "
        f"paths, random ones), coloured together, K = 0 … {most_rounds}: {mixed} colours hold two distances of at "
        f"most 2^K{f' + {reach}' if reach else ''}; {further} hold one and a longer or infinite distance, which is "
        "more than is stated."
    )
    return holds_if(mixed == 0, evidence, mixed_colours=mixed, colours_with_longer_distances=further, **numbers)


def not_told_apart(most_rounds: int = 4) -> Finding:
    """Theorem 5.2, second part: for L > 2^K, distances L + 1 > L on a long cycle have one colour."""
    tried, missing, example = 0, [], ""
    for rounds in range(most_rounds + 1):
        reach = 2**rounds
        for length in sorted({reach + 1, reach + 2, 2 * reach + 1, 3 * reach}):
            n = 2 * (length + 1 + reach)
            colours = refine_pairs([cycle(n)], rounds).colours[0][0]  # of the pairs (0, j)
            tried += 1
            if colours[length] != colours[length + 1]:
                missing.append((rounds, length))
            example = (
                f"{rounds} rounds on the cycle of {n} nodes give distances {length} and {length + 1} the same colour"
            )
    evidence = (
        f"Found for {tried - len(missing)} of {tried} choices of K = 0 … {most_rounds} and L > 2^K: e.g. {example}."
    )
    return holds_if(not missing, evidence, choices=tried, not_found=len(missing))


def lemma_a_4(max_nodes: int = 7, longest: int = 40, most_rounds: int = 3, reach: int = 0) -> Finding:
    """Equal colours after t rounds mean equal (A^k)_ij for k ≤ 2^t (+ ``reach``); and beyond?"""
    graphs = varied_graphs(max_nodes, longest)
    matrices = [adjacency(graph) for graph in graphs]
    mixed, beyond = 0, []
    for rounds in range(most_rounds + 1):
        colours, limit = refine_pairs(graphs, rounds).colours, 2**rounds + reach
        for power in range(limit + 1):
            mixed += undetermined(colours, [np.linalg.matrix_power(A, power) for A in matrices])
        beyond.append(undetermined(colours, [np.linalg.matrix_power(A, limit + 1) for A in matrices]))
    evidence = (
        f"{len(graphs):,} graphs coloured together, t = 0 … {most_rounds}: {mixed} colours hold two values of (A^k)_ij "
        f"for a k ≤ 2^t{f' + {reach}' if reach else ''}; at k = 2^t + {1 + reach} there are "
        f"{', '.join(map(str, beyond))} such colours (t = {', '.join(map(str, range(most_rounds + 1)))})"
        f'{", so the bound is sharp" if min(beyond) else ""}. ("f can be expressed by g" is defined with f and g '
        "interchanged; what is meant, and holds, is g(H) = g(G) ⇒ f(H) = f(G).)"
    )
    return holds_if(mixed == 0, evidence, graphs=len(graphs), mixed_colours=mixed, colours_mixed_beyond=min(beyond))


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 5.2, first part",
        "Pairs of nodes with spd < spd' ≤ 2^K have different colours after K rounds of 2-FWL.",
        told_apart,
    ),
    Statement(
        "Theorem 5.2, second part",
        "For all L > 2^K there are pairs of nodes with spd > spd' ≥ L and the same colour after K rounds of 2-FWL.",
        not_told_apart,
    ),
    Statement("Lemma A.4", "After t rounds of 2-FWL the colour of (i, j) knows (A^k)_ij for k = 0 … 2^t.", lemma_a_4),
    *folklore_cycles.LEMMA,
)
