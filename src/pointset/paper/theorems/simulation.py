"""Theorem B.1: a layer of the transformer does what a layer of GIN does, and more.

GIN's layer is x_i ← MLP((1 + ε) x_i + Σ_{j ∈ N(i)} x_j). The transformer's does it with the attention A_ij for every
channel of its scalars and MLP₄(s'_i ‖ Σ_j Y_ij s'_j) = MLP((1 + ε) s'_i + Σ_j Y_ij s'_j); vectors are kept for the
next layer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import networkx as nx
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from pointset.paper.families import cycle, two_cycles
from pointset.paper.point_refinement import refine_points
from pointset.paper.refinement import refine_nodes
from pointset.paper.theorems.constructions import CYCLES, Groups
from pointset.paper.theorems.exact_layers import ExactLayer, Features, run_layers
from pointset.paper.theorems.random_models import edge_index
from pointset.paper.theorems.statement import Finding, Statement, adjacency_of, holds_if
from pointset.points.convert import to_points

EigenvalueFunction = Callable[[Tensor], Tensor]  # f_c: (r,) → (r,)

DEPTHS = (1, 2, 3, 4)
_WIDTHS = (3, 6, 5, 4, 2)  # of node features and of what each layer gives
_EPSILON = 0.25  # of GIN: a number that its float32 holds
_ROUNDING = 1e-9  # relative to the largest output


def theorem_b_1(channels: Sequence[EigenvalueFunction] | None = None, matrix: str = "adjacency") -> Finding:
    """The simulation with two channels U and U diag(λ), or others, and a pair that only the transformer separates."""
    two = (torch.ones_like, lambda eigenvalues: eigenvalues)
    error = largest_difference(two if channels is None else channels, matrix)
    pair = (cycle(6), two_cycles(3))
    taken_for_one = all(refine_nodes(pair, depth).same(0, 1) for depth in DEPTHS)
    told_apart = not refine_points(pair, 1).same(0, 1)
    triangles = [count.sum() / 3 for count in CYCLES[3].counts(Groups.of([adjacency_of(graph) for graph in pair]))]
    evidence = (
        f"Constructed weights and PyG's GINConv with the same MLP, {DEPTHS[0]} to {DEPTHS[-1]} layers, on random "
        f"graphs with features (isolated nodes and several components among them): outputs differ by {error:.0e} at "
        f"most (relative). The coordinates have two channels, U and U diag(λ). Strict: a 6-cycle and two triangles are "
        f"{'one graph' if taken_for_one else 'told apart'} to {DEPTHS[0]} … {DEPTHS[-1]} rounds of 1-WL, GIN's bound; "
        f"an explicit transformer of one layer counts {triangles[0]:.0f} and {triangles[1]:.0f} triangles in them."
    )
    strict = taken_for_one and told_apart and bool(abs(triangles[0] - triangles[1]) > 0.5)
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

    Args:
        channels: the first makes the queries' coordinates U diag(f(λ)), the second the keys'.
        matrix: what is decomposed.
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


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem B.1", "A transformer of k layers is strictly more expressive than a GIN of k layers.", theorem_b_1
    ),
    Statement(
        "Theorem B.1, the proof's weights",
        "With the single channel U diag(Λ^½) the attention is A, and a layer gives what GIN's gives.",
        printed_construction,
    ),
)
