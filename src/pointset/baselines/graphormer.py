"""Graphormer-style transformer (Ying et al., 2021): attention is biased by shortest-path distances.

* Spatial encoding: a learned number for each distance and head is added before the softmax, the same in all layers.
* Centrality encoding: a learned row for each number of neighbours is added to the first scalars.
* Edge encoding: a linear map of an edge's embedding is added to the bias at that edge (the original takes the mean over
  the edges of a shortest path; here paths of more than one edge have none).

No virtual node: the common readout pools. Edge weights enter as presence only. Attention is a mean: in a regular graph
without node features all rows are equal, and stay so, whatever the bias.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from pointset.baselines.dense_graphs import hop_distances, places_of_edges, same_component
from pointset.baselines.node_attention import AttentionLayers, heads_of
from pointset.baselines.sparse_graphs import restored_adjacency
from pointset.encoders.batch import PointGroup
from pointset.encoders.layers import BatchEncoder, ChannelLinear
from pointset.encoders.pairs import PairWeights

FARTHEST = 20  # greater distances count as this one
_MOST_NEIGHBOURS = 63  # higher degrees count as this one


class GraphormerStructure(NamedTuple):
    """What Graphormer knows of the graphs of a group."""

    bias: Tensor  # (B, heads, n, n)
    degrees: Tensor  # (B, n) whole numbers


class DistanceBias(nn.Module):
    """b_h(distance) for each head: distances 0 to 20, and one for nodes of different components."""

    def __init__(self, channels: int):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(FARTHEST + 2, heads_of(channels)))

    def forward(self, distances: Tensor) -> Tensor:
        """(B, n, n) → (heads, B, n, n)."""
        return embedding(distances, self.table).movedim(-1, 0).contiguous()


class StructureBias(nn.Module):
    """Bias by distances and edges, and degrees. Noise on coordinates is not for this model."""

    def __init__(self, function: nn.Module, pairs: PairWeights | None = None, *, noise: float = 0.0):
        super().__init__()
        self.function, self.pairs = function, pairs
        self.of_edges = None if pairs is None else ChannelLinear(pairs.channels, heads_of(pairs.channels), bias=False)

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> GraphormerStructure:
        """Group → its structure."""
        edges = restored_adjacency(group)
        distances = torch.where(same_component(edges), hop_distances(edges, FARTHEST), FARTHEST + 1)
        bias: Tensor = self.function(distances)
        if self.pairs is not None and self.of_edges is not None:
            by_edge = self.of_edges(self.pairs.by_edge(group))  # (heads, M)
            bias = bias.flatten(1).index_add(1, places_of_edges(group), by_edge.to(bias.dtype)).view_as(bias)
        return GraphormerStructure(bias.transpose(0, 1), (edges != 0).sum(-1))


class Graphormer(BatchEncoder):
    """Transformer layers with the bias of the structure, on scalars with the row of the degree added."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.centrality = nn.Embedding(_MOST_NEIGHBOURS + 1, channels)
        self.attention = AttentionLayers(channels, layers)

    def forward(self, scalars: list[Tensor], structures: list[GraphormerStructure]) -> list[Tensor]:
        """Scalars (d, B, n) and structure of each group → (d, B, n) for each group."""
        nodes = [
            s + self.centrality(structure.degrees.clamp(max=_MOST_NEIGHBOURS)).movedim(-1, 0)
            for s, structure in zip(scalars, structures, strict=True)
        ]
        encoded: list[Tensor] = self.attention(nodes, [structure.bias for structure in structures])
        return encoded
