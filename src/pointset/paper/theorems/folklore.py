"""2-FWL: which distances it sees (Theorem 5.2, Lemmas A.4 and A.5), and that PST sees further (Theorem B.3).

K rounds distinguish distances up to 2^K, because a round squares what pairs know, as A^K A^K = A^2K; and no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from pointset.arrays import Array
from pointset.paper.families import cycle, two_cycles
from pointset.paper.refinement import Colours, flat, refine_pairs
from pointset.paper.theorems.random_models import Difference, difference, point_set_transformer
from pointset.paper.theorems.small_graphs import distances, small_graphs, whole_adjacency
from pointset.paper.theorems.statement import Finding, Statement, holds_if


def two_halves(nodes: int) -> nx.Graph[int]:
    """G_l of the paper: two cycles with ⌊l/2⌋ and ⌈l/2⌉ nodes; H_l is one cycle with l."""
    return nx.disjoint_union(cycle(nodes // 2), cycle(nodes - nodes // 2))


def varied_graphs(max_nodes: int, longest: int) -> list[nx.Graph[int]]:
    """All small graphs, one cycle and two of up to ``longest`` nodes, paths and random graphs of up to half as many."""
    cycles = [graph for n in range(8, longest + 1) for graph in (cycle(n), two_halves(n))]
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


def theorem_5_2_first(max_nodes: int = 7, longest: int = 40, most_rounds: int = 3, reach: int = 0) -> Finding:
    """First part: of pairs with distances ≤ 2^K (+ ``reach``), equal colours mean equal distances."""
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


def theorem_5_2_second(most_rounds: int = 4) -> Finding:
    """Second part: for L > 2^K, distances L + 1 > L on a long cycle have one colour."""
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
    matrices = [whole_adjacency(graph) for graph in graphs]
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


def taken_for_one(nodes: int, rounds: int) -> bool:
    """Whether ``rounds`` rounds of 2-FWL take H_l and G_l for one graph, l = ``nodes``."""
    return refine_pairs([cycle(nodes), two_halves(nodes)], rounds).same(0, 1)


def smallest_taken_for_one(most_rounds: int) -> list[int]:
    """For 1, 2, … rounds the smallest l from 6 (two triangles) on with H_l and G_l taken for one."""
    found, nodes = [], 6
    for rounds in range(1, most_rounds + 1):
        while not taken_for_one(nodes, rounds):  # what fewer rounds distinguish, more do
            nodes += 1
        found.append(nodes)
    return found


def finite_distances(graph: nx.Graph[int]) -> set[int]:
    """All finite distances of two nodes."""
    found = distances(graph)
    return set(np.unique(found[np.isfinite(found)]).astype(int).tolist())


@dataclass(frozen=True)
class Holds:
    """For which K = 1, 2, … the parts of Lemma A.5 hold, with l nodes for each K."""

    taken: list[int]  # K rounds take H_l and G_l for one
    in_two: list[int]  # G_l contains a distance 2^K + 1
    in_one: list[int]  # H_l does

    @classmethod
    def with_nodes(cls, sizes: Sequence[int]) -> Holds:
        """``sizes`` are l for K = 1, 2, …"""
        every = list(enumerate(sizes, start=1))
        return cls(
            [K for K, nodes in every if taken_for_one(nodes, K)],
            [K for K, nodes in every if 2**K + 1 in finite_distances(two_halves(nodes))],
            [K for K, nodes in every if 2**K + 1 in finite_distances(cycle(nodes))],
        )


def lemma_a_5(most_rounds: int = 5, extra_nodes: int = 0) -> Finding:
    """As printed with l_K = 4·2^K (+ ``extra_nodes``), and which l are right."""
    every = list(range(1, most_rounds + 1))
    printed = Holds.with_nodes([4 * 2**K + extra_nodes for K in every])
    smallest = smallest_taken_for_one(most_rounds)
    instead = Holds.with_nodes(smallest)
    rule = smallest == [4 * 2**K + 2 for K in every]
    why = ", i.e. 4·2^K + 2: in halves of 2^(K+1) + 1 nodes no node is opposite another"
    told = [K for K in every if K not in printed.taken]
    evidence = (
        f"K = 1 … {most_rounds}, l = 4·2^K{f' + {extra_nodes}' if extra_nodes else ''}: K rounds distinguish H_l (one "
        f"cycle of l nodes) and G_l (two of l/2) for {_listed(told)}. A distance 2^K + 1 is in G_l for "
        f"{_listed(printed.in_two)}, in H_l for {_listed(printed.in_one)}. The smallest l at which K rounds cannot "
        f"distinguish them are {', '.join(map(str, smallest))}{why if rule else ''}; there a distance 2^K + 1 is in "
        f"G_l for {_listed(instead.in_two)}, in H_l for {_listed(instead.in_one)}."
    )
    return holds_if(
        printed.taken == printed.in_two == every and not printed.in_one, evidence,
        taken_for_one_as_printed=len(printed.taken), smallest_is_4_times_2_to_the_K_plus_2=rule,
        with_these_the_one_cycle_has_the_distance=instead.in_one == every and not instead.in_two,
        **{f"smallest_nodes_{K}_rounds": nodes for K, nodes in zip(every, smallest, strict=True)},
    )  # fmt: skip


def _listed(rounds: list[int]) -> str:
    return f"K = {', '.join(map(str, rounds))}" if rounds else "no K"


def theorem_b_3(most_rounds: int = 4, preset: str = "pst") -> Finding:
    """K rounds of 2-FWL take C_2m and two C_m for one, m = 2^(K+1) + 1; one layer of PST does not."""
    found: list[Difference] = []
    together = 0
    for rounds in range(1, most_rounds + 1):
        half = 2 ** (rounds + 1) + 1
        together += taken_for_one(2 * half, rounds)
        found.append(difference(point_set_transformer(1, preset), cycle(2 * half), two_cycles(half)))
    evidence = (
        f"One cycle of 2m nodes and two of m = 2^(K+1) + 1: K rounds of 2-FWL cannot distinguish them for {together} "
        f"of {most_rounds} K; one layer of PST with random weights puts them apart by "
        f"{', '.join(f'{min(one.apart):.1e}' for one in found)} (K = 1 … {most_rounds}, the least of 3 draws, "
        f"relative), relabelled copies by at most {max(one.copies for one in found):.1e}."
    )
    return holds_if(
        together == most_rounds and all(one.separated for one in found), evidence,
        pairs=most_rounds, taken_for_one=together, smallest_difference=min(min(one.apart) for one in found),
        largest_difference_of_copies=max(one.copies for one in found),
    )  # fmt: skip


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 5.2, first part",
        "Pairs of nodes with spd < spd' ≤ 2^K have different colours after K rounds of 2-FWL.",
        theorem_5_2_first,
    ),
    Statement(
        "Theorem 5.2, second part",
        "For all L > 2^K there are pairs of nodes with spd > spd' ≥ L and the same colour after K rounds of 2-FWL.",
        theorem_5_2_second,
    ),
    Statement("Lemma A.4", "After t rounds of 2-FWL the colour of (i, j) knows (A^k)_ij for k = 0 … 2^t.", lemma_a_4),
    Statement(
        "Lemma A.5",
        "K rounds of 2-FWL cannot distinguish H_l, one cycle of l = 4·2^K nodes, from G_l, two of l/2; G_l contains a "
        "pair of nodes at distance 2^K + 1, H_l does not.",
        lemma_a_5,
    ),
    Statement(
        "Theorem B.3",
        "For all K > 0 there are graphs that one layer of PST distinguishes and K rounds of 2-FWL cannot.",
        theorem_b_3,
    ),
)
