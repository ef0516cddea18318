"""The vectors of :func:`~pointset.studies.refinement.points.refine_points` for one choice of random numbers, mod p.

Graphs of one size are stacked, (B, n, n); a list has an entry for each size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pointset.errors import MatrixError
from pointset.points.graphs import Graph
from pointset.points.matrices import matrix_named
from pointset.points.sparse import adjacency_matrix
from pointset.studies.refinement.colours import Colours, num_classes
from pointset.studies.refinement.modular import PRIME, Numbers, product, remainder

_LARGEST_WEIGHT = 2**40  # beyond, sums of weights could pass 2⁵³


def decomposed(graphs: Sequence[Graph], matrix: str, positions: Sequence[int]) -> Numbers:
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
    """F, B and B'."""

    functions: list[Numbers]
    left: list[Numbers]
    right: list[Numbers]

    @classmethod
    def first(cls, matrices: list[Numbers], edges: Colours | None, generator: np.random.Generator) -> Vectors:
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


def _with_edges(identities: list[Numbers], edges: Colours, generator: np.random.Generator) -> list[Numbers]:
    table = generator.integers(PRIME, size=num_classes(edges)).astype(np.float64)
    table[:1] = 0.0  # no edge
    return [one + table[edge] for one, edge in zip(identities, edges, strict=True)]


def _updated(vectors: list[Numbers], pairs: Colours, gates: Colours, generator: np.random.Generator) -> list[Numbers]:
    """(ρ[gate] I + Y[pair] diag(g[gate])) B."""
    keep, scale = generator.integers(PRIME, size=(2, num_classes(gates)))
    attention = generator.integers(PRIME, size=num_classes(pairs))
    after = []
    for B, pair, gate in zip(vectors, pairs, gates, strict=True):
        factor = attention[pair] * scale[gate][..., None, :]
        np.einsum("...ii->...i", factor)[:] += keep[gate]
        after.append(product((factor % PRIME).astype(np.float64), B))
    return after
