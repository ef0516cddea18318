"""One graph as a set of points, :class:`PointSet`; many of them in flat arrays, :class:`PointSets`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset import notebook
from pointset.arrays import Floats, Integers
from pointset.errors import MatrixError, PointsetError
from pointset.points.graphs import Graph, GraphArrays, LazySequence, WeightKind, starts
from pointset.points.matrices import NormalizedAdjacency
from pointset.points.solve import Solved

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


def check_floating_point(dtype: torch.dtype) -> None:
    """Refuse a type that cannot hold eigenpairs."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise MatrixError(f"got dtype {dtype!r}; expected a floating-point type such as torch.float32")


class Truncation(NamedTuple):
    """What a bound on the rank left out."""

    spectral_error: float  # ‖Z − UΛUᵀ‖₂, the largest |λ| left out
    frobenius_error: float  # ‖Z − UΛUᵀ‖_F
    residual: float  # largest ‖Z u − λ u‖ over the pairs kept


class Eigenspace(NamedTuple):
    """One eigenvalue and how often it occurs."""

    eigenvalue: float
    multiplicity: int


@dataclass(frozen=True, eq=False)
class PointSet:
    """A graph as n points in r dimensions (paper, Sections 2 and 3).

    Holds the non-zero eigenvalues Λ and eigenvectors U of Z = U diag(Λ) Uᵀ, from which coordinates of every kind
    follow: SRD, Q = U diag(√Λ), by :meth:`coordinates`; PSRD by :meth:`parameterized_coordinates`. Eigenvalues are in
    ascending order, and equal to the last bit inside one eigenspace. The tensors are not to be modified in place.
    """

    eigenvalues: Tensor  # (r,)
    eigenvectors: Tensor  # (n, r)
    matrix: str  # which Z
    num_edges: int  # m, each undirected edge once
    weight_kind: WeightKind = WeightKind.NONE
    x: Tensor | None = None  # (n, …)
    edge_index: Tensor | None = None  # (2, m) where edges carry features, or points are truncated and do not tell them
    edge_attr: Tensor | None = None  # (m, …)
    edge_weight: Tensor | None = None  # (m,) where points are truncated and edges weigh other than 1
    pos: Tensor | None = None  # (n, …)
    y: Tensor | None = None
    descriptors: Tensor | None = None  # (1, c) numbers of the graph as a whole
    fingerprint: Tensor | None = None  # (1, bits / 8) uint8: a molecule's fingerprint, packed
    degrees: Tensor | None = None  # (n,) only where Z does not determine them: normalised, weighted
    truncation: Truncation | None = None  # None: every non-zero eigenvalue is here
    edges_digest: int | None = None  # of the PyG graph that carries them: whether it has been changed since

    @property
    def rank(self) -> int:
        """r, the number of eigenpairs kept."""
        return self.eigenvalues.shape[0]

    @property
    def num_nodes(self) -> int:
        """n, the number of points."""
        return self.eigenvectors.shape[0]

    @property
    def is_positive_semidefinite(self) -> bool:
        """Whether no eigenvalue is negative, so that SRD exists."""
        return bool((self.eigenvalues >= 0).all())

    def coordinates(self) -> Tensor:
        """SRD coordinates Q = U diag(√Λ), (n, r), with Q Qᵀ = Z (Definition 2.2).

        Raises:
            MatrixError: Z has a negative eigenvalue, so there is no real square root.
        """
        if not self.is_positive_semidefinite:
            raise MatrixError(
                f"SRD needs a positive semi-definite matrix, but {self.matrix!r} of this graph has the eigenvalue "
                f"{float(self.eigenvalues.min()):.6g}. Use matrix='augmented' or 'laplacian' (on a graph without "
                "negative weights), or .parameterized_coordinates(f), which takes any symmetric matrix"
            )
        return self.eigenvectors * self.eigenvalues.sqrt()

    def parameterized_coordinates(self, f: Callable[[Tensor], Tensor]) -> Tensor:
        """PSRD coordinates (n, r, d) whose i-th channel is U diag(f_i(Λ)) (Definition 3.2); f: (r,) → (r, d)."""
        return self.eigenvectors.unsqueeze(-1) * f(self.eigenvalues)

    def inner_products(self, f: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """⟨U_i, diag(f(Λ)) U_j⟩ for all pairs, (n, n); without f this is Z itself."""
        values = self.eigenvalues if f is None else f(self.eigenvalues)
        return (self.eigenvectors * values) @ self.eigenvectors.mT

    def eigenspaces(self) -> list[Eigenspace]:
        """The distinct non-zero eigenvalues with their multiplicities, ascending."""
        values, counts = torch.unique_consecutive(self.eigenvalues, return_counts=True)
        return [Eigenspace(value, count) for value, count in zip(values.tolist(), counts.tolist(), strict=True)]

    def to(
        self,
        target: torch.dtype | torch.device | str | None = None,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
    ) -> PointSet:
        """The same points with eigenpairs of another floating-point type, or with everything on another device.

        Takes a type or a device, by position or by name, as tensors do. Features keep their type.
        """
        if isinstance(target, torch.dtype):
            dtype = target
        elif target is not None:
            device = target
        moved = self
        if device is not None:
            moved = with_tensors(self, lambda tensor: tensor.to(device, non_blocking=non_blocking))
        if dtype is None:
            return moved
        check_floating_point(dtype)
        return dataclasses.replace(
            moved, eigenvalues=moved.eigenvalues.to(dtype), eigenvectors=moved.eigenvectors.to(dtype)
        )

    def cpu(self) -> PointSet:
        """Everything in main memory."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> PointSet:
        """Everything on a GPU."""
        return self.to(device="cuda" if device is None else device)

    def pin_memory(self) -> PointSet:
        """Everything in page-locked memory, for DataLoader(pin_memory=True)."""
        return with_tensors(self, lambda tensor: tensor.pin_memory())

    def __repr__(self) -> str:
        features = [f"{name}={list(value.shape)}" for name in ("x", "edge_attr", "pos", "y")
                    if (value := getattr(self, name)) is not None]  # fmt: skip
        parts = [f"num_nodes={self.num_nodes}", f"num_edges={self.num_edges}", f"rank={self.rank}",
                 f"matrix={self.matrix!r}", *features]  # fmt: skip
        if self.truncation is not None:
            parts.append(f"truncated (‖Z − UΛUᵀ‖₂ = {self.truncation.spectral_error:.3g})")
        return f"PointSet({', '.join(parts)})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "points": f"{self.num_nodes:,} in {self.rank:,} dimensions",
            "graph": f"{self.num_nodes:,} nodes, {self.num_edges:,} edges",
            "matrix": self.matrix,
            "eigenvalues": notebook.spectrum_drawing(self.eigenvalues.detach().cpu().numpy()),
        }
        facts |= {name: notebook.shape(value) for name in ("x", "edge_attr", "pos", "y")
                  if (value := getattr(self, name)) is not None}  # fmt: skip
        if self.truncation is not None:
            facts["left out"] = f"‖Z − UΛUᵀ‖₂ = {self.truncation.spectral_error:.3g}"
        return notebook.card("PointSet", facts, picture=self._drawing())

    def _drawing(self) -> str:
        """The graph as it is rebuilt from the points; empty where it is large, or cannot be."""
        from pointset.points.inverse import rebuild

        if self.num_nodes > notebook.MOST_DRAWN or self.truncation is not None:
            return ""
        try:
            return notebook.graph_drawing(self.num_nodes, rebuild(self.cpu()).edges.numpy())
        except PointsetError:
            return ""


def with_tensors(item: Record, function: Callable[[Tensor], Tensor]) -> Record:
    """A dataclass with the function applied to each of its tensors."""
    values = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    changed: dict[str, Any] = {name: function(value) for name, value in values.items() if isinstance(value, Tensor)}
    return dataclasses.replace(item, **changed)


# torch.load then takes saved PyG graphs with points under weights_only=True: plain data, no code runs.
torch.serialization.add_safe_globals([PointSet, Truncation, WeightKind])


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

    def of(self, graphs: Integers) -> Eigenpairs:
        """Those of some graphs (K,), each as often as it is named; the blocks are shared."""
        of_graphs = (field.name for field in dataclasses.fields(self) if field.name not in ("values", "vectors"))
        return dataclasses.replace(self, **{name: getattr(self, name)[graphs] for name in of_graphs})

    @classmethod
    def assembled(
        cls, num_nodes: Integers, parts: Sequence[Solved], values: NDArray[np.floating], vectors: NDArray[np.floating]
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
        value_start[order] = starts(sizes)
        vector_start[order] = starts(sizes * num_nodes[order])
        return cls(ranks, value_start, vector_start, errors[0], errors[1], errors[2], values, vectors)


class PointSets(LazySequence[PointSet]):
    """Point sets that share flat arrays, in memory or mapped from disk; each is made when it is asked for."""

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

    def _repr_html_(self) -> str:
        facts = {"graphs": f"{len(self):,}", "matrix": self.matrix}
        if len(self):
            nodes = self.num_nodes
            facts["nodes"] = f"{nodes.min():,} to {nodes.max():,}, {nodes.mean():.3g} on average"
            facts["dimensions"] = f"{self.ranks.min():,} to {self.ranks.max():,}"
        return notebook.card("PointSets", facts)

    def item(self, position: int) -> PointSet:
        """One point set, copied out of the flat arrays."""
        pairs, graph = self.eigenpairs, self.graphs.item(position)
        n, r = graph.num_nodes, int(pairs.ranks[position])
        value, vector = int(pairs.value_start[position]), int(pairs.vector_start[position])
        features, weights = graph.features, graph.weights
        left_out = [float(errors[position]) for errors in (pairs.spectral_error, pairs.frobenius_error, pairs.residual)]
        return PointSet(
            eigenvalues=self._tensor(pairs.values[value : value + r]),
            eigenvectors=self._tensor(pairs.vectors[vector : vector + n * r]).view(n, r),
            matrix=self.matrix,
            num_edges=graph.edges.shape[1],
            weight_kind=graph.weight_kind,
            edge_index=torch.from_numpy(graph.edges.copy()) if features.edge_attr is not None or left_out[0] else None,
            edge_weight=torch.from_numpy(weights.copy()) if weights is not None and left_out[0] else None,
            **features._asdict(),
            degrees=_degrees(graph) if self.matrix == NormalizedAdjacency.name and graph.weight_kind else None,
            truncation=Truncation(*left_out) if left_out[0] else None,
        )

    def _tensor(self, part: NDArray[np.floating]) -> Tensor:
        return torch.from_numpy(np.array(part)).to(self.dtype)  # a copy: the flat array may be a read-only mapping


def _degrees(graph: Graph) -> Tensor:
    source, target = graph.edges
    reverse = np.where(source == target, 0.0, 1.0 if graph.weights is None else graph.weights)
    n = graph.num_nodes
    return torch.from_numpy(np.bincount(source, graph.weights, n) + np.bincount(target, reverse, n))
