"""The paired test of BREC: does a model give two graphs different rows, beyond what relabelling a graph does?

For q = 32 relabelled copies (x_c, y_c) of the two graphs, rows of d = 16 numbers, D_c = x_c − y_c with mean D̄ and
covariance S, Hotelling's statistic is

    T² = q D̄ᵀ (S + ε I)⁻¹ D̄,    ε = 10⁻⁷,

compared with 72.34 ≈ (q − 1) d / (q − d) · F_{d, q−d}(0.95). For a model that gives all copies of a graph one row, S is
rounding noise, which the test alone would examine for a mean: one in twenty pairs would count as separated. ε is the
remedy that BREC's authors name for such models: means below √(72.34 ε / q) ≈ 5·10⁻⁴ count as none.
"""

from __future__ import annotations

import torch
from torch import Tensor

COPIES = 32  # q
ROW = 16  # d
THRESHOLD = 72.34
EPSILON = 1e-7


def t_squared(first: Tensor, second: Tensor) -> float:
    """T² of rows (q, d) of the copies of two graphs; infinite where a row is not finite."""
    difference = (first - second).to(torch.float64)
    if not difference.isfinite().all():
        return float("inf")
    mean = difference.mean(0)
    covariance = torch.cov(difference.mT) + EPSILON * torch.eye(len(mean), dtype=torch.float64)
    return float(len(difference) * (mean @ torch.linalg.solve(covariance, mean)))
