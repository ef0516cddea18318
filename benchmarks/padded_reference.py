"""The presets `pst-released` and `pst` written the padded way, to measure against: encoder_speed.py runs them.

The same mathematics as `PointModel.from_preset("pst-released")` and `("pst")`, laid out as the authors lay theirs out:
a batch padded to its largest graph, channels last, einsum for every product, boolean masks, the eigenvectors of the
padded Laplacian computed inside the forward pass in the type of the model (float32), gradients by autograd. Written
from the description of the models; `tests/test_padded_reference.py` shows that outputs and gradients agree with ours
for the same weights. Of `pst-released` there are edge features and positions (`pst-released-star`), too, and the
one-layer embedding of `pst-released-zinc`; of `pst` there are neither.

B graphs, N nodes of the largest, M = N − 1 padded rank (the smallest eigenpair is always dropped), d channels.

As the authors do, the last layer also computes new vectors, which nothing reads: their weights get no gradient and
cannot change the result. Our models have no such weights; here they hold a fixed number. The random order of the nodes
that the authors draw before each decomposition is left out: it changes neither the result nor the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from pointset import Categories, PointModel
from pointset.encoders.coordinates import LearnedFromRoot
from pointset.encoders.pst import PSTLayer
from pointset.encoders.released import ReleasedPSTLayer
from pointset.points.graphs import Graph
from pointset.registry import preset_named
from pointset.specs import Reals, Spec

ZERO_BELOW = 1e-4  # eigenvalues of smaller magnitude are masked
LENGTH_FLOOR = 1e-3
LONGEST_VECTOR = 3.0
SIZE_EXPONENT = -0.925


class PaddedBatch(NamedTuple):
    """Graphs padded to the largest."""

    adjacency: Tensor  # (B, N, N) weights
    categories: Tensor  # (B, N, c) from 1; 0 is padding
    present: Tensor  # (B, N) whether there is a node
    edges: Tensor | None = None  # (B, N, N, c) features, 0 where there is no edge: reals, or categories from 1
    positions: Tensor | None = None  # (B, N, 3)


def pad(graphs: Sequence[Graph], dtype: torch.dtype = torch.float32) -> PaddedBatch:
    """Graphs with categorical node features ``x``, (n,) or (n, c), → a padded batch."""
    largest = max(graph.num_nodes for graph in graphs)
    adjacency = torch.zeros(len(graphs), largest, largest, dtype=dtype)
    categories, present = [], torch.zeros(len(graphs), largest, dtype=torch.bool)
    edges, positions = _padded_edges(graphs, largest, dtype), None
    if graphs[0].features.pos is not None:
        positions = torch.zeros(len(graphs), largest, 3, dtype=dtype)
        for position, graph in enumerate(graphs):
            positions[position, : graph.num_nodes] = torch.as_tensor(graph.features.pos)
    for position, graph in enumerate(graphs):
        weights = 1.0 if graph.weights is None else torch.as_tensor(graph.weights, dtype=dtype)
        low, high = torch.as_tensor(graph.edges)
        adjacency[position, low, high] = weights
        adjacency[position, high, low] = weights
        present[position, : graph.num_nodes] = True
        if graph.features.x is None:
            raise ValueError(f"graph {position} has no node features; the reference expects categories")
        shifted = graph.features.x.reshape(graph.num_nodes, -1) + 1
        categories.append(nn.functional.pad(shifted, (0, 0, 0, largest - graph.num_nodes)))
    return PaddedBatch(adjacency, torch.stack(categories), present, edges, positions)


def _padded_edges(graphs: Sequence[Graph], largest: int, dtype: torch.dtype) -> Tensor | None:
    """(B, N, N, c): reals as they are, whole numbers one more, so that 0 is left for what is no edge."""
    first = graphs[0].features.edge_attr
    if first is None:
        return None
    is_real, columns = first.is_floating_point(), first.reshape(len(first), -1).shape[1]
    edges = torch.zeros(len(graphs), largest, largest, columns, dtype=dtype if is_real else torch.long)
    for position, graph in enumerate(graphs):
        assert graph.features.edge_attr is not None
        rows = graph.features.edge_attr.reshape(-1, columns).to(edges.dtype) + (0 if is_real else 1)
        low, high = torch.as_tensor(graph.edges)
        edges[position, low, high] = rows
        edges[position, high, low] = rows
    return edges


def eigenpairs(adjacency: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (B, M) and eigenvectors (B, N, M) of the padded Laplacians, without the smallest pair."""
    laplacian = torch.diag_embed(adjacency.sum(-1)) - adjacency
    values, vectors = torch.linalg.eigh(laplacian)
    return values[:, 1:], vectors[:, :, 1:]


