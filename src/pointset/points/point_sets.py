"""Many point sets in flat arrays, in memory or mapped from disk: :class:`PointSets`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.points.graphs import Floats, GraphArrays, Integers, WeightKind
from pointset.points.lazy import LazySequence
from pointset.points.matrices import NormalizedAdjacency
from pointset.points.point_set import PointSet, Truncation
from pointset.points.solve import Solved


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenpairs of G graphs, flat. Graph i has ``values[value_start[i]:][:ranks[i]]`` and, row by row, an (n, r)
    block of ``vectors`` from ``vector_start[i]``. The blocks may lie in any order.
    """

    ranks: Integers  # (G,)
    value_start: Integers  # (G,)
    vector_start: Integers  # (G,)
    spectral_error: Floats  # (G,) 0 where nothing was left out
    frobenius_error: Floats  # (G,)
    residual: Floats  # (G,)
    values: NDArray[np.floating]  # (Σ r,)
    vectors: NDArray[np.floating]  # (Σ n·r,)

    @classmethod
    def assembled(
        cls,
        num_nodes: Integers,
        parts: Sequence[Solved],
        values: NDArray[np.floating],
        vectors: NDArray[np.floating],
    ) -> Eigenpairs:
        """Eigenpairs whose blocks lie in ``values`` and ``vectors`` in the order in which the parts were solved."""
        order = np.concatenate([part.graphs for part in parts]) if parts else np.zeros(0, np.int64)
        ranks = np.zeros(len(num_nodes), dtype=np.int64)
        value_start, vector_start = np.zeros_like(ranks), np.zeros_like(ranks)
        errors = np.zeros((3, len(num_nodes)))
        for part in parts:
            ranks[part.graphs] = part.ranks
            errors[:, part.graphs] = part.spectral_error, part.frobenius_error, part.residual
        sizes = ranks[order]
        value_start[order] = np.cumsum(sizes) - sizes
        blocks = sizes * num_nodes[order]
        vector_start[order] = np.cumsum(blocks) - blocks
        return cls(ranks, value_start, vector_start, errors[0], errors[1], errors[2], values, vectors)


class PointSets(LazySequence[PointSet]):
    """A sequence of point sets that share flat arrays; each :class:`PointSet` is made when it is asked for."""

    def __init__(self, graphs: GraphArrays, eigenpairs: Eigenpairs, matrix: str, dtype: torch.dtype = torch.float64):
        self.graphs = graphs
        self.eigenpairs = eigenpairs
        self.matrix = matrix
        self.dtype = dtype

    @property
    def num_nodes(self) -> Integers:
        """(G,) n of each graph."""
        return self.graphs.num_nodes

    @property
    def ranks(self) -> Integers:
        """(G,) r of each graph."""
        return self.eigenpairs.ranks

    def __len__(self) -> int:
        return len(self.graphs)

    def __repr__(self) -> str:
        return f"PointSets({len(self)} graphs, matrix={self.matrix!r})"

    def item(self, position: int) -> PointSet:
        """One point set, copied out of the flat arrays."""
        pairs, graphs = self.eigenpairs, self.graphs
        n, r = int(graphs.num_nodes[position]), int(pairs.ranks[position])
        value, vector = int(pairs.value_start[position]), int(pairs.vector_start[position])
        x, edge_attr, pos, y = graphs.features_of(position)
        kind = WeightKind(int(graphs.weight_kind[position]))
        return PointSet(
            eigenvalues=self._tensor(pairs.values[value : value + r]),
            eigenvectors=self._tensor(pairs.vectors[vector : vector + n * r]).view(n, r),
            matrix=self.matrix,
            num_edges=int(graphs.num_edges[position]),
            weight_kind=kind,
            x=x,
            edge_index=None if edge_attr is None else torch.from_numpy(self._edges(position).copy()),
            edge_attr=edge_attr,
            pos=pos,
            y=y,
            degrees=self._degrees(position, n) if self.matrix == NormalizedAdjacency.name and kind else None,
            truncation=self._truncation(position),
        )

    def _tensor(self, part: NDArray[np.floating]) -> Tensor:
        return torch.from_numpy(np.array(part)).to(self.dtype)  # a copy: the flat array may be a read-only mapping

    def _edges(self, index: int) -> Integers:
        start = int(self.graphs.edge_start[index])
        return self.graphs.edges[:, start : start + int(self.graphs.num_edges[index])]

    def _degrees(self, index: int, n: int) -> Tensor:
        source, target = self._edges(index)
        start = int(self.graphs.edge_start[index])
        weights = None if self.graphs.weights is None else self.graphs.weights[start : start + len(source)]
        reverse = np.where(source == target, 0.0, 1.0 if weights is None else weights)
        return torch.from_numpy(np.bincount(source, weights, n) + np.bincount(target, reverse, n))

    def _truncation(self, index: int) -> Truncation | None:
        pairs = self.eigenpairs
        if not pairs.spectral_error[index]:
            return None
        return Truncation(
            float(pairs.spectral_error[index]), float(pairs.frobenius_error[index]), float(pairs.residual[index])
        )
