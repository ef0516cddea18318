"""Residual gated graph convolutions, GatedGCN (Bresson & Laurent, 2018), with edge states (Dwivedi et al., 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from pointset.baselines.message_passing import MessagePassing, RowNorm, sum_at
from pointset.baselines.sparse_graphs import SparseGraphs


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
    """Gated graph convolutions. Without edge features an edge begins as its weight, the same in all channels."""

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
