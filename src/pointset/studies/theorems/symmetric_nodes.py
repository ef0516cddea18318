"""Inner products of equivariant node representations do not give distances: Figure 2 and Theorem C.1.

Nodes v₂ and v₃, one of which an automorphism carries to the other, have one representation, so ⟨s₁, s₂⟩ = ⟨s₁, s₃⟩,
however far they are from v₁.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.encodings import adjacency_power
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems.random_models import SAME, SEEDS, NodeModel, gin, gps, point_set_transformer
from pointset.studies.theorems.relations import distances, return_probabilities
from pointset.studies.theorems.small_graphs import small_graphs


class Example(NamedTuple):
    """An automorphism carries v₂ to v₃, but the distances to v₁ are finite and differ."""

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


def exchanged(graph: nx.Graph[int]) -> NDArray[np.bool_]:
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
