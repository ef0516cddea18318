"""What a Point Set Transformer of the paper can distinguish at most, whatever its weights: pairs and points.

A layer, with Z the matrix that is decomposed, s_i the scalars and v_i the vectors of point i (Section 4, and the proof
of Theorem 5.4 in the appendix), any function for each MLP and any number of channels:

    attention   Y_ij = any function of s_i, s_j and all inner products of channels ⟨v_i^a, v_j^b⟩
    mixer       s'_i = any function of s_i and all ⟨v_i^a, v_i^b⟩;   v'_i = (any function of s'_i, or of s_i) · v_i
    update      s_i ← any function of s'_i and Σ_j Y_ij s'_j;        v_i ← v'_i and Σ_j Y_ij v'_j

A vector is a row of B f(Z) with an n × n matrix B, at first I, and an f that may depend on the whole spectrum; inner
products are the entries of B f(Z) B'ᵀ. So pairs have one colour if these agree for every f and every choice of numbers
for the colours of the layers before. They are compared at random choices, modulo a prime:

    F = Z ∏_m (1 + t_m Z^(2^m)),    B ← (ρ[s'] I + Y[colour of the pair] diag(g[s'])) B,    the same for B'.

F holds all powers from 1 to n, each with its own product of the t_m, and powers determine every f, as only f(λ) with
λ ≠ 0 occurs in coordinates (Definition 3.2): the identity is not among them. An entry is a polynomial in the random
numbers, of degree under 64 for ten layers on 500 nodes. Entries that agree for all weights agree here; others agree
with probability below 64/p in one draw (Schwartz–Zippel), in five below 10⁻²⁴. The draws are seeded. A mistake would be
to join two classes, so "different" is always right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pointset.datasets.splits.parts import whole_number
from pointset.errors import MatrixError
from pointset.machine import check_fits
from pointset.paper.refinement import (
    DRAWS,
    PRIME,
    Colours,
    Refinement,
    Residues,
    coloured_graphs,
    num_classes,
    of_first,
    of_second,
    product,
    remainder,
    split,
)
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graphs
from pointset.points.matrices import matrix_named
from pointset.points.solve import adjacency_matrix

_SEED = 0x9057
_WHOLE_NUMBERS = ("adjacency", "laplacian", "augmented")
_LARGEST_WEIGHT = 2**40  # beyond, sums of weights could pass 2⁵³


@dataclass(frozen=True, eq=False)
class PointRefinement:
    """Colours after some layers: of pairs by the last layer's attention, of points by their scalars after it."""

    pairs: Refinement  # (n, n) for each graph
    nodes: Refinement  # (n,) for each graph

    def same(self, graph: int, other: int) -> bool:
        """Whether every such transformer gives two graphs one output: pooling sees the points' scalars."""
        return self.nodes.same(graph, other)


def refine_points(
    graphs: Sequence[Any],
    layers: int | None = None,
    *,
    matrix: str = "adjacency",
    gate_after: bool = True,
    attend_after: bool = False,
) -> PointRefinement:
    """The finest colours of pairs and points that transformers of ``layers`` layers can give.

    Edge features multiply coordinates first, v_i ← v_i + Σ_j e_ij v_j, as in :mod:`pointset.encoders`. The cost is
    n³ log n for each graph and n³ for each layer.

    Args:
        graphs: anything :func:`pointset.to_points` takes; weights must be whole numbers.
        layers: how many, from 1; None for as many as split a class.
        matrix: Z, ``"adjacency"``, ``"laplacian"`` or ``"augmented"``.
        gate_after: vectors are gated by s', as the appendix prints; False: by s, as equation (2) does.
        attend_after: attention reads s' and v', what the appendix calls the original; False: s and v, as equation (3)
            and the appendix's "weakened" layer print.
    """
    if layers is not None:
        whole_number(layers, "layers", 1)
    if matrix_named(matrix).name not in _WHOLE_NUMBERS:
        raise MatrixError(
            f"got matrix={matrix!r}, whose entries are not whole numbers; colours are compared exactly. "
            f"Use one of {', '.join(_WHOLE_NUMBERS)}"
        )
    state = _start(graphs, matrix)
    before, made = (0, 0), 0
    while True:
        after = state.after_a_layer(gate_after=gate_after, attend_after=attend_after)
        classes = num_classes(after.pairs), num_classes(after.nodes)
        stable = made > 0 and classes == before
        if made == layers or (stable and layers is None):
            return state.refinement(made, stable=stable)
        state, before, made = after, classes, made + 1


