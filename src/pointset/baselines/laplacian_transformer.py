"""A vanilla transformer over the nodes, which knows the graph by a Laplacian encoding only.

Nodes carry the lowest eigenvectors of the Laplacian (Dwivedi & Bresson, 2021). Signs are arbitrary, so the encoding is
even, φ(u) + φ(−u), as in SignNet (Lim et al., 2023): this needs no random flips. The basis inside a repeated eigenspace
is arbitrary too, and is **not** taken care of: where eigenvalues repeat, the output depends on the solver's choice and
on the order of the nodes. That is a known defect of such encodings, which point set encoders do not have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from pointset.baselines.dense_graphs import mean_of_incident_edges
from pointset.baselines.node_attention import AttentionLayers
from pointset.encoders.batch import PointGroup
from pointset.encoders.eigenvalues import signed_root
from pointset.encoders.layers import BatchEncoder
from pointset.encoders.pairs import PairWeights

EIGENVECTORS = 8
_HIDDEN = 16  # channels for each eigenvector


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
        self.last = nn.Linear(EIGENVECTORS * _HIDDEN, channels)
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
        padded = nn.functional.pad(even, (0, 0, 0, EIGENVECTORS - given))
        result: Tensor = self.last(padded.reshape(graphs, nodes, EIGENVECTORS * _HIDDEN)).movedim(-1, 0)
        return result


class LaplacianEncoding(nn.Module):
    """What is added to the first scalars: the encoding of the eigenvectors, and the mean embedding of a node's edges.

    The latter, as attention itself is blind to edge features. Noise on coordinates is not for this model.
    """

    def __init__(self, function: nn.Module, pairs: PairWeights | None = None, *, noise: float = 0.0):
        super().__init__()
        self.function, self.pairs = function, pairs

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (d, B, n)."""
        values, order = group.eigenvalues.sort(dim=-1, stable=True)  # zeros are not among the points
        order = order[:, :EIGENVECTORS].unsqueeze(1).expand(-1, group.size[1], -1)
        encoding: Tensor = self.function(values[:, :EIGENVECTORS], group.eigenvectors.gather(2, order))
        return encoding if self.pairs is None else encoding + mean_of_incident_edges(self.pairs, group)


class LaplacianTransformer(BatchEncoder):
    """Softmax attention over all nodes of a graph, on scalars with the encoding added."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.attention = AttentionLayers(channels, layers)

    def forward(self, scalars: list[Tensor], structures: list[Tensor]) -> list[Tensor]:
        """Scalars and encodings, (d, B, n) for each group → (d, B, n) for each group."""
        nodes = [s + encoding for s, encoding in zip(scalars, structures, strict=True)]
        encoded: list[Tensor] = self.attention(nodes, [None] * len(nodes))
        return encoded
