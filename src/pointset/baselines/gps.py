"""GPS, a general, powerful, scalable graph transformer (Rampášek et al., 2022): message passing and attention."""

from __future__ import annotations

from torch import Tensor, nn

from pointset.baselines.message_passing import GINConvolution, MessagePassing, RowNorm
from pointset.baselines.node_attention import heads_of
from pointset.baselines.sparse_graphs import SparseGraphs

WALK_STEPS = 16  # of the return probabilities
_MOST_HEADS = 4


class GPS(MessagePassing):
    """PyG's GPSConv: in each layer GIN (with edge features GINE) beside attention over a graph's nodes, then an MLP.

    The first scalars get a linear map of the return probabilities of random walks (RWSE) added. Cost of a layer: n² for
    attention, beside the edges.
    """

    def __init__(self, channels: int, layers: int):
        from torch_geometric.nn import GPSConv  # the import takes a second, and not every model needs it

        super().__init__()
        self.walks = nn.Sequential(RowNorm(WALK_STEPS), nn.Linear(WALK_STEPS, channels))
        self.layers = nn.ModuleList()
        for _ in range(layers):
            mlp = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))
            layer = GPSConv(channels, GINConvolution(mlp), heads=heads_of(channels, _MOST_HEADS), norm=None)
            layer.norm1, layer.norm2, layer.norm3 = (RowNorm(channels) for _ in range(3))
            self.layers.append(layer)

    def pass_messages(self, h: Tensor, graphs: SparseGraphs) -> Tensor:
        """(N, d) → (N, d)."""
        h = h + self.walks(graphs.walks)
        for layer in self.layers:
            h = layer(h, graphs.edge_index, graphs.graph, weights=graphs.weights, features=graphs.features)
        return h
