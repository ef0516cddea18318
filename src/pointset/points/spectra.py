"""Eigenpairs of dense symmetric matrices in stacks: :func:`decompose`, and what is the same for the sparse solver.

Which eigenvalues are zero and which belong together is decided by one relative tolerance, n·ε·max|λ| times a safety
factor, in float64. An absolute cut-off is a known defect: 1e-4 deletes the Fiedler vector of a path of 320 nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor

from pointset.arrays import Floats
from pointset.errors import ConvergenceError, MatrixError, RankError, did_you_mean

# In units of max(n, 8)·ε·max|λ|, over all graphs of up to 7 nodes and random graphs of up to 300, gaps between equal
# eigenvalues come out below 2 and true gaps above 10⁶ (tests/test_solve.py): the tolerance stands well between.
_SAFETY = 8.0
STACK_BYTES = 16 * 2**20  # a stack of matrices that stays near the cache; more graphs at once gain nothing
_SMALLEST_N = 8  # for tiny matrices the error does not shrink with n

Which = Literal["both", "largest", "smallest"]
DEFAULT_WHICH: Which = "both"
Numbers = TypeVar("Numbers", Tensor, Floats)
Magnitude = TypeVar("Magnitude", Tensor, float)


def check_which(which: object, rank: int | None) -> Which:
    """Refuse what is no end of a spectrum, and an end where all eigenpairs are taken anyway."""
    for known in get_args(Which):
        if which == known and (rank is not None or known == DEFAULT_WHICH):
            return known  # type: ignore[no-any-return]
    names = [str(name) for name in get_args(Which)]
    if which in names:
        raise RankError(
            f"got which={which!r} without a rank: without one all eigenpairs are kept. Add rank=k, or leave which out"
        )
    raise RankError(f"got which={which!r}; expected {', '.join(names)}{did_you_mean(str(which), names)}")


def order_of(eigenvalues: Numbers, which: Which) -> Numbers:
    """What is largest where the eigenvalue is to be kept first: |λ|, λ or −λ."""
    if which == "both":
        return abs(eigenvalues)
    return eigenvalues if which == "largest" else -eigenvalues


def spectral_tolerance(n: int, largest: Magnitude) -> Magnitude:
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


def decompose(matrices: Tensor, rank: int | None = None, which: Which = DEFAULT_WHICH) -> Spectra:
    """Eigenpairs of symmetric matrices (B, n, n), float64.

    ``rank=k`` keeps the first k non-zero eigenvalues in the order of ``which`` (by default the largest |λ|), and those
    that are equal to the last of them in this order: no eigenspace is cut, and the choice does not depend on rounding
    or on the order of the nodes.
    """
    try:
        eigenvalues, eigenvectors = torch.linalg.eigh(matrices)
    except RuntimeError as error:
        raise ConvergenceError(f"the eigensolver failed on a {matrices.shape[-1]}-node graph: {error}") from None
    return spectra_of(eigenvalues, eigenvectors, rank, which)


def spectra_of(
    eigenvalues: Tensor, eigenvectors: Tensor, rank: int | None = None, which: Which = DEFAULT_WHICH
) -> Spectra:
    """All eigenpairs (B, n), (B, n, n) as a solver gives them → those to keep; see :func:`decompose`."""
    n = eigenvalues.shape[-1]
    magnitude = eigenvalues.abs()
    largest = magnitude.amax(-1, keepdim=True) if n else magnitude.new_zeros(len(magnitude), 1)
    tolerance = spectral_tolerance(n, largest)
    kept = magnitude > tolerance
    dropped = largest.new_zeros(len(magnitude))
    eigenvalues = averaged_over_eigenspaces(eigenvalues, kept, tolerance)
    if rank is not None and n:
        order = torch.where(kept, order_of(eigenvalues, which), -torch.inf)
        # Left out where at least so many come first. Not by the k-th of them: exported models know no k < n.
        first = order.unsqueeze(-2) - tolerance.unsqueeze(-1) > order.unsqueeze(-1)  # (B, n, n)
        left_out = kept & (first.sum(-1) >= rank)
        dropped = torch.where(left_out, eigenvalues.abs(), 0.0).amax(-1)
        kept = kept & ~left_out
    return Spectra(eigenvalues, eigenvectors, kept, dropped)


def averaged_over_eigenspaces(eigenvalues: Tensor, kept: Tensor, tolerance: Tensor) -> Tensor:
    """Give the eigenvalues of each eigenspace one value, bit for bit; those not kept become 0.

    Without it a learned f would see rounding noise between equal eigenvalues, and the prediction would depend on the
    basis that the solver happened to choose inside the eigenspace.
    """
    if not eigenvalues.shape[-1]:
        return eigenvalues
    gap = (eigenvalues - eigenvalues.roll(1, -1)).abs() > tolerance
    first = torch.arange(eigenvalues.shape[-1], device=kept.device) == 0  # each matrix starts a new eigenspace
    edge = first | gap | (kept != kept.roll(1, -1))
    space = edge.flatten().cumsum(0) - 1  # (B·n,)
    flat = eigenvalues.flatten()  # there are at most as many eigenspaces
    total = torch.zeros_like(flat).index_add_(0, space, flat)
    size = torch.zeros_like(flat).index_add_(0, space, torch.ones_like(flat))
    averaged = (total / size)[space].view_as(eigenvalues)
    return torch.where(kept, averaged, 0.0)


def check_resolved(matrices: Tensor, eigenvalues: Tensor, names: Sequence[object]) -> None:
    """Refuse weights so far apart that the small ones drown in the rounding errors of the large ones."""
    if not matrices.numel():
        return
    entries = matrices.abs()
    smallest = torch.where(entries > 0, entries, torch.inf).amin((-1, -2))
    largest = eigenvalues.abs().amax(-1)
    lost = (smallest < 4 * relative_error_bound(matrices.shape[-1]) * largest).tolist()
    if any(lost):
        at = lost.index(True)
        raise MatrixError(
            f"graph {names[at]}: an entry of its matrix is {float(smallest[at]):.3g} and its largest eigenvalue "
            f"{float(largest[at]):.3g}; that is too far apart for double precision, and the small weights would be "
            "lost. Remove the smallest weights, or bring them nearer to each other (for example by their logarithms)"
        )