class MLP(nn.Sequential):
    """Linear layers of the given widths; SiLU after each (after LayerNorm with ``norm``), after the last with tail."""

    def __init__(self, widths: Sequence[int], *, norm: bool, tail: bool = True):
        parts: list[nn.Module] = []
        for position, (inputs, outputs) in enumerate(pairwise(widths)):
            parts.append(nn.Linear(inputs, outputs))
            if position < len(widths) - 2 or tail:
                parts += [nn.LayerNorm(outputs)] if norm else []
                parts.append(nn.SiLU())
        super().__init__(*parts)


class PaddedDeepSet(nn.Module):
    """x ← x + mean(MLP_a(x)) ⊙ MLP_b(x), the mean over the eigenvalues that are not masked."""

    def __init__(self, channels: int):
        super().__init__()
        self.pooled = MLP([channels] * 3, norm=True)
        self.own = MLP([channels] * 3, norm=True)

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        """(B, M, d), (B, M) → (B, M, d)."""
        total = self.pooled(x).masked_fill(~kept.unsqueeze(-1), 0).sum(1, keepdim=True)
        count = kept.sum(1).clamp(min=1).view(-1, 1, 1)
        result: Tensor = x + total / count * self.own(x)
        return result


class PaddedEigenvalues(nn.Module):
    """√λ → MLP 1 → 2d → d → three DeepSet layers; masked eigenvalues give zeros."""

    def __init__(self, channels: int):
        super().__init__()
        self.embedding = self.made_embedding(channels)
        self.layers = nn.ModuleList(PaddedDeepSet(channels) for _ in range(3))

    def forward(self, eigenvalues: Tensor, kept: Tensor) -> Tensor:
        """(B, M), (B, M) → (B, M, d)."""
        x: Tensor = self.embedding(eigenvalues.clamp(min=0).sqrt().unsqueeze(-1))
        for layer in self.layers:
            x = layer(x, kept)
        return x.masked_fill(~kept.unsqueeze(-1), 0)

    def made_embedding(self, channels: int) -> nn.Module:
        """Of one number."""
        return MLP([1, 2 * channels, channels], norm=True)


class PaddedShortEigenvalues(PaddedEigenvalues):
    """The same with an embedding of one layer, 1 → d."""

    def made_embedding(self, channels: int) -> nn.Module:
        """Of one number."""
        return MLP([1, channels], norm=True)


class PaddedEdges(nn.Module):
    """e_ij: an embedding of the edge's features, for PST* times one of the distance."""

    def __init__(self, edge: Spec, channels: int, distances: bool):
        super().__init__()
        sizes = edge.sizes if isinstance(edge, Categories) else ()
        self.tables = nn.ModuleList(nn.Embedding(size + 1, channels, padding_idx=0) for size in sizes)
        self.norm = nn.LayerNorm(channels, elementwise_affine=False)
        self.linear = nn.Linear(edge.width, channels) if isinstance(edge, Reals) else None
        self.distances = MLP([1, 2 * channels, channels], norm=True) if distances else None

    def forward(self, batch: PaddedBatch) -> Tensor:
        """Batch → (B, N, N, d), of pairs that are there."""
        result: Tensor | None = None
        if batch.edges is not None and self.linear is not None:
            result = self.linear(batch.edges)
        elif batch.edges is not None and len(self.tables):
            result = self.norm(sum(table(batch.edges[..., c]) for c, table in enumerate(self.tables)))
        if self.distances is not None and batch.positions is not None:
            near = self.distances(torch.cdist(batch.positions, batch.positions).unsqueeze(-1))
            result = near if result is None else result * near
        if result is None:
            raise ValueError("the batch has neither edge features nor positions, for which the reference was made")
        pairs = batch.present.unsqueeze(1) & batch.present.unsqueeze(2)
        return result.masked_fill(~pairs.unsqueeze(-1), 0)


