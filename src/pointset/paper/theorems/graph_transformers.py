"""PST against graph transformers: Theorem B.2 with the steps of its proof, Figure 2 and Theorem C.1."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Flags, Integers
from pointset.paper.families import cycle, two_cycles
from pointset.paper.refinement import refine_pairs
from pointset.paper.theorems.random_models import (
    GAP,
    SAME,
    SEEDS,
    SEPARATED,
    NodeModel,
    difference,
    gin,
    gps,
    gps_same,
    graphormer_same,
    point_set_transformer,
    resistance_same,
)
from pointset.paper.theorems.small_graphs import LARGEST, distances, return_probabilities, small_graphs, whole_adjacency
from pointset.paper.theorems.statement import Finding, Statement, holds_if
from pointset.points.encodings import adjacency_power

Pair = tuple["nx.Graph[int]", "nx.Graph[int]"]
DEPTHS = (1, 2, 3)
PRESETS = ("pst", "pst-normadj")


def dihedral_graph(half: int, turns: Iterable[int], links: Iterable[int]) -> nx.Graph[int]:
    """The Cayley graph of the dihedral group of order 2m, m = ``half``, nodes 0 … 2m − 1.

    Node i is joined to i ± t and node m + i to m + (i ± t) for each turn t, node i to m + (i + l) for each link l, all
    modulo m within each half. All nodes of such a graph are alike, so return probabilities say no more than the
    spectrum does, and with diameter 2 distances say no more than edges do.
    """
    graph: nx.Graph[int] = nx.empty_graph(2 * half)
    for i, turn in itertools.product(range(half), turns):
        graph.add_edge(i, (i + turn) % half)
        graph.add_edge(half + i, half + (i + turn) % half)
    graph.add_edges_from((i, half + (i + link) % half) for i, link in itertools.product(range(half), links))
    return graph


def twelve_nodes() -> Pair:
    """The smallest pair that :func:`search` finds, and the only one with twelve nodes, up to complements.

    Both are 5-regular with diameter 2. The second is also the circulant graph on twelve nodes with steps 1, 3 and 6.
    """
    return dihedral_graph(6, (1,), (0, 1, 3)), dihedral_graph(6, (3,), (0, 1, 2, 3))


def search(half: int) -> Iterator[Pair]:
    """Different dihedral graphs with 2·``half`` nodes that Graphormer and GPS with RWSE both take for one.

    Of a graph and its complement the sparser is tried.
    """
    groups: dict[tuple[int, ...], list[nx.Graph[int]]] = {}
    for turns, links in itertools.product(_subsets(range(1, half // 2 + 1)), _subsets(range(half))):
        graph = dihedral_graph(half, turns, links)
        A = whole_adjacency(graph)
        if 2 * A[0].sum() > 2 * half - 1:
            continue
        # All nodes are alike, so closed walks from one of them are the return probabilities of all, in whole numbers.
        known = groups.setdefault(tuple(int(np.linalg.matrix_power(A, k)[0, 0]) for k in range(2, 2 * half)), [])
        if any(nx.faster_could_be_isomorphic(graph, other) and nx.is_isomorphic(graph, other) for other in known):
            continue
        yield from ((other, graph) for other in known if gps_same(other, graph) and graphormer_same(other, graph))
        known.append(graph)


def _subsets(numbers: range) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(numbers, size) for size in range(len(numbers) + 1))


def theorem_b_2(pair: Pair | None = None) -> Finding:
    """Strictness, on a pair that both transformers take for one at any depth and PST separates at every depth tried."""
    first, second = twelve_nodes() if pair is None else pair
    names = " and ".join(nx.to_graph6_bytes(graph, header=False).decode().strip() for graph in (first, second))
    bounds = graphormer_same(first, second), gps_same(first, second)
    layers_of_gps = [difference(gps(layers), first, second) for layers in DEPTHS]
    layers_of_pst = [
        difference(point_set_transformer(layers, preset), first, second) for layers in DEPTHS for preset in PRESETS
    ]
    verb = "cannot distinguish the pair", "distinguishes the pair"
    most_gps, least_pst = (max(max(one.apart) for one in layers_of_gps), min(min(one.apart) for one in layers_of_pst))
    copies = max(one.copies for one in layers_of_pst)
    small, nearest = nearest_small_graphs()
    evidence = (
        f"The graphs {names} (graph6; {len(first)} nodes): Graphormer's refinement (distances, degrees) "
        f"{verb[not bounds[0]]}, that of GPS with RWSE {verb[not bounds[1]]}, and a real GPS with random weights "
        f"differs by at most {most_gps:.0e}. PST with random weights, {', '.join(map(str, DEPTHS))} layers and the "
        f"points of the Laplacian or of D^-½AD^-½ differs by {least_pst:.1e} or more (relabelled copies: {copies:.0e} "
        f"or less). Refinement by resistances {verb[not resistance_same(first, second)]}, 2-FWL "
        f"{verb[not refine_pairs([first, second]).same(0, 1)]}. That PST distinguishes what they do was seen on the "
        f"{small} graphs with up to six nodes: one layer puts any two apart by {nearest:.0e} or more."
    )
    return holds_if(
        all(bounds) and all(one.same for one in layers_of_gps) and all(one.separated for one in layers_of_pst)
        and nearest > SEPARATED, evidence,
        taken_for_one_by_graphormer=bounds[0], taken_for_one_by_gps=bounds[1], largest_difference_of_gps=most_gps,
        smallest_difference_of_pst=least_pst, largest_difference_of_copies=copies,
        smallest_difference_of_small_graphs=nearest,
    )  # fmt: skip


def nearest_small_graphs(max_nodes: int = 6) -> tuple[int, float]:
    """All small graphs, and the smallest relative difference that one layer of PST makes between two of one size."""
    graphs = [graph for graph in small_graphs(max_nodes) if len(graph)]
    rows = torch.stack([nodes.mean(0) for nodes in point_set_transformer(1)(graphs, 0)])
    sizes = torch.tensor([len(graph) for graph in graphs])
    apart = torch.cdist(rows, rows, p=torch.inf)
    others = (sizes == sizes[:, None]) & ~torch.eye(len(graphs), dtype=torch.bool)
    return len(graphs), float(apart[others].min() / rows.abs().max())


# The proof of Theorem B.2 takes a pair of nine nodes from a figure of Zhang et al. (2023), which the paper does not
# show; its description fits a centre joined to all nodes of one cycle of eight, and of two cycles of four. Whatever the
# figure shows, the proof needs a centre and eight other nodes that refinement by distances cannot distinguish: they are
# then all joined to the centre, and form a regular graph. All of these are tried.


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
class SeenOfPair:
    """What RWSE, Graphormer and resistances see of two graphs."""

    walks: float  # largest difference of return probabilities, as multisets at each number of steps
    graphormer: bool  # taken for one by distances and degrees
    resistance: bool  # taken for one by resistances

    @property
    def as_described(self) -> bool:
        """Equal RWSE, one graph to Graphormer, two to resistances."""
        return self.walks < GAP and self.graphormer and not self.resistance


def seen_of(first: nx.Graph[int], second: nx.Graph[int]) -> SeenOfPair:
    """Two graphs with equally many nodes."""
    walks = [np.sort(return_probabilities(graph), axis=0) for graph in (first, second)]
    return SeenOfPair(
        float(np.abs(walks[0] - walks[1]).max()), graphormer_same(first, second), resistance_same(first, second)
    )


def proof_of_b_2(rims: Sequence[nx.Graph[int]] | None = None) -> Finding:
    """Is there a pair as the proof describes it, around all regular graphs on eight nodes (or ``rims``)?"""
    rims = regular_graphs_on_eight() if rims is None else rims
    pairs = [
        seen_of(with_centre(one), with_centre(other))
        for one, other in itertools.combinations(rims, 2)
        if one.number_of_edges() == other.number_of_edges()
    ]
    described = sum(one.as_described for one in pairs)
    one, two = with_centre(cycle(8)), with_centre(two_cycles(4))
    wheel = seen_of(one, two)
    steps = [float(return_probabilities(graph)[0, 3]) for graph in (one, two)]
    larger = seen_of(*(with_centre(rim) for rim in twelve_nodes())).as_described
    alike = sum(pair.graphormer for pair in pairs)
    evidence = (
        "A centre joined to one cycle of eight and to two of four: Graphormer's refinement "
        f"{'cannot distinguish them' if wheel.graphormer else 'distinguishes them'}, resistances "
        f"{'cannot either' if wheel.resistance else 'distinguish them'}, but RWSE differs by {wheel.walks:.3f} (a node "
        f"of the rim is back after 4 steps with probability {steps[0]:.4f}, {steps[1]:.4f}). Of the {len(rims)} "
        f"regular graphs on eight nodes, each joined to a centre, {len(pairs)} pairs have the same degree: Graphormer "
        f"cannot distinguish {alike} of them, and {described} are as described: RWSE differs by "
        f"{min(pair.walks for pair in pairs):.1g} or more. A centre joined to the twelve nodes of the graphs of "
        f"Theorem B.2 {'is' if larger else 'is not'} as described."
    )
    return holds_if(
        described > 0, evidence,
        rims=len(rims), pairs=len(pairs), taken_for_one_by_graphormer=alike,
        pairs_as_described=described, difference_of_return_probabilities=wheel.walks, larger_pair_as_described=larger,
    )  # fmt: skip


# The first step in the proof of Theorem B.2: the first mixer sees U diag(f(Λ)) Uᵀ at (i, i) for functions f of the
# whole spectrum, that is, the spectrum and (Z^k)_ii for k = 1 … n. From these it is to work out the degree, with which
# Graphormer starts, and RWSE, with which GPS starts. All in whole numbers, so that "equal" is exact.


MATRICES = ("adjacency", "laplacian", "augmented", "normalized_adjacency")
_MULTIPLE = math.lcm(*range(1, LARGEST))  # of every degree; 60⁷ is far below 2⁶³


def _whole_matrix(A: Integers, matrix: str) -> Integers:
    """Z, (n, n). For D^-½AD^-½ it is a multiple of D⁻¹A, whose powers have the same diagonals."""
    D = A.sum(1)
    if matrix == "normalized_adjacency":
        return np.asarray(A * (_MULTIPLE // np.maximum(D, 1))[:, None])
    return {"adjacency": A, "laplacian": np.diag(D) - A, "augmented": np.diag(D) + A}[matrix]


@functools.cache
def diagonals(matrix: str, max_nodes: int) -> tuple[Integers, ...]:
    """For each small graph (Z^k)_ii, (n, n), node i and k = 1 … n."""
    matrices = [_whole_matrix(whole_adjacency(graph), matrix) for graph in small_graphs(max_nodes) if len(graph)]
    powers = ([np.linalg.matrix_power(Z, k) for k in range(1, len(Z) + 1)] for Z in matrices)
    return tuple(np.stack([power.diagonal() for power in each], axis=1) for each in powers)


def ambiguous_values(matrix: str, wanted: str, max_nodes: int) -> int:
    """How many values of (Z^k)_ii, with the spectrum, come with several degrees or several RWSE."""
    seen: dict[tuple[bytes, bytes], set[bytes]] = {}
    if wanted == "degree":  # (D − A)_ii
        values = tuple(one[:, :1] for one in diagonals("laplacian", max_nodes))
    else:
        values = diagonals("normalized_adjacency", max_nodes)
    for known, value in zip(diagonals(matrix, max_nodes), values, strict=True):
        spectrum = known.sum(0).tobytes()  # the traces of Z^k
        for node, row in enumerate(known):
            seen.setdefault((spectrum, row.tobytes()), set()).add(value[node].tobytes())
    return sum(len(found) > 1 for found in seen.values())


def start_of_b_2(max_nodes: int = LARGEST, matrices: tuple[str, ...] = MATRICES) -> Finding:
    """For the degree and for RWSE: which matrices Z give it."""
    several = {(Z, wanted): ambiguous_values(Z, wanted, max_nodes) for Z in matrices for wanted in ("degree", "RWSE")}
    giving = {wanted: [Z for Z in matrices if not several[Z, wanted]] for wanted in ("degree", "RWSE")}
    both = [Z for Z in matrices if Z in giving["degree"] and Z in giving["RWSE"]]
    counts = "; ".join(f"{Z} {several[Z, 'degree']} and {several[Z, 'RWSE']}" for Z in matrices)
    evidence = (
        f"Nodes of all graphs with up to {max_nodes} nodes that agree in these inner products and in the spectrum, "
        f"exactly; how many such values come with several degrees and with several RWSE: {counts}. The degree is "
        f"given by {' or '.join(giving['degree']) or 'none'}, RWSE by {' or '.join(giving['RWSE']) or 'none'}, both "
        f"by {' or '.join(both) or 'none: a model has one matrix, so it starts as Graphormer or as GPS, not as both'}."
    )
    return holds_if(
        bool(giving["degree"]) and bool(giving["RWSE"]), evidence,
        matrices_that_give_both=len(both), **{f"{Z}_several_{wanted}": n for (Z, wanted), n in several.items()},
    )  # fmt: skip


class Example(NamedTuple):
    """An automorphism carries v₂ to v₃, but the distances to v₁ are finite and differ.

    In equivariant representations v₂ and v₃ are equal, so ⟨s₁, s₂⟩ = ⟨s₁, s₃⟩, however far they are from v₁: such inner
    products do not give distances (Figure 2, Theorem C.1).
    """

    graph: nx.Graph[int]
    v1: int
    v2: int
    v3: int


def smallest_examples(*, edges_alike: bool, max_nodes: int = 6) -> list[Example]:
    """Of all graphs with as few nodes as possible; with ``edges_alike``, v₂ and v₃ are both or neither next to v₁."""
    found: list[Example] = []
    for graph in small_graphs(max_nodes):
        if found and len(graph) > len(found[0].graph):
            break
        if one := example(graph, edges_alike=edges_alike):
            found.append(one)
    return found


def example(graph: nx.Graph[int], *, edges_alike: bool) -> Example | None:
    """The first of a graph; None where it has none."""
    if len(graph) < 3:
        return None
    spd, alike = distances(graph), exchanged(graph)
    for v1, v2, v3 in itertools.permutations(range(len(graph)), 3):
        differ = np.isfinite(spd[v1, [v2, v3]]).all() and spd[v1, v2] < spd[v1, v3]
        if differ and alike[v2, v3] and not (edges_alike and (spd[v1, v2] == 1) != (spd[v1, v3] == 1)):
            return Example(graph, v1, v2, v3)
    return None


def exchanged(graph: nx.Graph[int]) -> Flags:
    """(n, n): whether an automorphism carries i to j, by listing all automorphisms."""
    result = np.zeros((len(graph), len(graph)), dtype=np.bool_)
    for automorphism in nx.isomorphism.GraphMatcher(graph, graph).isomorphisms_iter():
        result[list(automorphism), list(automorphism.values())] = True
    return result


def return_probability_features(graphs: Sequence[nx.Graph[int]], seed: int) -> list[Tensor]:
    """RWSE; no weights are drawn."""
    return [torch.from_numpy(return_probabilities(graph)) for graph in graphs]


REPRESENTATIONS: tuple[NodeModel, ...] = (gin(3), return_probability_features, gps(2), point_set_transformer(2))


def product_difference(one: Example, s: Tensor) -> float:
    """|⟨s₁, s₂⟩ − ⟨s₁, s₃⟩| for representations s (n, d), relative to the largest squared length."""
    near, far = s[one.v1] @ s[one.v2], s[one.v1] @ s[one.v3]
    return float((near - far).abs() / s.square().sum(-1).max())


def coordinate_difference(one: Example) -> float:
    """The largest of |⟨U_i, Λ^k U_j⟩ − ⟨U_i, Λ^k U_l⟩| for k ≤ n, i = v₁, j = v₂, l = v₃: of whole numbers (A^k)_ij."""
    powers = [adjacency_power(one.graph, k) for k in range(len(one.graph))]
    return max(float((A[one.v1, one.v2] - A[one.v1, one.v3]).abs()) for A in powers)


def _finding(examples: list[Example], representations: Sequence[NodeModel], what: str) -> Finding:
    products = max(
        product_difference(one, nodes([one.graph], seed)[0])
        for one, nodes, seed in itertools.product(examples, representations, SEEDS)
    )
    coordinates = min(coordinate_difference(one) for one in examples)
    first = examples[0]
    spd = distances(first.graph)[first.v1]
    names = sorted(nx.to_graph6_bytes(one.graph, header=False).decode().strip() for one in examples)
    evidence = (
        f"Of all graphs, the smallest with {what} have {len(first.graph)} nodes: {', '.join(names)} (graph6). For "
        f"instance in the graph with the edges {', '.join(f'{u}–{v}' for u, v in first.graph.edges)} an automorphism "
        f"carries node {first.v2} to {first.v3}, at distances {spd[first.v2]:g} and {spd[first.v3]:g} from {first.v1}. "
        f"Inner products of GIN, RWSE, GPS with RWSE and PST's scalars (random weights) differ by at most "
        f"{products:.0e} between the two pairs; inner products of PSRD coordinates, ⟨U_i, Λ^k U_j⟩ = (A^k)_ij, by "
        f"{coordinates:.3g} or more for some k."
    )
    return holds_if(
        products < SAME and coordinates > 0.5, evidence,
        nodes=len(first.graph), graphs=len(examples), largest_difference_of_representations=products,
        smallest_difference_of_coordinates=coordinates,
    )  # fmt: skip


def figure_2(representations: Sequence[NodeModel] = REPRESENTATIONS) -> Finding:
    """The smallest graphs with such nodes, adjacent or not."""
    return _finding(
        smallest_examples(edges_alike=False), representations, "alike nodes that are not equally far from a third"
    )


def theorem_c_1(representations: Sequence[NodeModel] = REPRESENTATIONS) -> Finding:
    """A_ij stands beside the inner product: it must not differ either."""
    return _finding(
        smallest_examples(edges_alike=True),
        representations,
        "alike nodes, both or neither joined to a third, but not equally far from it",
    )


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem B.2",
        "PST with k layers is strictly more expressive than Graphormer and than GPS (with RWSE) with k layers: there "
        "are graphs that it distinguishes and they do not.",
        theorem_b_2,
    ),
    Statement(
        "Theorem B.2, the start in the proof",
        "Inner products of a point's coordinates with themselves express its degree and RWSE.",
        start_of_b_2,
    ),
    Statement(
        "Theorem B.2, the pair in the proof",
        "Two graphs with nine nodes, a centre and eight nodes alike, have equal RWSE, and Graphormer and GPS "
        "cannot distinguish them, while resistances do.",
        proof_of_b_2,
    ),
    Statement(
        "Figure 2",
        "Inner products of permutation-equivariant node representations cannot give shortest path distances.",
        figure_2,
    ),
    Statement(
        "Theorem C.1",
        "GPS with RWSE and Graphormer without distances cannot give shortest path distances by their attention, a "
        "function of ⟨s_i, s_j⟩ and A_ij.",
        theorem_c_1,
    ),
)
