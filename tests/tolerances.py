"""How far two correct computations of one number may lie apart: one rule for all tests.

Libraries add in an order of their own: by the width of the vector unit, with or without fused multiply-add, by the
number of threads and by what else is in the batch. A sum of K terms, added in two orders, differs by up to K·ε times
the size of the terms, and sums that feed each other add their errors. So

- the allowance is (terms on the longest way from input to output)·ε of the type: strict in float64, wide enough in
  float32 for every processor;
- it is relative to the *largest* entry, not to each one: a small entry is often the difference of large ones, and keeps
  their error.

A function that is wrong fails the float64 test by many orders of magnitude; float32 tests show that the same code runs
in that type.
"""

from __future__ import annotations

import torch
from torch import Tensor


def terms_of_model(*, nodes: int, dim: int, layers: int) -> int:
    """Terms on the longest way through an encoder: in each layer sums over rank (≤ n), nodes and six linear maps of d
    channels; before and after the layers about ten more maps."""
    return layers * (2 * nodes + 6 * dim) + 10 * dim


def rounding(dtype: torch.dtype, terms: int) -> float:
    """Allowed difference, relative to the largest entry."""
    return terms * torch.finfo(dtype).eps


def near(got: Tensor, expected: Tensor, *, terms: int, dtype: torch.dtype) -> bool:
    """Whether both have one shape and are the same up to rounding in ``dtype``, the type they were computed in."""
    scale = float(expected.detach().abs().max()) if expected.numel() else 0.0
    allowed = rounding(dtype, terms) * scale
    return got.shape == expected.shape and torch.allclose(got.double(), expected.double(), rtol=0, atol=allowed)
