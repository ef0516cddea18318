"""Transformer layers over the nodes of each graph: what the vanilla transformer and Graphormer share.

Linear maps see the nodes of all graphs of a batch at once, (N, d); only attention goes group by group, over graphs of
one size side by side: no padding, no mask, so that a graph's result does not depend on the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from pointset.errors import SpecError

_EXPANSION = 2  # hidden channels of the feed-forward part, in units of d


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
