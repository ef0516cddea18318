"""Transformers over the nodes of each graph: with a Laplacian encoding, after Graphormer, and GPS.

Linear maps see the nodes of all graphs of a batch at once, (N, d); only attention goes group by group, over graphs of
one size side by side: no padding, no mask, so that a graph's result does not depend on the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, relu, scaled_dot_product_attention

from pointset.baselines.graphs import (
    WALK_STEPS,
    SparseGraphs,
    Structure,
    hop_distances,
    mean_of_incident_edges,
    restored_adjacency,
    same_component,
)
from pointset.baselines.message_passing import GINConvolution, MessagePassing, RowNorm
from pointset.encoders.batch import PointGroup
from pointset.encoders.coordinates import PairWeights, signed_root
from pointset.encoders.layers import BatchEncoder, ChannelLinear
from pointset.errors import SpecError

_EXPANSION = 2  # hidden channels of the feed-forward part, in units of d
_EIGENVECTORS = 8  # of the Laplacian encoding
_HIDDEN = 16  # its channels for each eigenvector
_FARTHEST = 20  # Graphormer: greater distances count as this one
_MOST_NEIGHBOURS = 63  # and higher degrees as this one


def heads_of(channels: int, most: int = 8) -> int:
    """The most of 8, 4, 2 and 1 heads that share the channels equally; at least 4 from 32 channels on, 2 from 16 on.

    Else a search for a width could come upon 99, and compare a model with a single head. Of narrow models, too few
    would have about the right number of parameters.

    Raises:
        SpecError: these channels would have fewer heads.
    """
    heads, least = math.gcd(channels, most), 4 if channels >= 32 else 2 if channels >= 16 else 1
    if heads < least:
        raise SpecError(
            f"got dim={channels}; expected a multiple of {least}, such as {channels - channels % least}: the heads of "
            "attention share the channels equally"
        )
    return heads


class Stack(NamedTuple):
    """One group's shape, and what is added to the attention before the softmax."""

    graphs: int
    nodes: int
    bias: Tensor | None = None  # (B, heads, n, n)


