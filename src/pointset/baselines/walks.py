"""Return probabilities of random walks, the structural encoding RWSE of GPS (Rampášek et al., 2022)."""

from __future__ import annotations

import torch
from torch import Tensor


def return_probabilities(adjacency: Tensor, steps: int) -> Tensor:
    """diag((D⁻¹A)^k) for k = 1 … ``steps``: the probability that k steps from node i end at i, (steps, B, n).

    D⁻¹A and the symmetric S = D^-½AD^-½ are similar by a diagonal matrix, so their powers have one diagonal; and
    diag(S^(a+b)) = Σ_j (S^a)_ij (S^b)_ij, so half of the powers are enough: ``steps``/2 products of n³.
    A weight counts by its size |w|; a node without edges has zeros.

    Args:
        adjacency: (B, n, n), symmetric.
        steps: number of powers.
    """
    weights = adjacency.abs()
    degrees = weights.sum(-1)
    root = torch.where(degrees > 0, degrees.clamp(min=torch.finfo(degrees.dtype).tiny).rsqrt(), 0.0)
    walk = weights * root.unsqueeze(-1) * root.unsqueeze(-2)
    probabilities = [walk.diagonal(dim1=-2, dim2=-1)]
    power = walk
    with torch.autocast(walk.device.type, enabled=False):  # else the powers gather the rounding of bfloat16
        while len(probabilities) < steps:
            probabilities.append(power.square().sum(-1))
            following = power @ walk
            probabilities.append((power * following).sum(-1))
            power = following
    return torch.stack(probabilities[:steps])
