"""Message passing over the edges of a whole batch at once: GIN and GINE, GCN, GatedGCN, and what they share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, relu

from pointset.baselines.graphs import SparseGraphs, united
from pointset.encoders.layers import BatchEncoder


class MessagePassing(BatchEncoder):
    """Base of the encoders that see a batch as rows of nodes, (N, d), and one list of edges."""

    ALL_PAIRS = False

    def forward(self, scalars: list[Tensor], structures: list[Any]) -> list[Tensor]:
        """For each group the first scalars (d, B, n) and its :class:`GroupEdges` → (d, B, n) each."""
        sizes = [(s.shape[1], s.shape[2]) for s in scalars]
        rows = torch.cat([s.flatten(1) for s in scalars], dim=1).mT.contiguous()
        if not len(rows):  # graphs without nodes only
            return scalars
        passed = self.pass_messages(rows, united(structures, sizes))
        parts = torch.split(passed, [graphs * n for graphs, n in sizes])
        return [
            part.view(graphs, n, passed.shape[1]).movedim(-1, 0) for part, (graphs, n) in zip(parts, sizes, strict=True)
        ]

    @abstractmethod
    def pass_messages(self, h: Tensor, graphs: SparseGraphs) -> Tensor:
        """(N, d) → (N, d)."""


class RowNorm(nn.Module):
    """Batch normalisation of rows (N, d), over all nodes (or edges) of the batch.

    Differs from ``nn.BatchNorm1d`` in two things: it does not count batches, as the count is a whole number among the
    weights and nothing reads it; and a training batch of one row, which has no variance, or of none is normalised by
    the running statistics.
    """

    EPSILON, MOMENTUM = 1e-5, 0.1

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(N, d) → (N, d)."""
        of_batch = self.training and len(x) > 1
        return batch_norm(x, self.mean, self.variance, self.scale, self.shift, of_batch, self.MOMENTUM, self.EPSILON)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return str(len(self.scale))


class GINConvolution(nn.Module):
    """GIN: MLP((1 + ε) h_i + Σ_j w_ij h_j); with edge features GINE: MLP((1 + ε) h_i + Σ_j ReLU(h_j + e_ij)).

    Xu et al. (2019), Hu et al. (2020). PyG has a class for each of the two, of which a model would have to know at the
    beginning which it needs, and neither takes weights; where they apply the results are the same (tests).
    """

    def __init__(self, mlp: nn.Module):
        super().__init__()
        self.mlp = mlp
        self.epsilon = nn.Parameter(torch.zeros(()))

    def forward(
        self, h: Tensor, edge_index: Tensor, *, weights: Tensor | None = None, features: Tensor | None = None
    ) -> Tensor:
        """(N, d), (2, M), (M,), (M, d) → (N, d)."""
        source, target = edge_index
        messages = h.index_select(0, source)
        if features is not None:
            messages = relu(messages + features)
        if weights is not None:
            messages = messages * weights.unsqueeze(-1)
        updated: Tensor = self.mlp((1 + self.epsilon) * h + sum_at(target, messages, len(h)))
        return updated


class GINLayer(nn.Module):
    """h ← h + ReLU(norm(GIN(h)))."""

    def __init__(self, channels: int):
        super().__init__()
        self.convolution = GINConvolution(
            nn.Sequential(nn.Linear(channels, channels), RowNorm(channels), nn.ReLU(), nn.Linear(channels, channels))
        )
        self.norm = RowNorm(channels)

    def forward(self, h: Tensor, graphs: SparseGraphs) -> Tensor:
        """(N, d) → (N, d)."""
        updated = self.convolution(h, graphs.edge_index, weights=graphs.weights, features=graphs.features)
        return h + relu(self.norm(updated))


