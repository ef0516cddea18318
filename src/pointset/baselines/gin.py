"""GIN (Xu et al., 2019), message passing as strong as 1-WL."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GINConv, global_add_pool


class GIN(nn.Module):
    """h_i ← MLP((1 + ε) h_i + Σ_{j ∈ N(i)} h_j) in each layer; h begins as 1, and the graph's row is Σ_i h_i."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.channels = channels
        widths = [1] + [channels] * layers
        self.layers = nn.ModuleList(
            GINConv(
                nn.Sequential(nn.Linear(inputs, channels), nn.SiLU(), nn.Linear(channels, channels)), train_eps=True
            )
            for inputs in widths[:-1]
        )

    def embed(self, batch: Batch) -> Tensor:
        """A PyG batch of graphs without features → (graphs, channels)."""
        h = torch.ones(batch.num_nodes, 1, dtype=next(self.parameters()).dtype)
        for layer in self.layers:
            h = layer(h, batch.edge_index)
        rows: Tensor = global_add_pool(h, batch.batch, batch.num_graphs)
        return rows
