"""Eigenpairs of a stack of symmetric matrices: which are zero, which belong together.

Both decisions use one relative tolerance, n·ε·max|λ| times a safety factor, in float64. An absolute cut-off is a
known defect: 1e-4 deletes the Fiedler vector of a path of 320 nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pointset.errors import ConvergenceError

# In units of max(n, 8)·ε·max|λ|, over all graphs of up to 7 nodes and random graphs of up to 300, gaps between equal
# eigenvalues come out below 2 and true gaps above 10⁶ (tests/test_spectrum.py): the tolerance stands well between.
_SAFETY = 8.0
_SMALLEST_N = 8  # for tiny matrices the error does not shrink with n


def spectral_tolerance(n: int, largest: Tensor) -> Tensor:
    """Below it an eigenvalue is zero, and a gap between two eigenvalues is none."""
    return _SAFETY * max(n, _SMALLEST_N) * torch.finfo(torch.float64).eps * largest


def relative_error_bound(n: int, precision: float = 0.0) -> float:
    """Bound of |(UΛUᵀ − Z)_ij| / max|λ|: the solver's error, the averaging, and a cast.

    Rows of U have length at most 1, so casting Λ and U to a type of relative precision ε changes an entry by at most
    about 2ε·max|λ|; solver and averaging stay within the tolerance above.
    """
    return 2 * precision + 10 * max(n, _SMALLEST_N) * torch.finfo(torch.float64).eps


class Spectra(NamedTuple):
    """Eigenpairs of B matrices of one size, in ascending order of λ."""

    eigenvalues: Tensor  # (B, n) float64; equal to the last bit inside an eigenspace; zero where not kept
    eigenvectors: Tensor  # (B, n, n) float64, in columns
    kept: Tensor  # (B, n) bool: the eigenvalue is not zero
    dropped: Tensor  # (B,) largest |λ| that was left out because of a bound on the rank, 0 where none was


def decompose(matrices: Tensor, rank: int | None = None) -> Spectra:
    """Eigenpairs of symmetric matrices (B, n, n), float64.

    ``rank=k`` keeps the k largest |λ| and whatever has the same |λ| as the last of them, so that no eigenspace is cut
    and the choice does not depend on rounding or on the order of the nodes.
    """
    try:
        eigenvalues, eigenvectors = torch.linalg.eigh(matrices)
    except RuntimeError as error:
        raise ConvergenceError(f"the eigensolver failed on a {matrices.shape[-1]}-node graph: {error}") from None
    n = matrices.shape[-1]
    magnitude = eigenvalues.abs()
    largest = magnitude.amax(-1, keepdim=True) if n else magnitude.new_zeros(len(matrices), 1)
    tolerance = spectral_tolerance(n, largest)
    kept = magnitude > tolerance
    dropped = largest.new_zeros(len(matrices))
    eigenvalues = averaged_over_eigenspaces(eigenvalues, kept, tolerance)
    if rank is not None and rank < n:
        magnitude = eigenvalues.abs()
        floor = magnitude.topk(rank, dim=-1).values[:, -1:] - tolerance
        left_out = kept & (magnitude < floor)
        dropped = torch.where(left_out, magnitude, 0.0).amax(-1)
        kept = kept & ~left_out
    return Spectra(eigenvalues, eigenvectors, kept, dropped)


def averaged_over_eigenspaces(eigenvalues: Tensor, kept: Tensor, tolerance: Tensor) -> Tensor:
    """Give the eigenvalues of each eigenspace one value, bit for bit; those not kept become 0.

    Without it a learned f would see rounding noise between equal eigenvalues, and the prediction would depend on the
    basis that the solver happened to choose inside the eigenspace.
    """
    if not eigenvalues.shape[-1]:
        return eigenvalues
    gap = eigenvalues.diff(dim=-1) > tolerance
    edge = gap | (kept[:, 1:] != kept[:, :-1])
    first = torch.ones_like(kept[:, :1])  # each matrix starts a new eigenspace
    space = torch.cat([first, edge], dim=-1).flatten().cumsum(0) - 1  # (B·n,)
    count = int(space[-1]) + 1 if len(space) else 0
    total = eigenvalues.new_zeros(count).index_add_(0, space, eigenvalues.flatten())
    size = eigenvalues.new_zeros(count).index_add_(0, space, torch.ones_like(eigenvalues).flatten())
    averaged = (total / size)[space].view_as(eigenvalues)
    return torch.where(kept, averaged, 0.0)