@dataclass(frozen=True, eq=False)
class _State:
    """Colours and vectors; graphs of one size are stacked, in the order ``positions``."""

    positions: list[int]
    pairs: Colours  # (B, n, n) for each size
    nodes: Colours  # (B, n)
    spectra: Colours  # (B, 1, 1), from 1: equal for equal spectra
    draws: list[Vectors]
    generator: np.random.Generator

    def after_a_layer(self, *, gate_after: bool, attend_after: bool) -> _State:
        products = [draw.inner_products() for draw in self.draws]
        pairs = self.pairs
        for numbers in products:
            pairs = split(pairs, numbers)
        # f may depend on the spectrum; f(Z)_ij shows it where some f(Z)_ij is not zero.
        nonzero = [np.any(some, axis=0) for some in zip(*products, strict=True)]
        pairs = split(pairs, [spectrum * some for spectrum, some in zip(self.spectra, nonzero, strict=True)])
        mixed = split(self.nodes, [np.diagonal(one, axis1=-2, axis2=-1) for one in pairs])
        ends = mixed if attend_after else self.nodes
        pairs = split(split(pairs, of_first(ends)), of_second(ends))
        nodes = split(mixed, _neighbourhoods(pairs, mixed))
        gates = mixed if gate_after else self.nodes
        draws = [draw.updated(pairs, gates, self.generator) for draw in self.draws]
        return _State(self.positions, pairs, nodes, self.spectra, draws, self.generator)

    def refinement(self, layers: int, *, stable: bool) -> PointRefinement:
        """In the order of the graphs."""
        order = np.argsort(self.positions)
        pairs, nodes = ([one for stack in stacks for one in stack] for stacks in (self.pairs, self.nodes))
        return PointRefinement(
            Refinement([pairs[position] for position in order], layers, stable),
            Refinement([nodes[position] for position in order], layers, stable),
        )


def _start(graphs: Sequence[Any], matrix: str) -> _State:
    read = read_graphs(graphs)
    matrix_named(matrix).check(read)
    labelled = coloured_graphs(read)
    needed = sum(80.0 * DRAWS * graph.num_nodes**2 for graph in labelled)
    check_fits(
        needed, f"comparing the points of {len(labelled)} graphs needs", "Refine fewer or smaller graphs together"
    )
    generator = np.random.default_rng(_SEED)
    sizes: dict[int, list[int]] = {}
    for position, graph in enumerate(labelled):
        sizes.setdefault(graph.num_nodes, []).append(position)
    stacks = list(sizes.values())
    every = list(read)
    matrices = [decomposed([every[at] for at in stack], matrix, stack) for stack in stacks]
    edges = None
    if any(graph.features.edge_attr is not None for graph in every):
        edges = [np.stack([labelled[at].edge_table() for at in stack]) for stack in stacks]
    draws = [Vectors.first(matrices, edges, generator) for _ in range(DRAWS)]
    spectra: Colours = [np.full((len(stack), 1, 1), size) for size, stack in sizes.items()]
    for draw in draws:
        spectra = split(spectra, draw.traces())
    return _State(
        positions=[at for stack in stacks for at in stack],
        pairs=[np.zeros(one.shape, dtype=np.int64) for one in matrices],
        nodes=[np.stack([labelled[at].node_class for at in stack]) for stack in stacks],
        spectra=[one + 1 for one in spectra],
        draws=draws,
        generator=generator,
    )


