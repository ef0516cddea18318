"""The end of a model: pooling, equation (5), or none for node tasks, and one linear map."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor, nn

Pooling = Literal["sum", "mean", "max"]
Level = Literal["graph", "node"]


def pooled(s: Tensor, pooling: Pooling) -> Tensor:
    """Equation (5): scalars (d, B, n) → (d, B). A graph without nodes gives zeros."""
    nodes = s.shape[-1]
    if pooling == "max":
        return s.amax(-1) if nodes else s.sum(-1)
    return s.sum(-1) / (max(nodes, 1) if pooling == "mean" else 1)


class Readout(nn.Module):
    """Scalars (d, B, n) → (B, out) for graphs, (B·n, out) for nodes."""

    def __init__(self, channels: int, out: int, level: Level, pooling: Pooling):
        super().__init__()
        self.level, self.pooling = level, pooling
        self.linear = nn.Linear(channels, out)

    def representation(self, s: Tensor) -> Tensor:
        """(d, B, n) → (B, d) or (B·n, d): what the last linear map sees."""
        if self.level == "graph":
            return pooled(s, self.pooling).mT
        return s.reshape(s.shape[0], math.prod(s.shape[1:])).mT

    def forward(self, s: Tensor) -> Tensor:
        """(d, B, n) → (B, out) or (B·n, out)."""
        result: Tensor = self.linear(self.representation(s))
        return result

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return "node outputs" if self.level == "node" else f"{self.pooling} over the points"
