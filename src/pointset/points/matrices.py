"""The adjacency functions Z of Definition 3.2, each with its inverse: A → Z(A) → A.

Every matrix is one class: ``dense`` builds it for a stack of graphs of one size, ``sparse`` for one large graph,
``adjacency`` goes back. D is the diagonal matrix of row sums of A.

========================  ==============  =====================================  ======================================
name                      Z(A)            inverse                                positive semi-definite
========================  ==============  =====================================  ======================================
``laplacian``             D − A           −Z off the diagonal                    where no weight is negative
``adjacency``             A               Z                                      no
``normalized_adjacency``  D^-½ A D^-½     D^½ Z D^½, D from the pattern of Z     no
``augmented``             D + A           Z − ½ diag(Z·1)  (Appendix A.3)        where no weight is negative
========================  ==============  =====================================  ======================================

D^-½ A D^-½ does not change when all weights of a component are scaled: for weighted graphs it is not injective, so
their point sets carry the degrees beside it (docs/departures_from_paper.md).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from pointset.errors import MatrixError, did_you_mean
from pointset.points.graphs import GraphArrays

DEFAULT_MATRIX = "laplacian"


class AdjacencyMatrixFunction(Protocol):
    """Z and its inverse."""

    name: str

    def check(self, graphs: GraphArrays) -> None:
        """Refuse graphs that this matrix cannot represent."""

    def dense(self, adjacency: Tensor) -> Tensor:
        """Z of a stack of adjacency matrices (…, n, n), not modified."""

    def sparse(self, adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Z of one large graph."""

    def adjacency(self, matrix: Tensor, degrees: Tensor | None) -> Tensor:
        """A from Z (n, n); ``degrees`` only where Z alone does not determine it."""


class Laplacian:
    """Z = D − A, the paper's default."""

    name = "laplacian"

    def check(self, graphs: GraphArrays) -> None:
        """Self-loops cancel in D − A: the conversion would lose them."""
        loops = graphs.edges[0] == graphs.edges[1]
        if loops.any():
            at = int(np.argmax(loops))
            graph = int(np.searchsorted(np.cumsum(graphs.num_edges), at, side="right"))
            where = f"graph {graph}: " if len(graphs) > 1 else ""
            raise MatrixError(
                f"{where}node {graphs.edges[0, at]} has a self-loop, which the Laplacian D − A cannot see (it "
                "cancels), so the graph would not survive the conversion. Remove self-loops "
                "(torch_geometric.transforms.RemoveSelfLoops()), or use matrix='augmented', 'adjacency' or "
                "'normalized_adjacency', which keep them"
            )

    def dense(self, adjacency: Tensor) -> Tensor:
        matrix = -adjacency
        matrix.diagonal(dim1=-2, dim2=-1).add_(adjacency.sum(-1))
        return matrix

    def sparse(self, adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(_diagonal(_degrees(adjacency)) - adjacency)

    def adjacency(self, matrix: Tensor, degrees: Tensor | None) -> Tensor:
        result = -matrix
        result.diagonal().zero_()
        return result


class Adjacency:
    """Z = A."""

    name = "adjacency"

    def check(self, graphs: GraphArrays) -> None:
        """Every symmetric matrix is its own adjacency matrix."""

    def dense(self, adjacency: Tensor) -> Tensor:
        return adjacency.clone()

    def sparse(self, adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        return adjacency

    def adjacency(self, matrix: Tensor, degrees: Tensor | None) -> Tensor:
        return matrix.clone()


class Augmented:
    """Z = D + A, positive semi-definite for every graph without negative weights: the matrix of Theorem 3.1."""

    name = "augmented"

    def check(self, graphs: GraphArrays) -> None:
        """Injective for every graph, self-loops included."""

    def dense(self, adjacency: Tensor) -> Tensor:
        matrix = adjacency.clone()
        matrix.diagonal(dim1=-2, dim2=-1).add_(adjacency.sum(-1))
        return matrix

    def sparse(self, adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(_diagonal(_degrees(adjacency)) + adjacency)

    def adjacency(self, matrix: Tensor, degrees: Tensor | None) -> Tensor:
        result = matrix.clone()
        result.diagonal().sub_(matrix.sum(-1) / 2)
        return result


class NormalizedAdjacency:
    """Z = D^-½ A D^-½; the row of an isolated node is zero."""

    name = "normalized_adjacency"

    def check(self, graphs: GraphArrays) -> None:
        """D^-½ needs positive degrees; only negative weights can break that."""
        if graphs.weights is None or (graphs.weights > 0).all():
            return
        start = np.cumsum(graphs.num_nodes) - graphs.num_nodes
        owner = np.repeat(np.arange(len(graphs)), graphs.num_edges)
        ends = start[owner] + graphs.edges
        loop = graphs.edges[0] == graphs.edges[1]
        total = int(graphs.num_nodes.sum())
        degree = np.bincount(ends[0], graphs.weights, total) + np.bincount(
            ends[1], np.where(loop, 0, graphs.weights), total
        )
        touched = np.bincount(ends.ravel(), minlength=total) > 0
        bad = touched & (degree <= 0)
        if bad.any():
            at = int(np.argmax(bad))
            graph = int(np.searchsorted(np.cumsum(graphs.num_nodes), at, side="right"))
            raise MatrixError(
                f"{f'graph {graph}: ' if len(graphs) > 1 else ''}node {at - start[graph]} has degree {degree[at]:g} "
                "because of negative weights; D^-½ A D^-½ needs positive degrees. Use matrix='adjacency' or "
                "'laplacian', which accept negative weights, or take absolute values"
            )

    def dense(self, adjacency: Tensor) -> Tensor:
        scale = _inverse_root(adjacency.sum(-1))
        return adjacency * scale.unsqueeze(-1) * scale.unsqueeze(-2)

    def sparse(self, adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        scale = _diagonal(_inverse_root(torch.from_numpy(_degrees(adjacency))).numpy())
        return scipy.sparse.csr_array(scale @ adjacency @ scale)

    def adjacency(self, matrix: Tensor, degrees: Tensor | None) -> Tensor:
        if degrees is None:  # unweighted: an edge is at least 1/n, a non-edge is zero
            degrees = (matrix > 0.5 / max(matrix.shape[0], 1)).to(matrix.dtype).sum(-1)
        root = degrees.to(matrix.dtype).sqrt()
        return matrix * root.unsqueeze(-1) * root.unsqueeze(-2)


def _inverse_root(degrees: Tensor) -> Tensor:
    return torch.where(degrees > 0, degrees.clamp(min=torch.finfo(degrees.dtype).tiny).rsqrt(), 0.0)


def _degrees(adjacency: scipy.sparse.csr_array) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(adjacency.sum(axis=1), dtype=np.float64).reshape(-1)


def _diagonal(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> scipy.sparse.dia_array:
    return scipy.sparse.dia_array((values[None, :], [0]), shape=(len(values), len(values)))


MATRICES: dict[str, AdjacencyMatrixFunction] = {
    function.name: function for function in (Laplacian(), Adjacency(), NormalizedAdjacency(), Augmented())
}


def matrix_named(name: str) -> AdjacencyMatrixFunction:
    """The matrix of this name, or an error that lists them all."""
    if not isinstance(name, str) or name not in MATRICES:
        hint = did_you_mean(str(name), list(MATRICES))
        raise MatrixError(f"got matrix={name!r}; expected one of {', '.join(MATRICES)}{hint}")
    return MATRICES[name]
