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

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from pointset.errors import MatrixError, did_you_mean
from pointset.points.graphs import GraphArrays, name_in, starts

DEFAULT_MATRIX = "laplacian"


class AdjacencyFunction(ABC):
    """Z and its inverse."""

    name: str

    def check(self, graphs: GraphArrays) -> None:  # noqa: B027 - most matrices represent every graph
        """Refuse graphs that this matrix cannot represent."""

    @abstractmethod
    def dense(self, adjacency: Tensor) -> Tensor:
        """Z of a stack of adjacency matrices (…, n, n), not modified."""

    @abstractmethod
    def sparse(self, adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Z of one large graph."""

    @abstractmethod
    def adjacency(self, matrix: Tensor, degrees: Tensor | None) -> Tensor:
        """A from Z (n, n); ``degrees`` only where Z alone does not determine it."""


class Laplacian(AdjacencyFunction):
    """Z = D − A, the paper's default."""

    name = "laplacian"

    def check(self, graphs: GraphArrays) -> None:
        """Self-loops cancel in D − A: the conversion would lose them."""
        loops = graphs.edges[0] == graphs.edges[1]
        if loops.any():
            at = int(np.argmax(loops))
            raise MatrixError(
                f"{name_in(graphs.num_edges, at)}node {graphs.edges[0, at]} has a self-loop, which the Laplacian D − A "
                "cannot see (it cancels), so the graph would not survive the conversion. Remove self-loops "
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


class Adjacency(AdjacencyFunction):
    """Z = A."""

    name = "adjacency"

    def dense(self, adjacency: Tensor) -> Tensor:
        return adjacency.clone()

    def sparse(self, adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        return adjacency

    def adjacency(self, matrix: Tensor, degrees: Tensor | None) -> Tensor:
        return matrix.clone()


class Augmented(AdjacencyFunction):
    """Z = D + A, positive semi-definite for every graph without negative weights: the matrix of Theorem 3.1."""

    name = "augmented"

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


class NormalizedAdjacency(AdjacencyFunction):
    """Z = D^-½ A D^-½; the row of an isolated node is zero."""

    name = "normalized_adjacency"

    def check(self, graphs: GraphArrays) -> None:
        """D^-½ needs positive degrees; only negative weights can break that."""
        if graphs.weights is None or (graphs.weights > 0).all():
            return
        start = starts(graphs.num_nodes)
        ends = np.repeat(start, graphs.num_edges) + graphs.edges  # (2, M) numbers among the nodes of all graphs
        loops = graphs.edges[0] == graphs.edges[1]
        total = int(graphs.num_nodes.sum())
        degree = np.bincount(ends[0], graphs.weights, total)
        degree += np.bincount(ends[1], np.where(loops, 0, graphs.weights), total)
        bad = (np.bincount(ends.ravel(), minlength=total) > 0) & (degree <= 0)
        if bad.any():
            at = int(np.argmax(bad))
            node = at - int(start[start <= at].max())
            raise MatrixError(
                f"{name_in(graphs.num_nodes, at)}node {node} has degree {degree[at]:g} because of negative weights; "
                "D^-½ A D^-½ needs positive degrees. Use matrix='adjacency' or 'laplacian', which accept negative "
                "weights, or take absolute values"
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


MATRICES: dict[str, AdjacencyFunction] = {
    function.name: function for function in (Laplacian(), Adjacency(), NormalizedAdjacency(), Augmented())
}


def matrix_named(name: str) -> AdjacencyFunction:
    """The matrix of this name, or an error that lists them all."""
    if not isinstance(name, str) or name not in MATRICES:
        hint = did_you_mean(str(name), list(MATRICES))
        raise MatrixError(f"got matrix={name!r}; expected one of {', '.join(MATRICES)}{hint}")
    return MATRICES[name]