class PaddedFromRoot(nn.Module):
    """f(Λ) = a ⊙ √Λ + DeepSet(Λ); masked eigenvalues give zeros."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.empty(channels))
        self.learned = PaddedEigenvalues(channels)

    def forward(self, eigenvalues: Tensor, kept: Tensor) -> Tensor:
        """(B, M), (B, M) → (B, M, d)."""
        roots = eigenvalues.clamp(min=0).sqrt().masked_fill(~kept, 0)
        result: Tensor = roots.unsqueeze(-1) * self.scale + self.learned(eigenvalues, kept)
        return result


class PaddedLayer(nn.Module):
    """One layer: scalars (B, N, d), vectors (B, N, M, d), attention (B, N, N, d) that grows from layer to layer."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm_s = nn.LayerNorm(channels, elementwise_affine=False)
        self.query, self.key, self.left, self.right, self.value_v = (
            nn.Linear(channels, channels, bias=False) for _ in range(5)
        )
        self.pair_mlp = MLP([channels] * 3, norm=False)
        self.gate_s, self.gate_v, self.value_s = (MLP([channels] * 2, norm=False) for _ in range(3))

    def forward(
        self, s: Tensor, v: Tensor, attention: Tensor | None, pairs: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """State, attention before, pairs that are there (B, N, N), n^-0.925 (B, 1, 1, 1) → state, attention."""
        normed_s = self.norm_s(s)
        normed_v = normalize(v - v.mean(-1, keepdim=True), dim=2, eps=LENGTH_FLOOR)
        products = torch.einsum("bimd,bjmd->bijd", self.query(normed_v), self.key(normed_v))
        term = (self.pair_mlp(products) * scale).masked_fill(~pairs.unsqueeze(-1), 0)
        attention = term if attention is None else attention + term
        lengths = torch.einsum("bimd,bimd->bid", self.left(normed_v), self.right(normed_v))
        mixed_s = normed_s + self.gate_s(normed_s) * lengths
        mixed_v = normed_v + normed_v * self.gate_v(normed_s).unsqueeze(2)
        s = s + torch.einsum("bijd,bjd->bid", attention, self.value_s(mixed_s))
        v = v + torch.einsum("bijd,bjmd->bimd", attention, self.value_v(mixed_v))
        return s, v, attention


class PaddedPSTLayer(nn.Module):
    """One layer of `pst`, equations (1) to (4): each has attention of its own, which also sees the scalars."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm_s = nn.LayerNorm(channels, elementwise_affine=False)
        self.query, self.key, self.left, self.right, self.query_s, self.key_s, self.w3, self.w4 = (
            nn.Linear(channels, channels, bias=False) for _ in range(8)
        )
        self.pair_mlp = MLP([2 * channels, channels, channels], norm=False, tail=False)
        self.mlp1 = MLP([2 * channels, channels, channels], norm=False, tail=False)
        self.mlp2 = MLP([channels] * 3, norm=False, tail=False)

    def forward(
        self, s: Tensor, v: Tensor, attention: Tensor | None, pairs: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """State, attention before (not used), pairs that are there, n^-0.925 → state, attention."""
        normed_s = self.norm_s(s)
        lengths = v.square().sum(2).mean(-1)[..., None, None]  # (B, N, 1, 1)
        bound_v = v * (1 + lengths / LONGEST_VECTOR**2).rsqrt()
        of_scalars = torch.einsum("bid,bjd->bijd", self.query_s(normed_s), self.key_s(normed_s))
        of_vectors = torch.einsum("bimd,bjmd->bijd", self.query(bound_v), self.key(bound_v))
        term = self.pair_mlp(torch.cat([of_scalars, of_vectors], dim=-1))
        attention = (term * scale).masked_fill(~pairs.unsqueeze(-1), 0)
        diagonal = torch.einsum("bimd,bimd->bid", self.left(bound_v), self.right(bound_v))
        mixed_s = self.mlp1(torch.cat([normed_s, diagonal], dim=-1))
        mixed_v = self.w3(bound_v * self.mlp2(normed_s).unsqueeze(2)) + self.w4(bound_v)
        s = s + torch.einsum("bijd,bjd->bid", attention, mixed_s)
        v = v + torch.einsum("bijd,bjmd->bimd", attention, mixed_v)
        return s, v, attention


class PaddedModel(nn.Module):
    """A model for graphs with categorical node features, mean over the nodes at the end."""

    function_type: type[nn.Module]
    layer_type: type[nn.Module]

    def __init__(
        self,
        sizes: Sequence[int],
        channels: int,
        layers: int,
        out: int = 1,
        edge: Spec = None,
        distances: bool = False,
    ):
        super().__init__()
        self.edges = None if edge is None and not distances else PaddedEdges(edge, channels, distances)
        self.tables = nn.ModuleList(nn.Embedding(size + 1, channels, padding_idx=0) for size in sizes)
        self.norm_s = nn.LayerNorm(channels, elementwise_affine=False)
        self.function = self.function_type(channels)
        self.layers = nn.ModuleList(self.layer_type(channels) for _ in range(layers))
        self.readout = nn.Linear(channels, out)

    def forward(self, batch: PaddedBatch) -> Tensor:
        """Batch → (B, out)."""
        values, vectors = eigenpairs(batch.adjacency)
        kept = values.abs() >= ZERO_BELOW
        vectors = vectors * (batch.present.unsqueeze(2) & kept.unsqueeze(1))
        v = vectors.unsqueeze(-1) * self.function(values, kept).unsqueeze(1)
        if self.edges is not None:  # the channels c of the edges are summed over
            v = torch.einsum("bijc,bjmd->bimd", self.edges(batch), v)
        s: Tensor = self.norm_s(sum(table(batch.categories[..., c]) for c, table in enumerate(self.tables)))
        count = batch.present.sum(1).view(-1, 1).to(v.dtype)
        scale = (count**SIZE_EXPONENT).view(-1, 1, 1, 1)
        pairs = batch.present.unsqueeze(1) & batch.present.unsqueeze(2)
        attention: Tensor | None = None
        for layer in self.layers:
            s, v, attention = layer(s, v, attention, pairs, scale)
        pooled = s.masked_fill(~batch.present.unsqueeze(-1), 0).sum(1) / count
        result: Tensor = self.readout(pooled)
        return result


class PaddedReleased(PaddedModel):
    """The released model."""

    function_type, layer_type = PaddedEigenvalues, PaddedLayer


class PaddedPST(PaddedModel):
    """The paper's model as `pst` has it."""

    function_type, layer_type = PaddedFromRoot, PaddedPSTLayer


class PaddedShort(PaddedModel):
    """The released model with an embedding of eigenvalues in one layer."""

    function_type, layer_type = PaddedShortEigenvalues, PaddedLayer


REFERENCES: dict[str, type[PaddedModel]] = {
    "pst-released": PaddedReleased,
    "pst-released-star": PaddedReleased,
    "pst-released-zinc": PaddedShort,
    "pst": PaddedPST,
}
TIMED = ("pst-released", "pst")  # by encoder_speed.py


class SharedWeight(NamedTuple):
    """A weight of ours and the same weight of the reference; ``rows`` and ``their_rows`` say which rows are meant."""

    ours: Tensor
    theirs: Tensor
    rows: slice = slice(None)
    their_rows: slice = slice(None)


def reference_of(model: PointModel) -> PaddedModel:
    """The reference with the weights of a model of one of these presets with categorical node features."""
    settings = model.settings
    if settings is None or settings.preset not in REFERENCES or not isinstance(settings.node, Categories):
        raise ValueError(f"the reference knows {' and '.join(REFERENCES)} with categorical node features only")
    if settings.pooling != "mean" or settings.level != "graph":
        raise ValueError("the reference knows no pooling but the mean over the nodes")
    if settings.preset == "pst" and settings.edge is not None:
        raise ValueError("the reference of pst knows no edge features")
    reference = REFERENCES[settings.preset](
        settings.node.sizes,
        settings.dim,
        settings.layers,
        settings.out,
        settings.edge,
        preset_named(settings.preset).uses_positions,
    )
    reference.to(model.readout.linear.weight.dtype)
    with torch.no_grad():
        for parameter in reference.parameters():  # padding stays 0; of the last layer's vectors nothing is read
            parameter.fill_(1 / settings.dim)
        for table in (*reference.tables, *([] if reference.edges is None else reference.edges.tables)):
            next(table.parameters())[0] = 0
        for weight in shared_weights(model, reference):
            weight.theirs[weight.their_rows] = weight.ours[weight.rows]
    return reference


def shared_weights(model: PointModel, reference: PaddedModel) -> Iterator[SharedWeight]:
    """Every weight of ours beside its place in the reference."""
    for ours, theirs in zip(model.scalars.parameters(), reference.tables.parameters(), strict=True):
        yield SharedWeight(ours, theirs, their_rows=slice(1, None))  # row 0 is padding there
    if reference.edges is not None:
        yield from _of_edges(model.coordinates.pairs, reference.edges)
    yield from _of_function(model.coordinates.function, reference.function)
    our_layers = [module for module in model.encoder.modules() if isinstance(module, ReleasedPSTLayer | PSTLayer)]
    for our_layer, their_layer in zip(our_layers, reference.layers, strict=True):
        if isinstance(our_layer, PSTLayer) and isinstance(their_layer, PaddedPSTLayer):
            yield from _of_pst_layer(our_layer, their_layer)
        elif isinstance(our_layer, ReleasedPSTLayer) and isinstance(their_layer, PaddedLayer):
            yield from _of_released_layer(our_layer, their_layer)
    yield from _in_order(model.readout.linear, reference.readout)


def _of_edges(ours: Any, theirs: PaddedEdges) -> Iterator[SharedWeight]:
    if ours.tables is not None:
        for mine, other in zip(ours.tables.parameters(), theirs.tables.parameters(), strict=True):
            yield SharedWeight(mine, other, their_rows=slice(1, None))
    if theirs.linear is not None:
        yield from _in_order(ours.linear, theirs.linear)
    if theirs.distances is not None:
        yield from _in_order(ours.distances, theirs.distances)


def _of_function(ours: nn.Module | Tensor, theirs: nn.Module) -> Iterator[SharedWeight]:
    if isinstance(ours, LearnedFromRoot) and isinstance(theirs, PaddedFromRoot):
        yield SharedWeight(ours.root.scale, theirs.scale)
        ours, theirs = ours.learned, theirs.learned
    assert isinstance(ours, nn.Module)
    yield from _in_order(ours, theirs)


def _of_released_layer(ours: ReleasedPSTLayer, theirs: PaddedLayer) -> Iterator[SharedWeight]:
    yield from _in_turn(ours.projections.weight, theirs.query, theirs.key, theirs.left, theirs.right)
    yield from _in_order(ours.attention, theirs.pair_mlp)
    yield from _in_order(ours.gate_s, theirs.gate_s)
    yield from _in_order(ours.value_s, theirs.value_s)
    if ours.gate_v is not None and ours.value_v is not None:
        yield from _in_order(ours.gate_v, theirs.gate_v)
        yield from _in_order(ours.value_v, theirs.value_v)


def _of_pst_layer(ours: PSTLayer, theirs: PaddedPSTLayer) -> Iterator[SharedWeight]:
    yield from _in_turn(ours.projections_v.weight, theirs.query, theirs.key, theirs.left, theirs.right)
    yield from _in_turn(ours.projections_s.weight, theirs.query_s, theirs.key_s)
    yield from _in_order(ours.attention, theirs.pair_mlp)
    yield from _in_order(ours.mixer_s.mlp1, theirs.mlp1)
    if ours.mixer_v is not None:
        yield from _in_order(ours.mixer_v.mlp2, theirs.mlp2)
        yield from _in_order(ours.mixer_v.w3, theirs.w3)
        yield from _in_order(ours.mixer_v.w4, theirs.w4)


def _in_turn(stacked: Tensor, *linears: nn.Linear) -> Iterator[SharedWeight]:
    """Square weights that stand one below the other in one of ours."""
    for position, linear in enumerate(linears):
        rows = slice(position * linear.out_features, (position + 1) * linear.out_features)
        yield SharedWeight(stacked, linear.weight, rows)


def _in_order(ours: nn.Module, theirs: nn.Module) -> Iterator[SharedWeight]:
    """Modules whose weights come in the same order: weight, bias, scale, shift."""
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        yield SharedWeight(mine, other)