class GIN(MessagePassing):
    """Graph isomorphism network, with edge features GINE; at most as strong as 1-WL."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(GINLayer(channels) for _ in range(layers))

    def pass_messages(self, h: Tensor, graphs: SparseGraphs) -> Tensor:
        """(N, d) → (N, d)."""
        for layer in self.layers:
            h = layer(h, graphs)
        return h


class GCNLayer(nn.Module):
    """h ← h + ReLU(norm(D̃^-½ (A + I) D̃^-½ h W)), D̃ the degrees of A + I (Kipf & Welling, 2017)."""

    def __init__(self, channels: int):
        from torch_geometric.nn import GCNConv  # the import takes a second, and not every model needs it

        super().__init__()
        self.convolution = GCNConv(channels, channels)
        self.norm = RowNorm(channels)

    def forward(self, h: Tensor, edge_index: Tensor, weights: Tensor | None) -> Tensor:
        """(N, d), (2, M), (M,) → (N, d)."""
        return h + relu(self.norm(self.convolution(h, edge_index, weights)))


class GCN(MessagePassing):
    """Graph convolutional network. A weight counts by its size |w|, as degrees have a root.

    It has no place for edge features; so each node begins with the mean of those of its edges added to its own.
    """

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(channels) for _ in range(layers))

    def pass_messages(self, h: Tensor, graphs: SparseGraphs) -> Tensor:
        """(N, d) → (N, d)."""
        if graphs.features is not None:
            h = h + mean_at(graphs.edge_index[1], graphs.features, len(h))
        weights = None if graphs.weights is None else graphs.weights.abs()
        for layer in self.layers:
            h = layer(h, graphs.edge_index, weights)
        return h


def sum_at(target: Tensor, messages: Tensor, nodes: int) -> Tensor:
    """Σ of the messages (M, d) to each node, ``target`` (M,) → (nodes, d)."""
    return messages.new_zeros(nodes, messages.shape[1]).index_add(0, target, messages)


def mean_at(target: Tensor, messages: Tensor, nodes: int) -> Tensor:
    """Their mean; zero where there are none."""
    counts = torch.bincount(target, minlength=nodes).clamp(min=1)
    return sum_at(target, messages, nodes) / counts.unsqueeze(-1)


class GatedGCNLayer(nn.Module):
    """One layer on nodes h (N, d) and directed edges e (M, d), from j to i.

        ê_ij = A h_i + B h_j + C e_ij
        ĥ_i  = U h_i + Σ_j σ(ê_ij) ⊙ V h_j
        h_i ← h_i + ReLU(norm(ĥ_i)),  e_ij ← e_ij + ReLU(norm(ê_ij))

    Later versions divide the gates by their sum. Then nodes that begin alike get a mean of equal messages, and graphs
    without node features all look the same; so here, as in the first version, they are not divided. PyG's
    ResGatedGraphConv does not update the edges; nor does the last layer here, as nothing would read them.
    """

    def __init__(self, channels: int, *, last: bool):
        super().__init__()
        self.nodes = nn.Linear(channels, 4 * channels)  # A, B, U, V
        self.edges = nn.Linear(channels, channels)  # C
        self.node_norm = RowNorm(channels)
        self.edge_norm = None if last else RowNorm(channels)

    def forward(self, h: Tensor, e: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """(N, d), (M, d), (2, M) → (N, d), (M, d)."""
        source, target = edge_index
        at_target, at_source, own, sent = self.nodes(h).chunk(4, dim=1)
        edges = at_target.index_select(0, target) + at_source.index_select(0, source) + self.edges(e)
        received = sum_at(target, torch.sigmoid(edges) * sent.index_select(0, source), len(h))
        h = h + relu(self.node_norm(own + received))
        return h, e if self.edge_norm is None else e + relu(self.edge_norm(edges))


class GatedGCN(MessagePassing):
    """Residual gated graph convolutions (Bresson & Laurent, 2018) with states of edges (Dwivedi et al., 2020).

    Without edge features an edge begins as its weight, the same in all channels.
    """

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(GatedGCNLayer(channels, last=at == layers - 1) for at in range(layers))

    def pass_messages(self, h: Tensor, graphs: SparseGraphs) -> Tensor:
        """(N, d) → (N, d)."""
        if graphs.features is not None:
            e = graphs.features
        elif graphs.weights is not None:
            e = graphs.weights.unsqueeze(-1).expand(-1, h.shape[1])
        else:
            raise TypeError("edges have neither features nor weights")
        for layer in self.layers:
            h, e = layer(h, e, graphs.edge_index)
        return h