class AttentionLayer(nn.Module):
    """x ← x + W_o softmax(QKᵀ/√(d/h) + bias) V, then x ← x + FFN(x), each on LayerNorm(x); no dropout."""

    def __init__(self, channels: int):
        super().__init__()
        self.heads = heads_of(channels)
        self.norm_attention, self.norm_forward = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.queries_keys_values = nn.Linear(channels, 3 * channels)
        self.output = nn.Linear(channels, channels)
        self.forward_network = nn.Sequential(
            nn.Linear(channels, _EXPANSION * channels), nn.GELU(), nn.Linear(_EXPANSION * channels, channels)
        )

    def forward(self, x: Tensor, stacks: Sequence[Stack]) -> Tensor:
        """(N, d) → (N, d), N the nodes of all graphs."""
        projected = self.queries_keys_values(self.norm_attention(x))  # (N, 3d)
        # split, not slices: its gradient is one concatenation, that of a slice a whole tensor of zeros
        parts = torch.split(projected, [stack.graphs * stack.nodes for stack in stacks])
        x = x + self.output(torch.cat([self._attended(*each) for each in zip(parts, stacks, strict=True)]))
        result: Tensor = x + self.forward_network(self.norm_forward(x))
        return result

    def _attended(self, projected: Tensor, stack: Stack) -> Tensor:
        """(B·n, 3d) → (B·n, d)."""
        width = projected.shape[-1] // 3
        if not len(projected):
            return projected[:, :width]
        by_head = projected.view(stack.graphs, stack.nodes, 3, self.heads, width // self.heads)
        query, key, value = by_head.permute(2, 0, 3, 1, 4).unbind()  # (B, heads, n, d/heads)
        attended = scaled_dot_product_attention(query, key, value, attn_mask=stack.bias)
        return attended.transpose(1, 2).reshape(-1, width)


class AttentionLayers(nn.Module):
    """Layers one after the other, and the LayerNorm that ends a transformer with norms before its parts."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(AttentionLayer(channels) for _ in range(layers))
        self.norm = nn.LayerNorm(channels)

    def forward(self, scalars: Sequence[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
        """(d, B, n) of each group → (d, B, n) of each group."""
        stacks = [Stack(s.shape[1], s.shape[2], bias) for s, bias in zip(scalars, biases, strict=True)]
        x = torch.cat([s.flatten(1) for s in scalars], dim=1).mT.contiguous()  # (N, d)
        for layer in self.layers:
            x = layer(x, stacks)
        ends = torch.split(self.norm(x).mT, [stack.graphs * stack.nodes for stack in stacks], dim=1)
        return [end.reshape(len(end), stack.graphs, stack.nodes) for end, stack in zip(ends, stacks, strict=True)]


class SignInvariantEncoding(nn.Module):
    """e_i = W [φ(u⁽¹⁾, λ₁)_i + φ(−u⁽¹⁾, λ₁)_i ‖ … ‖ φ(u⁽⁸⁾, λ₈)_i + φ(−u⁽⁸⁾, λ₈)_i] + b.

    φ is a DeepSet over the nodes, φ(u, λ)_i = relu(W₂ h_i + W₃ mean_j h_j) with h_i = relu(W₁ (√n u_i, √λ)): of one
    node alone an even function would see |u_i| only, and not which nodes have equal signs.
    A graph with fewer eigenvectors has 0 in place of the rest.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.first = nn.Linear(2, _HIDDEN)
        self.of_node, self.of_mean = nn.Linear(_HIDDEN, _HIDDEN), nn.Linear(_HIDDEN, _HIDDEN, bias=False)
        self.last = nn.Linear(_EIGENVECTORS * _HIDDEN, channels)
        for linear in (self.first, self.of_node, self.of_mean):  # else nodes differ at first by hundredths only
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")

    def forward(self, eigenvalues: Tensor, eigenvectors: Tensor) -> Tensor:
        """(B, k), (B, n, k) with k ≤ 8 → (d, B, n)."""
        graphs, nodes, given = eigenvectors.shape
        entries = eigenvectors * max(nodes, 1) ** 0.5
        roots = signed_root(eigenvalues).unsqueeze(1).expand_as(entries)
        both = torch.stack([torch.stack([sign * entries, roots], dim=-1) for sign in (1, -1)])  # (2, B, n, k, 2)
        hidden = relu(self.first(both))
        mean = hidden.sum(2, keepdim=True) / max(nodes, 1)
        even = relu(self.of_node(hidden) + self.of_mean(mean)).sum(0)  # (B, n, k, 16)
        padded = nn.functional.pad(even, (0, 0, 0, _EIGENVECTORS - given))
        result: Tensor = self.last(padded.reshape(graphs, nodes, _EIGENVECTORS * _HIDDEN)).movedim(-1, 0)
        return result


class LaplacianEncoding(Structure):
    """What is added to the first scalars: the encoding of the eigenvectors, and the mean embedding of a node's edges.

    The latter, as attention itself is blind to edge features.
    """

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (d, B, n)."""
        values, order = group.eigenvalues.sort(dim=-1, stable=True)  # zeros are not among the points
        order = order[:, :_EIGENVECTORS].unsqueeze(1).expand(-1, group.shape[1], -1)
        encoding: Tensor = self.function(values[:, :_EIGENVECTORS], group.eigenvectors.gather(2, order))
        return encoding if self.pairs is None else encoding + mean_of_incident_edges(self.pairs, group)


class LaplacianTransformer(BatchEncoder):
    """A vanilla transformer over all nodes of a graph, which knows the graph by a Laplacian encoding only.

    Nodes carry the lowest eigenvectors of the Laplacian (Dwivedi & Bresson, 2021). Signs are arbitrary, so the encoding
    is even, φ(u) + φ(−u), as in SignNet (Lim et al., 2023): this needs no random flips. The basis inside a repeated
    eigenspace is arbitrary too, and is **not** taken care of: where eigenvalues repeat, the output depends on the
    solver's choice and on the order of the nodes. Such encodings are known for it; point set encoders are free of it.
    """

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.attention = AttentionLayers(channels, layers)

    def forward(self, scalars: list[Tensor], structures: list[Tensor]) -> list[Tensor]:
        """Scalars and encodings, (d, B, n) for each group → (d, B, n) for each group."""
        nodes = [s + encoding for s, encoding in zip(scalars, structures, strict=True)]
        encoded: list[Tensor] = self.attention(nodes, [None] * len(nodes))
        return encoded


class GraphormerStructure(NamedTuple):
    """What Graphormer knows of the graphs of a group."""

    bias: Tensor  # (B, heads, n, n)
    degrees: Tensor  # (B, n) whole numbers


class DistanceBias(nn.Module):
    """b_h(distance) for each head: distances 0 to 20, and one for nodes of different components."""

    def __init__(self, channels: int):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(_FARTHEST + 2, heads_of(channels)))

    def forward(self, distances: Tensor) -> Tensor:
        """(B, n, n) → (heads, B, n, n)."""
        return embedding(distances, self.table).movedim(-1, 0).contiguous()


class StructureBias(Structure):
    """Bias by distances and edges, and degrees."""

    def __init__(self, function: DistanceBias, pairs: PairWeights | None = None, *, noise: float = 0.0):
        super().__init__(function, pairs, noise=noise)
        self.of_edges = None if pairs is None else ChannelLinear(pairs.channels, heads_of(pairs.channels), bias=False)

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> GraphormerStructure:
        """Group → its structure."""
        edges = restored_adjacency(group)
        distances = torch.where(same_component(edges), hop_distances(edges, _FARTHEST), _FARTHEST + 1)
        bias: Tensor = self.function(distances)
        if self.pairs is not None and self.of_edges is not None:
            by_edge = self.of_edges(self.pairs.by_edge(group))  # (heads, M)
            bias = bias.flatten(1).index_add(1, group.edge_places, by_edge.to(bias.dtype)).view_as(bias)
        return GraphormerStructure(bias.transpose(0, 1), (edges != 0).sum(-1))


class Graphormer(BatchEncoder):
    """Graphormer-style transformer (Ying et al., 2021): attention is biased by shortest-path distances.

    * Spatial encoding: a learned number for each distance and head is added before the softmax, the same in all layers.
    * Centrality encoding: a learned row for each number of neighbours is added to the first scalars.
    * Edge encoding: a linear map of an edge's embedding is added to the bias at that edge (the original takes the mean
      over the edges of a shortest path; here paths of more than one edge have none).

    No virtual node: the common readout pools. Edge weights enter as presence only. Attention is a mean: in a regular
    graph without node features all rows are equal, and stay so, whatever the bias.
    """

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


class GPS(MessagePassing):
    """GPS (Rampášek et al., 2022) by PyG's GPSConv: GIN(E) beside attention over a graph's nodes, then an MLP.

    The first scalars get a linear map of the return probabilities of random walks (RWSE) added. Cost of a layer: n² for
    attention, beside the edges.
    """

    ALL_PAIRS = True

    def __init__(self, channels: int, layers: int):
        from torch_geometric.nn import GPSConv  # the import takes a second, and not every model needs it

        super().__init__()
        self.walks = nn.Sequential(RowNorm(WALK_STEPS), nn.Linear(WALK_STEPS, channels))
        self.layers = nn.ModuleList()
        for _ in range(layers):
            mlp = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))
            layer = GPSConv(channels, GINConvolution(mlp), heads=heads_of(channels, most=4), norm=None)
            layer.norm1, layer.norm2, layer.norm3 = (RowNorm(channels) for _ in range(3))
            self.layers.append(layer)

    def pass_messages(self, h: Tensor, graphs: SparseGraphs) -> Tensor:
        """(N, d) → (N, d)."""
        h = h + self.walks(graphs.walks)
        for layer in self.layers:
            h = layer(h, graphs.edge_index, graphs.graph, weights=graphs.weights, features=graphs.features)
        return h
