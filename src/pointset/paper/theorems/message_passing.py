"""Message passing: what it cannot see (Theorem 5.3, Lemma A.3), how deep a vanilla graph transformer must be to see
no less (Theorem C.2, Lemma C.3), and that a layer of PST does what a layer of GIN does, and more (Theorem B.1).

GIN's layer is x_i ← MLP((1 + ε) x_i + Σ_{j ∈ N(i)} x_j). The transformer's does it with the attention A_ij for every
channel of its scalars and MLP₄(s'_i ‖ Σ_j Y_ij s'_j) = MLP((1 + ε) s'_i + Σ_j Y_ij s'_j); vectors are kept for the
next layer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from pointset.paper.families import cycle, marked, two_cycles
from pointset.paper.point_refinement import refine_points
from pointset.paper.refinement import flat, refine_nodes
from pointset.paper.theorems.constructions import CYCLES, Groups
from pointset.paper.theorems.exact_layers import ExactLayer, Features, run_layers
from pointset.paper.theorems.folklore import two_halves
from pointset.paper.theorems.random_models import SAME, difference, gin, refine_by_relation
from pointset.paper.theorems.small_graphs import adjacency_of, distances, edge_index, whole_adjacency
from pointset.paper.theorems.statement import Finding, Statement, holds_if
from pointset.points.convert import to_points

EigenvalueFunction = Callable[[Tensor], Tensor]  # f_c: (r,) → (r,)
Pair = tuple["nx.Graph[int]", "nx.Graph[int]"]

SIZES = range(6, 21)  # below 6 one of the halves is not a cycle

DEPTHS = (1, 2, 3, 4)
_WIDTHS = (3, 6, 5, 4, 2)  # of node features and of what each layer gives
_EPSILON = 0.25  # of GIN: a number that its float32 holds
_ROUNDING = 1e-9  # relative to the largest output


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
        f"until stable, cannot distinguish {len(taken)} of {len(sizes)} pairs; GIN (PyG, 5 layers, random weights, "
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
        "k. l is 6 or more, as smaller halves are not cycles."
    )
    return holds_if(
        max(colours) == 1 and stable.rounds == 0, evidence, nodes=sum(map(len, graphs)), colours=max(colours)
    )


def theorem_b_1(channels: Sequence[EigenvalueFunction] | None = None, matrix: str = "adjacency") -> Finding:
    """The simulation with two channels U and U diag(λ), or others, and a pair that only the transformer separates."""
    two = (torch.ones_like, lambda eigenvalues: eigenvalues)
    error = largest_difference(two if channels is None else channels, matrix)
    pair = (cycle(6), two_cycles(3))
    taken_for_one = all(refine_nodes(pair, depth).same(0, 1) for depth in DEPTHS)
    distinguished = not refine_points(pair, 1).same(0, 1)
    triangles = [count.sum() / 3 for count in CYCLES[3].counts(Groups.of([adjacency_of(graph) for graph in pair]))]
    evidence = (
        f"Constructed weights and PyG's GINConv with the same MLP, {DEPTHS[0]} to {DEPTHS[-1]} layers, on random "
        f"graphs with features (isolated nodes and several components among them): outputs differ by {error:.0e} at "
        f"most (relative). The coordinates have two channels, U and U diag(λ). Strict: a 6-cycle and two triangles are "
        f"{'one graph' if taken_for_one else 'two graphs'} to {DEPTHS[0]} … {DEPTHS[-1]} rounds of 1-WL, GIN's bound; "
        f"an explicit transformer of one layer counts {triangles[0]:.0f} and {triangles[1]:.0f} triangles in them."
    )
    strict = taken_for_one and distinguished and bool(abs(triangles[0] - triangles[1]) > 0.5)
    return holds_if(error < _ROUNDING and strict, evidence, largest_relative_difference=error, strict=strict)


def printed_construction() -> Finding:
    """The simulation as the proof prints it: inner products of one channel U diag(Λ^½) with itself, no MLP on them."""
    of_adjacency = largest_difference((_root, _root), "adjacency")
    of_augmented = largest_difference((_root, _root), "augmented")
    negative = sum(bool((to_points(graph, matrix="adjacency").eigenvalues < 0).any()) for graph in _graphs())
    evidence = (
        f"⟨Λ^½U_i, Λ^½U_j⟩ = A_ij needs λ ≥ 0, but A has a negative eigenvalue as soon as it has an edge (trace 0): "
        f"here in {negative} of {len(_graphs())} graphs, where Λ^½ is imaginary. With √|λ| outputs are off from GIN's "
        f"by {of_adjacency:.1g} (relative); with the SRD of D + A, where the inner products are A_ij + δ_ij d_i, by "
        f"{of_augmented:.1g}. Two channels, U and U diag(λ), put it right."
    )
    error = min(of_adjacency, of_augmented)
    return holds_if(
        error < _ROUNDING, evidence, relative_difference_with_adjacency=of_adjacency,
        relative_difference_with_augmented=of_augmented, graphs_with_negative_eigenvalues=negative,
    )  # fmt: skip


def _root(eigenvalues: Tensor) -> Tensor:
    return eigenvalues.abs().sqrt()


def largest_difference(channels: Sequence[EigenvalueFunction], matrix: str) -> float:
    """Largest difference of the simulation's outputs from GIN's, relative to GIN's largest, over graphs and depths.

    The first channel makes the queries' coordinates U diag(f(λ)) of the matrix, the second the keys'.
    """
    generator = torch.Generator().manual_seed(11)
    largest = 0.0
    for graph in _graphs():
        points = to_points(graph, matrix=matrix)
        functions = torch.stack([f(points.eigenvalues) for f in channels], -1)  # (r, 2)
        vectors = points.eigenvectors.unsqueeze(-1) * functions
        for depth in DEPTHS:
            gin = _gin(depth, generator)
            x = torch.randn(len(graph), _WIDTHS[0], generator=generator, dtype=torch.float64)
            expected = x
            for convolution in gin:
                expected = convolution(expected, edge_index(graph))
            layers = [gin_layer(one.nn, _EPSILON, width) for one, width in zip(gin, _WIDTHS, strict=False)]
            found = run_layers(layers, Features(x, vectors))[-1].features.scalars
            largest = max(largest, float((found - expected).abs().max() / expected.abs().max()))
    return largest


def gin_layer(mlp: Callable[[Tensor], Tensor], epsilon: float, width: int) -> ExactLayer:
    """The transformer's layer that does what GIN's does to ``width`` scalars; vectors have two channels."""
    zero, identity = torch.zeros(2, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    first, second = identity[:, :1], identity[:, 1:]
    unused = torch.zeros(width, 1, dtype=torch.float64)
    # Attention A_ij for each scalar; for vectors any, as W₅ does not take their sums.
    keep = torch.cat([identity, zero])
    return ExactLayer(
        W1=first,
        W2=second,
        mlp1=lambda inputs: inputs[..., :width],
        mlp2=lambda scalars: scalars.new_zeros(*scalars.shape[:-1], 2),
        W3=zero,
        W4=identity,
        Wqs=unused,
        Wks=unused,
        Wqv=first,
        Wkv=second,
        mlp3=lambda inputs: inputs[..., -1:].expand(*inputs.shape[:-1], width + 2),
        mlp4=lambda inputs: mlp((1 + epsilon) * inputs[..., :width] + inputs[..., width:]),
        W5=keep,
    )


def _gin(depth: int, generator: torch.Generator) -> list[GINConv]:
    """Layers of PyG, each with an MLP of two layers, with weights from ``generator``."""
    with torch.random.fork_rng(devices=[]):  # nn.Linear, and GINConv again, draw weights from the global generator
        layers = [
            GINConv(nn.Sequential(nn.Linear(before, 8), nn.ReLU(), nn.Linear(8, after)).double(), eps=_EPSILON)
            for before, after in itertools.pairwise(_WIDTHS[: depth + 1])
        ]
    for layer in layers:
        for parameter in layer.parameters():
            parameter.requires_grad_(False).copy_(torch.randn(parameter.shape, generator=generator))
    return layers


def _graphs() -> list[nx.Graph[int]]:
    """Random graphs of several densities; sparse ones have isolated nodes and several components."""
    return [nx.gnp_random_graph(n, p, seed=n) for n, p in ((6, 0.2), (9, 0.3), (14, 0.15), (20, 0.3), (30, 0.1))]


def printed_pair(k: int) -> Pair:
    """H_4(k+1) and G_4(k+1). For k = 0 the two "cycles" have two nodes each: an edge, for want of a cycle."""
    if k == 0:
        return cycle(4), nx.disjoint_union(nx.path_graph(2), nx.path_graph(2))
    return cycle(4 * (k + 1)), two_cycles(2 * (k + 1))


def message_passing_same(pair: Pair, layers: int) -> bool:
    """Whether an MPNN with so many layers takes them for one, node 0 of each marked."""
    return refine_nodes([marked(graph, 0) for graph in pair], layers).same(0, 1)


def transformer_same(pair: Pair, layers: int) -> bool:
    """Whether a vanilla graph transformer does: h_i ← (h_i, {{(A_ij, h_j) : all j}})."""
    marks = [torch.eye(len(graph), 1, dtype=torch.int64).numpy() for graph in pair]
    return refine_by_relation([whole_adjacency(graph) for graph in pair], marks, layers).same(0, 1)


def lemma_c_3(most_layers: int = 8, fewer_layers: int = 0) -> Finding:
    """K and K + 1 layers (less ``fewer_layers``) on the marked pair, K = 0 … ``most_layers``."""
    every = range(fewer_layers, most_layers + 1)
    pairs = {k: printed_pair(k) for k in every}
    deeper = [k for k in every if not message_passing_same(pairs[k], k + 1 - fewer_layers)]
    shallow = [k for k in every if message_passing_same(pairs[k], k)]
    transformer = [k for k in every if transformer_same(pairs[k], k)]
    evidence = (
        f"H' and G' with 4(K + 1) nodes, K = {every.start} … {most_layers}: an MPNN with K + {1 - fewer_layers} "
        f"layers distinguishes {len(deeper)} of {len(every)} pairs, with K layers it cannot for {len(shallow)}, "
        f"nor a vanilla graph transformer with K layers for {len(transformer)}. K = 0 is degenerate: "
        "a circle of two nodes is not a simple graph; here it is read as an edge."
    )
    return holds_if(
        len(deeper) == len(shallow) == len(transformer) == len(every), evidence,
        pairs=len(every), told_apart_by_one_layer_more=len(deeper), taken_for_one_by_mpnn=len(shallow),
        taken_for_one_by_graph_transformer=len(transformer),
    )  # fmt: skip


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem 5.3",
        "There are two graphs that message passing cannot distinguish, though their sets of distances differ.",
        theorem_5_3,
    ),
    Statement(
        "Lemma A.3",
        "All nodes of H_l, one cycle of l nodes, and G_l, two of l/2, have the same representation in an MPNN with any "
        "number of layers.",
        lemma_a_3,
    ),
    Statement(
        "Theorem B.1", "A transformer of k layers is strictly more expressive than a GIN of k layers.", theorem_b_1
    ),
    Statement(
        "Theorem B.1, the proof's weights",
        "With the single channel U diag(Λ^½) the attention is A, and a layer gives what GIN's gives.",
        printed_construction,
    ),
    Statement(
        "Theorem C.2 and Lemma C.3",
        "For all K, K + 1 layers of an MPNN distinguish H' and G', one cycle of 4(K + 1) nodes and two of half as "
        "many, with one node marked; K layers of an MPNN or of a vanilla graph transformer cannot.",
        lemma_c_3,
    ),
)
