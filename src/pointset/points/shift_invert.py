"""(σI ∓ Z)⁻¹ at an end of a spectrum, by sparse LU where that is forecast to be cheap: :func:`inverses_at_end`.

Eigenvalues that lie so densely at an end that iteration with Z does not separate them, as at the low end of D − A on
road networks, long chains and grids, are far apart for the inverse. Such graphs have small separators, which is also
what keeps their factors sparse. The factors of graphs without separators (random ones, social networks) would fill
the memory; there iteration with Z stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from pointset.arrays import Flags, Floats, Integers
from pointset.machine import fitting
from pointset.points.spectra import Which

_MOST_SECONDS = 60.0  # of one factorisation, as forecast; the measured time is a half to a tenth
_SECONDS_PER_ENTRY, _SECONDS_PER_OPERATION = 2e-7, 1e-10
_BYTES_PER_ENTRY = 32  # L and U, their indices, and what SuperLU holds beside them
_BAND = 32  # pieces of at most this mean bandwidth are not divided any more
_SMALL_PIECE = 200  # nor those of so few nodes
_PEELING_ROUNDS = 64

_DISTANCES = 1e-9, 1e-5  # of the shift from the spectrum, relative to ‖Z‖
_SHARP = 1e-9  # likewise, a bound that cannot be improved
_MOST_STEPS = 8  # towards the end of the spectrum; they converge quadratically


class Elimination(NamedTuple):
    """Bounds of what eliminating all nodes of a graph costs, in the order of nested dissection."""

    fill: float  # entries of L
    operations: float

    @property
    def seconds(self) -> float:
        """Forecast of the factorisation on one core."""
        return _SECONDS_PER_ENTRY * self.fill + _SECONDS_PER_OPERATION * self.operations

    @property
    def is_affordable(self) -> bool:
        """Whether time and memory are bounded well enough to try."""
        return self.seconds <= _MOST_SECONDS and bool(fitting(np.array([int(_BYTES_PER_ENTRY * self.fill)]))[0])


class Inverse(NamedTuple):
    """(σI − sZ)⁻¹ with s = 1 for the largest, s = −1 for the smallest eigenvalues; all its eigenvalues are positive."""

    factors: scipy.sparse.linalg.SuperLU
    sign: float
    shift: float
    positive: Floats  # (n,) near the eigenvector at the end, up to signs, where the bound is sharp

    def apply(self, vector: Floats) -> Floats:
        """The product with a vector (n,)."""
        product: Floats = self.factors.solve(vector)
        return product

    def eigenvalues(self, inverted: Floats) -> Floats:
        """λ of Z from the eigenvalues 1/(σ − sλ)."""
        return self.sign * (self.shift - 1.0 / inverted)


def inverses_at_end(matrix: scipy.sparse.csr_array, which: Which) -> Iterator[Inverse]:
    """Inverses with a shift just beyond that end, then farther away; none where factors are forecast to be too large.

    The nearer, the better are neighbours separated, but eigenvalues that are 10⁵ times as far from the shift as the
    first would drown in the rounding of that one.
    """
    if which == "both" or not eliminated(matrix).is_affordable:
        return
    sign = 1.0 if which == "largest" else -1.0
    norm = float(scipy.sparse.linalg.norm(matrix, np.inf))
    try:
        bound, positive = _bound(matrix, sign, norm)
        for distance in _DISTANCES:
            shift = bound + distance * norm
            yield Inverse(_factors(sign * matrix, shift), sign, shift, positive)
    except (MemoryError, RuntimeError):  # the forecast was wrong; or singular to working precision
        return


def _factors(matrix: scipy.sparse.csr_array, shift: float) -> scipy.sparse.linalg.SuperLU:
    """σI − Z = LU, positive definite, so without pivoting. Minimum degree fills less than the dissection below."""
    shifted = scipy.sparse.csc_array(shift * scipy.sparse.eye_array(matrix.shape[0]) - matrix)
    return scipy.sparse.linalg.splu(
        shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )


def _bound(matrix: scipy.sparse.csr_array, sign: float, norm: float) -> tuple[float, Floats]:
    """An upper bound of the eigenvalues of sZ, sharp where sZ has no negative entry off the diagonal, and its vector.

    With C = sZ but |Z_ij| off the diagonal, and any positive x, no eigenvalue is above max_i (Cx)_i / x_i (Collatz and
    Wielandt). x = 1 gives 0 for A − D, x = √d gives 1 for D^-½AD^-½ without weights. Otherwise x ← (σI − C)⁻¹x, with σ
    the bound so far, makes the bound smaller in each step, down to the eigenvalue (Noda's iteration).
    """
    diagonal = sign * matrix.diagonal()
    off = abs(matrix - scipy.sparse.diags_array(matrix.diagonal()))
    compared = scipy.sparse.csr_array(off + scipy.sparse.diags_array(diagonal))

    def ratios(positive: Floats) -> Floats:
        quotients: Floats = diagonal + (off @ positive) / positive
        return quotients

    n = matrix.shape[0]
    tried = [np.ones(n), np.sqrt(np.maximum(np.diff(matrix.indptr), 1.0))]
    positive = min(tried, key=lambda x: float(ratios(x).max()))
    bound = float(ratios(positive).max())
    for _ in range(_MOST_STEPS):
        if bound - float(ratios(positive).min()) <= _SHARP * norm:
            break
        positive = _factors(compared, bound + _SHARP * norm).solve(positive)
        positive = positive / np.abs(positive).max()
        if not (positive > 0).all():
            break
        bound, before = min(bound, float(ratios(positive).max())), bound
        if before - bound <= _SHARP * norm:
            break
    return bound, positive


def known_vector(matrix: scipy.sparse.csr_array, inverse: Inverse | None, zero: float) -> Floats:
    """What is known of the first eigenvector of a connected graph, (n, 0) or (n, 1).

    The kernel of D − A is 1, that of D + A on a bipartite graph is 1 on one side and −1 on the other. They stand at the
    low end of the spectrum, where iteration would not tell them from the smallest eigenvalues that are kept. With the
    inverse, 1 is replaced by the vector that reaches the bound of the spectrum.
    """
    n = matrix.shape[0]
    off = scipy.sparse.tril(matrix, -1) + scipy.sparse.triu(matrix, 1)
    # Two copies of each node, edges from one copy to the other: in two pieces if and only if the graph is bipartite.
    _, piece = connected_components(scipy.sparse.block_array([[None, off], [off, None]]), directed=False)
    positive = np.ones(n) if inverse is None else inverse.positive
    for candidate in (positive, np.where(piece[:n] == piece[0], positive, -positive)):
        vector = candidate / np.linalg.norm(candidate)
        value = 0.0
        if inverse is not None:
            vector = inverse.apply(inverse.apply(vector))
            vector = vector / np.linalg.norm(vector)
            value = float(vector @ (matrix @ vector))
        image = matrix @ vector
        if np.linalg.norm(image - value * vector) <= zero:
            known: Floats = vector[:, None]
            return known
    return np.zeros((n, 0))


# --- forecast


def eliminated(matrix: scipy.sparse.csr_array) -> Elimination:
    """Bounds of fill and operations by dividing the graph in half again and again; it ends early beyond all bounds.

    Nodes that have one neighbour left are eliminated first and fill nothing. A piece is ordered by breadth (reverse
    Cuthill–McKee); if its envelope is wide, the nodes in the middle that separate the first half from the second come
    last, and the halves are pieces of their own. An eliminated node reaches at most the rest of its piece and what
    borders on it, so the bounds hold for this order.
    """
    n = matrix.shape[0]
    pattern = scipy.sparse.csr_array((np.ones(matrix.nnz, dtype=np.int8), matrix.indices, matrix.indptr), matrix.shape)
    core = _without_trees(pattern)
    total = Elimination(2.0 * n, n)
    pieces, local = [np.flatnonzero(core)], np.full(n, -1)
    while pieces and total.is_affordable:
        nodes = pieces.pop()
        if not len(nodes):
            continue
        cost, halves = _divided(pattern, nodes, core, local)
        pieces += halves
        total = Elimination(total.fill + cost.fill, total.operations + cost.operations)
    return total


def _without_trees(pattern: scipy.sparse.csr_array) -> Flags:
    """Which nodes remain when those with a single neighbour are taken away, round after round."""
    degree, remains = np.diff(pattern.indptr) - (pattern.diagonal() != 0), np.ones(pattern.shape[0], dtype=bool)
    leaves = np.flatnonzero(degree <= 1)
    for _ in range(_PEELING_ROUNDS):
        if not len(leaves):
            break
        remains[leaves] = False
        touched = pattern[leaves].indices
        touched = touched[remains[touched]]
        np.subtract.at(degree, touched, 1)
        leaves = np.unique(touched[degree[touched] <= 1])
    return remains


def _divided(
    pattern: scipy.sparse.csr_array, nodes: Integers, core: Flags, local: Integers
) -> tuple[Elimination, list[Integers]]:
    """The cost of a piece, or of its separator and the halves that are left. ``local`` is −1 before and after."""
    m = len(nodes)
    rows = pattern[nodes]
    local[nodes] = np.arange(m)
    row, column = np.repeat(np.arange(m), np.diff(rows.indptr)), local[rows.indices]
    local[nodes] = -1
    inside, outside = column >= 0, (column < 0) & core[rows.indices]
    links = scipy.sparse.csr_array((rows.data[inside], (row[inside], column[inside])), shape=(m, m))
    place = np.empty(m, dtype=np.int64)
    place[reverse_cuthill_mckee(links, symmetric_mode=True)[::-1]] = np.arange(m)
    first = np.arange(m)  # the first column of each row's envelope
    np.minimum.at(first, place[row[inside]], place[column[inside]])
    border, which = np.unique(rows.indices[outside], return_inverse=True)
    enters = np.full(len(border), m)  # likewise for the nodes that border on the piece
    np.minimum.at(enters, which, place[row[outside]])
    if m <= _SMALL_PIECE or (np.arange(m) - first).sum() <= _BAND * m:
        begun = np.bincount(first, minlength=m) + np.bincount(enters, minlength=m)[:m]
        column_lengths = np.cumsum(begun) - np.arange(m) - 1.0  # below the diagonal
        return Elimination(float(column_lengths.sum()), float(np.square(column_lengths).sum())), []
    early = place < m // 2
    crossing = inside.copy()
    crossing[inside] = early[row[inside]] & ~early[column[inside]]
    sides = np.zeros((2, m), dtype=bool)
    sides[0, row[crossing]], sides[1, column[crossing]] = True, True
    size = int(sides.sum(axis=1).min())
    kept = ~sides[int(sides.sum(axis=1).argmin())]
    cost = Elimination(size * (size / 2 + len(border)), size * float(size + len(border)) ** 2)
    return cost, [nodes[early & kept], nodes[~early & kept]]
