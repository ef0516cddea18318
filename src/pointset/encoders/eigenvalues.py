"""Eigenvalue functions f: (B, r) → (d, B, r), equivariant to permutations of the eigenvalues (Definition 3.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pointset.encoders.layers import MLP


def signed_root(eigenvalues: Tensor) -> Tensor:
    """sgn(λ)·√|λ|; for a positive semi-definite matrix this is √λ."""
    return eigenvalues.sign() * eigenvalues.abs().sqrt()


class SquareRoot(nn.Module):
    """SRD: f(Λ) = √Λ in every one of d channels, each times a learned number.

    On a matrix with negative eigenvalues, half of the channels take √|λ| and half sgn(λ)√|λ|, the pair from which the
    proof of Theorem 3.3 recovers the matrix; on a positive semi-definite one both are √λ.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))

    def forward(self, eigenvalues: Tensor) -> Tensor:
        """(B, r) → (d, B, r)."""
        signed = signed_root(eigenvalues)
        half = self.scale.shape[0] // 2
        plain = self.scale[:half, None, None] * signed.abs()
        return torch.cat([plain, self.scale[half:, None, None] * signed])


class DeepSetLayer(nn.Module):
    """x ← x + mean(MLP_a(x)) ⊙ MLP_b(x), the mean over the eigenvalues of a graph."""

    def __init__(self, channels: int):
        super().__init__()
        self.pooled = MLP([channels] * 3, norm="layer", tail=True)
        self.own = MLP([channels] * 3, norm="layer", tail=True)

    def forward(self, x: Tensor) -> Tensor:
        """(d, B, r) → (d, B, r)."""
        rank = max(x.shape[-1], 1)  # at rank 0 there is nothing to add up, and the sum of nothing is 0
        mean: Tensor = self.pooled(x).sum(-1, keepdim=True) / rank
        result: Tensor = x + mean * self.own(x)
        return result


class LearnedDeepSet(nn.Module):
    """PSRD: f learned as a DeepSet of d channels, the paper's choice (Section 3.2, Figure 3).

    √λ (signed) → MLP 1 → 2d → d → three layers x + mean(MLP_a(x)) ⊙ MLP_b(x), as in the released model.
    """

    def __init__(self, channels: int, layers: int = 3):
        super().__init__()
        self.embedding = MLP([1, 2 * channels, channels], norm="layer", tail=True)
        self.layers = nn.Sequential(*(DeepSetLayer(channels) for _ in range(layers)))

    def forward(self, eigenvalues: Tensor) -> Tensor:
        """(B, r) → (d, B, r)."""
        result: Tensor = self.layers(self.embedding(signed_root(eigenvalues).unsqueeze(0)))
        return result


class LearnedFromRoot(nn.Module):
    """PSRD with a way past the DeepSet: f(Λ) = a ⊙ √Λ + DeepSet(Λ) with learned a of d channels.

    The inner products of a fresh model then contain entries of the matrix, in which edges can be seen; those of a
    random DeepSet alone are nearly a multiple of the identity. What the DeepSet alone can learn remains within reach.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.root, self.learned = SquareRoot(channels), LearnedDeepSet(channels)

    def forward(self, eigenvalues: Tensor) -> Tensor:
        """(B, r) → (d, B, r)."""
        result: Tensor = self.root(eigenvalues) + self.learned(eigenvalues)
        return result


class RootAndPolynomials(nn.Module):
    """PSRD for counting: f(Λ) = a ⊙ √Λ in half of the channels, a learned polynomial of degree 4 in Λ in the others.

    Inner products of the first kind are entries of the matrix, of the second entries of its powers up to the eighth,
    which are numbers of walks; a projection of both gives any such polynomial. Polynomials are sums of Chebyshev's on
    [0, ``reach``], where none is larger than 1; beyond, on graphs with larger degrees, they grow.
    """

    def __init__(self, channels: int, degree: int = 4, reach: float = 12.0):
        super().__init__()
        half = channels // 2
        self.root = SquareRoot(half)
        self.weights = nn.Parameter(torch.randn(channels - half, degree + 1) / math.sqrt(degree + 1))
        self.reach = reach

    def forward(self, eigenvalues: Tensor) -> Tensor:
        """(B, r) → (d, B, r)."""
        x = 2 * eigenvalues / self.reach - 1
        basis = [torch.ones_like(x), x]
        while len(basis) < self.weights.shape[1]:
            basis.append(2 * x * basis[-1] - basis[-2])
        polynomials = torch.tensordot(self.weights, torch.stack(basis[: self.weights.shape[1]]), dims=1)
        return torch.cat([self.root(eigenvalues), polynomials])
