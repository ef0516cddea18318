"""Are two point sets equal up to O(r)? Decided from coordinates alone, by every bijection of the points.

Points q_v ∈ R^{r×d} (d channels, on which one R ∈ O(r) acts) can be carried onto points q'_π(v) if and only if all
inner products ⟨q_u^a, q_v^b⟩ and ⟨q'_π(u)^a, q'_π(v)^b⟩ agree. So only these are compared: no graph is seen.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bijection = NDArray[np.int64]  # [v] is the point of the second set that point v of the first becomes

CLOSE = 1e-6  # inner products of equal sets agree to about 1e-14, others differ by far more; both are reported


def inner_products(points: Array) -> Array:
    """(n, r, d) → (n, n, d, d): ⟨q_u^a, q_v^b⟩ for all points and channels."""
    products: Array = np.einsum("ura,vrb->uvab", points, points)
    return products


def rotation(first: Array, second: Array) -> tuple[Array, float]:
    """R ∈ O(r) that brings the points (n, r, d) nearest to ``second`` in order (Procrustes), and the largest rest."""
    left, _, right = np.linalg.svd(np.einsum("vsa,vra->sr", second, first))
    R = left @ right
    return R, float(np.abs(np.einsum("sr,vra->vsa", R, first) - second).max(initial=0.0))


def random_rotation(size: int, generator: np.random.Generator) -> Array:
    """A random R ∈ O(r), (r, r), reflections among them."""
    return np.linalg.qr(generator.normal(size=(size, size)))[0]


def bijection(first: Array, second: Array, features: tuple[Array, Array] | None = None) -> Bijection | None:
    """A bijection that keeps all inner products (n, n, d, d) and the features (n,) of the points; None if none does."""
    candidates = _bijections(len(first))
    if features is not None:
        candidates = candidates[(features[1][candidates] == features[0]).all(-1)]
    for u, v in sorted(np.ndindex(len(first), len(first)), key=lambda pair: (pair[0] != pair[1], max(pair))):
        image = second[candidates[:, u], candidates[:, v]]
        candidates = candidates[(np.abs(image - first[u, v]) < CLOSE).all((-1, -2))]
    return candidates[0] if len(candidates) else None


def smallest_difference(first: Array, second: Array) -> float:
    """Min over all bijections of the largest difference of an inner product: 0 where the sets are equal up to O(r)."""
    candidates = _bijections(len(first))
    images = second[candidates[:, :, None], candidates[:, None, :]]
    return float(np.abs(images - first).reshape(len(candidates), -1).max(-1, initial=0.0).min())


@functools.cache
def _bijections(n: int) -> Bijection:
    return np.array(list(itertools.permutations(range(n))), dtype=np.int64).reshape(math.factorial(n), n)


def invariants(products: Array) -> Array:
    """(B, n, n, d, d) → (B, p): numbers that no bijection and no R changes, and that rounding changes by as little.

    Sorted spectra of the inner products of each two channels and of their squares, sorted squared lengths, sorted sums
    over the other points of powers of inner products. Sorting numbers is safe under rounding; sorting rows is not.
    """
    channels = products.shape[-1]
    upper = [products[..., a, b] for a in range(channels) for b in range(a, channels)]
    parts = []
    for gram in upper:
        symmetric = (gram + gram.mT) / 2
        parts += [np.linalg.eigvalsh(symmetric), np.linalg.eigvalsh(symmetric**2)]
        parts += [np.sort(np.diagonal(gram, axis1=-2, axis2=-1))]
        parts += [np.sort((gram**power).sum(-1)) for power in (1, 2, 3)]
    return np.concatenate(parts, axis=-1)


@dataclass(frozen=True)
class Census:
    """All pairs of point sets with equally many points in equally many dimensions."""

    pairs: int
    searched: int  # pairs that the invariants left open, decided by every bijection
    equal: tuple[tuple[int, int], ...]  # pairs that are equal up to O(r)
    smallest_gap: float  # smallest of the largest differences of an invariant, over pairs told apart by them
    smallest_searched: float  # smallest difference of inner products under the best bijection, over pairs searched

    @property
    def gaps(self) -> str:
        """How clear the decisions were."""
        searched = f", {self.searched} by every bijection" if self.searched else ""
        if self.searched and not self.equal:
            searched += f" (inner products then differ by {self.smallest_searched:.3g} or more)"
        return (
            f"{self.pairs - self.searched:,} by invariants (which differ by {self.smallest_gap:.2g} or more){searched}"
        )

    def counted(self) -> dict[str, float | int]:
        """For :class:`~pointset.studies.statement.Finding`."""
        return {
            "pairs_of_one_size_and_rank": self.pairs,
            "pairs_searched": self.searched,
            "equal_pairs": len(self.equal),
            "smallest_gap": self.smallest_gap,
        }


def census(point_sets: list[Array]) -> Census:
    """Decide for all pairs of point sets (n, r, d), n and r their own, whether they are equal up to O(r)."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, points in enumerate(point_sets):
        groups.setdefault(points.shape[:2], []).append(index)
    total, gap, searched_gap = 0, np.inf, np.inf
    open_pairs, equal = 0, []
    for members in groups.values():
        products = np.stack([inner_products(point_sets[index]) for index in members])
        numbers = invariants(products)
        total += len(members) * (len(members) - 1) // 2
        for row in range(len(members) - 1):
            difference = np.abs(numbers[row + 1 :] - numbers[row]).max(-1, initial=0.0)
            gap = min(gap, float(difference[difference >= CLOSE].min(initial=np.inf)))
            for other in row + 1 + np.flatnonzero(difference < CLOSE):
                open_pairs += 1
                smallest = smallest_difference(products[row], products[other])
                searched_gap = min(searched_gap, smallest)
                if smallest < CLOSE:
                    equal.append((members[row], members[other]))
    return Census(total, open_pairs, tuple(sorted(equal)), gap, searched_gap)
