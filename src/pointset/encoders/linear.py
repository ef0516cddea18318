"""PST in linear time: the layers of ``pst-linear`` and ``pst-linear-edges``, which form no pair of points.

Without an MLP on pairs, attention factors: Σ_j ⟨q_i, k_j⟩ t_j = q_iᵀ (Σ_j k_j t_jᵀ), so that all points together are
one r × r (or r × t) matrix for each channel. State of B graphs with n points of rank r: scalars s (d, B, n), vectors
v (h, B, n, r); d = 2h. With ŝ = LayerNorm(s), v̂ the bounded v and ρ = Σ|λ|, a layer is

* q, k, a, b = W v̂: four maps on vectors; t, g, m = V ŝ + c: two rows of d scalars, m and t, and one of h, g;
* x_i = ρ/n Σ_j ⟨q_i, k_j⟩ t_j: heads on scalars, where channel c of q and k weighs channels c, c + h, … of t;
* y_i = ρ/n Σ_j ⟨q_i, k_j⟩ (1 + g_j) b_j: heads on vectors;
* z_i = ⟨y_i, a_i⟩ = ρ/n Σ_j ⟨q_i, k_j⟩ ⟨b_j, a_i⟩ (1 + g_j): products of two heads;
* s_i ← s_i + W_o ψ(gates of ŝ_i ⊙ (x_i ‖ z_i ‖ mean of m)) + b_o with ψ(u) = u / √(1 + mean u² / 25), in
  ``pst-linear-edges`` also ‖ Σ_j (Z_ij + e_ij) ⊙ t_j, the local term, with Z = D^-½AD^-½;
* s_i ← s_i + MLP(LayerNorm(s_i) ‖ ⟨q_i, a_i⟩);
* v_i ← v_i + α y_i, not in the last layer, whose vectors nothing reads.

Cost n·r²·h + n·r·h² + n·d² a layer and graph in time, n·(r·h + d) in memory. Equivariant to O(r) and to permutations of
the points. Nodes of large graphs are computed in chunks, which the backward pass computes again: beside the state, a
step holds the activations of one chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import embedding_bag
from torch.utils.checkpoint import checkpoint

from pointset.encoders.batch import PointGroup
from pointset.encoders.coordinates import Coordinates, EdgeWeights
from pointset.encoders.layers import (
    MLP,
    ChannelLinear,
    ChannelNorm,
    LayerStack,
    PointState,
    ScalarBound,
    VectorBound,
    enlarge_first_weights,
)
from pointset.encoders.products import by_autograd, gated, row_products
from pointset.errors import SpecError
from pointset.specs import Spec

# Of a chunk's vectors. With 64 MB, beyond the cache and what the allocator keeps, a step takes more than twice as long.
_CHUNK_BYTES = 8_000_000


# --- what a layer knows of the graph beside its points


class SparseMatrix(NamedTuple):
    """A symmetric N × N matrix row by row; it needs no gradient."""

    columns: Tensor  # (M,)
    first: Tensor  # (N + 1,) where each row begins
    values: Tensor  # (M,)


class _Times(Function):
    """Z x for symmetric Z, whose gradient is Z times the gradient: so it can be differentiated any number of times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        values = matrix.values.to(x.dtype)
        return embedding_bag(
            matrix.columns, x, matrix.first, mode="sum", per_sample_weights=values, include_last_offset=True
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _times(grad.contiguous(), ctx.matrix), None


def _times(x: Tensor, matrix: SparseMatrix) -> Tensor:
    """(N, d) → (N, d)."""
    if by_autograd():
        rows = torch.repeat_interleave(torch.arange(len(x), device=x.device), matrix.first.diff())
        messages = x.index_select(0, matrix.columns) * matrix.values.unsqueeze(-1)
        return torch.zeros_like(x).index_add(0, rows, messages)
    result: Tensor = _Times.apply(x, matrix)  # type: ignore[no-untyped-call]
    return result


class Surroundings(NamedTuple):
    """What the layers know of a group beside its points; it stands where other models have a state of pairs."""

    scale: Tensor  # (B, 1) ρ/n, of the sums over points
    points: tuple[Tensor, Tensor] | None = None  # Λ (B, r) and U (B, n, r), which are Z where they are all
    matrix: SparseMatrix | None = None  # D^-½AD^-½ of all B·n nodes, where the batch lists weighted edges
    group: PointGroup | None = None  # whose edges have features
    edges: Tensor | None = None  # (h, M) their embedding

    def times_matrix(self, x: Tensor) -> Tensor:
        """Σ_j Z_ij x_j with Z = D^-½AD^-½: (d, B, n) → (d, B, n)."""
        if self.matrix is not None:
            rows = _times(x.flatten(1).mT.contiguous(), self.matrix)
            return rows.mT.view_as(x)
        if self.points is None:
            raise SpecError("the layers of pst-linear-edges need the graph beside the points; expected LocalTerms")
        values, vectors = self.points
        components = vectors.mT @ x.permute(1, 2, 0)  # (B, r, d)
        return (vectors @ (values.unsqueeze(-1) * components)).permute(2, 0, 1)


def surroundings_of(state: PointState) -> Surroundings:
    """What stands in the place of pairs."""
    if not isinstance(state.p, Surroundings):
        raise SpecError(
            f"the layers of pst-linear need Surroundings beside the points, and got {type(state.p).__name__}; "
            "expected PointState(s, v, p=SumScale()(group)), or LocalTerms for pst-linear-edges"
        )
    return state.p


class SumScale(nn.Module):
    """Group → :class:`Surroundings` with ρ/n alone. Takes what all first states of pairs take, and needs none of it."""

    takes_padding = True
    SHAPES = "Λ → ρ/n (B, 1)"  # for the model's summary

    def __init__(self, edge: Spec = None, channels: int = 0, distances: nn.Module | None = None):
        super().__init__()

    def forward(self, group: PointGroup) -> Surroundings:
        """Group → what the layers know beside the points."""
        return Surroundings(1 / _points_for_one(group))


class LocalTerms(SumScale):
    """Also Z itself, exactly, and an embedding of the edges: for ``pst-linear-edges``.

    Points that are all of a graph are Z. Of truncated points the batch lists the weighted edges.
    """

    takes_padding = True
    SHAPES = "edges or points → Z; edges → e ({h}, M)"

    def __init__(self, edge: Spec = None, channels: int = 0, distances: nn.Module | None = None):
        super().__init__()
        self.embedding = None if edge is None else EdgeWeights(edge, channels, None)

    def forward(self, group: PointGroup) -> Surroundings:
        """Group → what the layers know beside the points."""
        found = super().forward(group)
        if group.edges is not None and group.edge_weight is not None:
            found = found._replace(matrix=normalized_matrix(group, group.edges, group.edge_weight))
        else:
            found = found._replace(points=(group.eigenvalues, group.eigenvectors))
        return found if self.embedding is None else found._replace(group=group, edges=self.embedding.by_edge(group))


def normalized_matrix(group: PointGroup, edges: Tensor, weights: Tensor) -> SparseMatrix:
    """D^-½AD^-½ of all nodes of a group from its edges (3, M) in both directions, self-loops once."""
    graphs, nodes, _ = group.shape
    graph, source, target = edges
    rows, columns = graph * nodes + source, graph * nodes + target
    order = torch.argsort(rows, stable=True)
    rows, columns, weights = rows[order], columns[order], weights[order]
    degrees = weights.new_zeros(graphs * nodes).index_add(0, rows, weights)
    root = torch.where(degrees > 0, degrees.clamp(min=torch.finfo(degrees.dtype).tiny).rsqrt(), 0.0)
    first = rows.new_zeros(graphs * nodes + 1)
    first[1:] = torch.bincount(rows, minlength=graphs * nodes).cumsum(0)
    return SparseMatrix(columns, first, (weights * root[rows] * root[columns]).to(group.eigenvectors.dtype))


def _points_for_one(group: PointGroup) -> Tensor:
    """n/ρ with ρ = Σ|λ|, (B, 1): with it √(n/ρ) U has rows of length near 1, however few eigenpairs are kept.

    For D^-½AD^-½ of a graph with an edge ρ is at least 1. Unlike the rank, it does not jump where an eigenvalue
    leaves 0.
    """
    size = group.eigenvalues.abs().sum(-1, keepdim=True).clamp(min=1)
    return (max(group.shape[1], 1) if group.padding is None else group.padding.nodes.clamp(min=1)) / size


class LinearCoordinates(Coordinates):
    """v_i = √(n/ρ) U_i ⊙ f(Λ), then v_i ← v_i + Σ_j e_ij ⊙ v_j over the edges where they have features.

    The sums run over the list of edges.
    """

    takes_padding = True

    def __init__(self, function: nn.Module, pairs: EdgeWeights | None = None, *, noise: float = 0.0):
        super().__init__(function, None, noise=noise)
        self.edges = pairs

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (h, B, n, r)."""
        length = _points_for_one(group).sqrt().unsqueeze(-1)  # (B, 1, 1)
        values, vectors = self._eigenpairs(group, generator)
        v: Tensor = (vectors * length).unsqueeze(0) * self._by_channel(values, group)
        return v if self.edges is None else v + group.sums_over_edges(self.edges.by_edge(group), v)


# --- the layers


class LinearPSTLayer(nn.Module):
    """A layer as the head of this file has it, with ``local`` the one of ``pst-linear-edges``."""

    takes_padding = True
    FIRST_STEP = 0.1  # with 1, what many layers multiply drowns the points, and training is slow (docs/encoders.md)

    def __init__(self, scalars: int, channels: int, *, last: bool = False, local: bool = False):
        super().__init__()
        self.channels, self.local = channels, local
        self.norm_s, self.norm_mixed, self.bound_v = ChannelNorm(), ChannelNorm(), VectorBound()
        self.bound_heads = ScalarBound()
        self.step = None if last else nn.Parameter(torch.full((channels, 1, 1, 1), self.FIRST_STEP))  # α
        self.queries = ChannelLinear(channels, 2 * channels, bias=False)  # q, a
        self.keys = ChannelLinear(channels, 2 * channels, bias=False)  # k, b
        self.values = ChannelLinear(scalars, 2 * scalars + channels)  # V: t, m, g
        self.gates = ChannelLinear(scalars, 2 * scalars + channels)  # of what a point receives: x, mean, z
        self.out = ChannelLinear((3 if local else 2) * scalars + channels, scalars)  # W_o
        self.mixer = MLP([scalars + channels, scalars, scalars])

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        around = surroundings_of(state)
        padding, nodes = state.padding, max(state.s.shape[2], 1)
        size = _chunk_size(state)
        run = _again if size is not None and torch.is_grad_enabled() else _once

        def split(x: Tensor | None, dim: int = 2) -> Sequence[Any]:
            """Once for each tensor: a slice by itself would have a gradient of the size of the whole."""
            return [x] * len(all_s) if x is None else _split(x, size, dim)

        all_s, all_v = _split(state.s, size, 2), _split(state.v, size, 2)
        rows = split(None if padding is None else padding.rows, 1)
        sums = [run(self._sums, *chunk) for chunk in zip(all_s, all_v, rows, strict=True)]
        together = _added([part[0] for part in sums]) * around.scale.view(-1, 1, 1)
        mean = _added([part[1] for part in sums]) / (nodes if padding is None else padding.nodes.clamp(min=1))
        local = self._local(around, torch.cat([part[2] for part in sums], 2))
        updated = [run(self._updated, *chunk, together, mean)
                   for chunk in zip(all_s, all_v, split(local), strict=True)]  # fmt: skip
        s = torch.cat([part[0] for part in updated], 2)
        if self.step is None:
            return state._replace(s=s)
        return state._replace(s=s, v=torch.cat([part[1] for part in updated], 2))

    def _sums(self, s: Tensor, v: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Of some points: Σ_j k_j (b'_j ‖ t_j)ᵀ, (h, B, r, r + k); Σ_j m_j, (d, B, 1); and t, (d, B, n)."""
        d, h = len(s), self.channels
        t, m, g = self.values(self.norm_s(s)).split([d, d, h])
        k, b = self.keys(self.bound_v(v)).chunk(2)
        received = torch.cat([gated(b, g, 1.0), by_vector_channel(t, h)], -1)
        return k.mT @ received, (m if rows is None else m * rows).sum(-1, keepdim=True), t

    def _updated(
        self, s: Tensor, v: Tensor, local: Tensor | None, together: Tensor, mean: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Some points and what all points sent them → scalars and vectors after the layer."""
        d, h, rank = len(s), self.channels, v.shape[-1]
        q, a = self.queries(self.bound_v(v)).chunk(2)
        y, x = (q @ together).split([rank, d // h], -1)
        of_x, of_mean, of_z = self.gates(self.norm_s(s)).split([d, d, h])
        heads = [(1 + of_x) * by_scalar_channel(x), (1 + of_z) * row_products(y, a), of_mean * mean]
        s = s + self.out(self.bound_heads(torch.cat(heads if local is None else [*heads, local])))
        s = s + self.mixer(torch.cat([self.norm_mixed(s), row_products(q, a)]))
        return s, v if self.step is None else v + self.step * y

    def _local(self, around: Surroundings, t: Tensor) -> Tensor | None:
        """Σ_j (Z_ij + e_ij) ⊙ t_j, the latter where edges have features; channel c of e weighs channels c, c + h, …"""
        if not self.local:
            return None
        local = around.times_matrix(t)
        if around.group is None or around.edges is None:
            return local
        weights = around.edges.repeat(len(t) // self.channels, 1)
        return local + around.group.sums_over_edges(weights, t.unsqueeze(-1)).squeeze(-1)


def by_vector_channel(t: Tensor, channels: int) -> Tensor:
    """Scalars (d, B, n) → (h, B, n, k): channel c + h·j of the scalars stands at [c, …, j]."""
    scalars, graphs, nodes = t.shape
    return t.reshape(scalars // channels, channels, graphs, nodes).permute(1, 2, 3, 0)


def by_scalar_channel(x: Tensor) -> Tensor:
    """And back: (h, B, n, k) → (d, B, n)."""
    channels, graphs, nodes, repeats = x.shape
    return x.permute(3, 0, 1, 2).reshape(repeats * channels, graphs, nodes)


def _chunk_size(state: PointState) -> int | None:
    """How many nodes of each graph are computed together; None: all."""
    if by_autograd():
        return None
    channels, graphs, nodes, rank = state.v.shape
    size = max(1, _CHUNK_BYTES // max(1, state.v.element_size() * channels * graphs * rank))
    return size if size < nodes else None


def _split(x: Tensor, size: int | None, dim: int) -> Sequence[Tensor]:
    return [x] if size is None else torch.split(x, size, dim)


def _added(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def _once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _again(function: Callable[..., Any], *arguments: Any) -> Any:
    """The same; the backward pass computes it again instead of keeping what it needs."""
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False)


class LocalPSTLayer(LinearPSTLayer):
    """A layer of ``pst-linear-edges``: points also receive from their neighbours, each edge by itself."""

    takes_padding = True

    def __init__(self, scalars: int, channels: int, *, last: bool = False):
        super().__init__(scalars, channels, last=last, local=True)


class LinearPST(LayerStack):
    """``pst-linear``: layers on s + w ρ/n; ``REPEATS`` is k, scalar channels for each channel of vectors.

    The points are longer by √(n/ρ) than those of the graph and sums smaller by ρ/n, so that without this number the
    layers would take a cycle of four nodes for two separate edges.
    """

    takes_padding = True
    REPEATS = 2
    ALL_PAIRS = False
    LAYER: type[LinearPSTLayer] = LinearPSTLayer

    def __init__(self, channels: int, layers: int):
        def layer(scalars: int, *, last: bool) -> LinearPSTLayer:
            return self.LAYER(scalars, scalars // self.REPEATS, last=last)

        super().__init__(layer, channels, layers)
        enlarge_first_weights(self)
        self.size = nn.Parameter(torch.randn(channels))

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        scale = surroundings_of(state).scale
        return super().forward(state._replace(s=state.s + self.size.view(-1, 1, 1) * scale))


class LocalLinearPST(LinearPST):
    """``pst-linear-edges``: the first scalars are Σ_k θ_k ⊙ Z^k s, with learned θ (K + 1, d); then layers.

    θ begins as 0.9^k, the weights of a personalised PageRank with restart 0.1.
    """

    takes_padding = True
    LAYER: type[LinearPSTLayer] = LocalPSTLayer
    STEPS = 8
    RESTART = 0.1

    def __init__(self, channels: int, layers: int):
        super().__init__(channels, layers)
        weights = self.RESTART * (1 - self.RESTART) ** torch.arange(self.STEPS + 1.0)
        weights[-1] /= self.RESTART
        self.steps = nn.Parameter(weights.unsqueeze(-1).repeat(1, channels))

    def forward(self, state: PointState) -> PointState:
        """State → state, with the same shapes."""
        around = surroundings_of(state)
        *others, s = (weights.view(-1, 1, 1) * state.s for weights in self.steps)
        for term in reversed(others):  # Horner's scheme
            s = term + around.times_matrix(s)
        return super().forward(state._replace(s=s))