def _neighbourhoods(pairs: Colours, mixed: Colours) -> Colours:
    """(B, n): a number for each multiset {{(colour of i, j; s'_j) : j}}; rows of different length are different."""
    seen = split(pairs, of_second(mixed))
    numbers, first = [], 0
    for one in seen:
        rows = np.sort(one, axis=-1).reshape(one.shape[0] * one.shape[1], one.shape[2])
        found, inverse = np.unique(rows, axis=0, return_inverse=True)
        numbers.append(inverse.reshape(one.shape[:-1]).astype(np.int64) + first)
        first += len(found)
    return numbers


def decomposed(graphs: Sequence[Graph], matrix: str, positions: Sequence[int]) -> Residues:
    """Z of graphs of one size, (B, n, n); ``positions`` are their names in messages."""
    for graph, position in zip(graphs, positions, strict=True):
        weights = np.zeros(0) if graph.weights is None else graph.weights
        if (weights != np.round(weights)).any() or (np.abs(weights) > _LARGEST_WEIGHT).any():
            raise MatrixError(
                f"graph {position} has weights that are not whole numbers up to 2^40; colours are compared exactly. "
                "Round the weights, or give them as edge features"
            )
    adjacency = np.stack([adjacency_matrix(graph).toarray() for graph in graphs])
    return np.asarray(matrix_named(matrix).dense(torch.from_numpy(adjacency)).numpy() % PRIME)


@dataclass(frozen=True, eq=False)
class Vectors:
    """F, B and B' for one choice of random numbers, mod p; an entry (B, n, n) for the graphs of each size, stacked."""

    functions: list[Residues]
    left: list[Residues]
    right: list[Residues]

    @classmethod
    def first(cls, matrices: list[Residues], edges: Colours | None, generator: np.random.Generator) -> Vectors:
        """F of the matrices Z by squaring, and B = B' = I, or I + E where edges have features."""
        largest = max((Z.shape[-1] for Z in matrices), default=1)
        factors = generator.integers(PRIME, size=max(largest - 1, 1).bit_length())
        functions = []
        for Z in matrices:
            F = power = Z
            for t in factors:
                F = remainder(F + t * product(F, power))
                power = product(power, power)
            functions.append(F)
        identities = [np.broadcast_to(np.eye(Z.shape[-1]), Z.shape) for Z in matrices]
        if edges is None:
            return cls(functions, identities, identities)
        left, right = (_with_edges(identities, edges, generator) for _ in range(2))
        return cls(functions, left, right)

    def inner_products(self) -> Colours:
        """B F B'ᵀ."""
        return [
            product(product(B, F), C.mT).astype(np.int64)
            for B, F, C in zip(self.left, self.functions, self.right, strict=True)
        ]

    def traces(self) -> Colours:
        """Σ_s t_s tr Zˢ, (B, 1, 1): the sums of powers of the eigenvalues."""
        traces = [np.trace(F, axis1=-2, axis2=-1)[:, None, None] % PRIME for F in self.functions]
        return [trace.astype(np.int64) for trace in traces]

    def updated(self, pairs: Colours, gates: Colours, generator: np.random.Generator) -> Vectors:
        """After a layer with any numbers for the colours of its attention and gates."""
        left, right = (_updated(vectors, pairs, gates, generator) for vectors in (self.left, self.right))
        return Vectors(self.functions, left, right)


def _with_edges(identities: list[Residues], edges: Colours, generator: np.random.Generator) -> list[Residues]:
    table = generator.integers(PRIME, size=num_classes(edges)).astype(np.float64)
    table[:1] = 0.0  # no edge
    return [one + table[edge] for one, edge in zip(identities, edges, strict=True)]


def _updated(vectors: list[Residues], pairs: Colours, gates: Colours, generator: np.random.Generator) -> list[Residues]:
    """(ρ[gate] I + Y[pair] diag(g[gate])) B."""
    keep, scale = generator.integers(PRIME, size=(2, num_classes(gates)))
    attention = generator.integers(PRIME, size=num_classes(pairs))
    after = []
    for B, pair, gate in zip(vectors, pairs, gates, strict=True):
        factor = attention[pair] * scale[gate][..., None, :]
        np.einsum("...ii->...i", factor)[:] += keep[gate]
        after.append(product((factor % PRIME).astype(np.float64), B))
    return after
