"""How many graphs each part gets: fractions or whole counts → exact sizes that lose no graph (:func:`part_sizes`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Real

from pointset.datasets.splits.parts import PARTS, whole_number
from pointset.errors import SpecError

DEFAULT_FRACTIONS = (0.8, 0.1, 0.1)
_SUM_TOLERANCE = 1e-6  # 1/3 three times is not quite 1
_EXPECTED = "three numbers for train, val and test that add up to 1, or three whole numbers that add up to the graphs"


def exact_shares(count: int, fractions: Sequence[float]) -> tuple[Fraction, Fraction, Fraction]:
    """The share of train, val and test as exact fractions that add up to 1.

    A decimal such as 0.1 means one tenth and not its binary neighbour, so that sizes never hang on a rounding error.

    Raises:
        SpecError: the fractions are not three numbers that add up to 1, nor whole counts that add up to ``count``.
    """
    count = whole_number(count, "count", least=1)
    try:
        given = tuple(fractions)
    except TypeError:
        raise SpecError(f"got fractions={fractions!r}; expected {_EXPECTED}") from None
    if len(given) != len(PARTS) or not all(_is_share(value) for value in given):
        raise SpecError(f"got fractions={fractions!r}; expected {_EXPECTED}, none below 0. A part may be 0")
    exact = [Fraction(repr(float(value))) for value in given]
    total = sum(exact, Fraction(0))
    whole = all(isinstance(value, Integral) for value in given)
    if abs(total - 1) > _SUM_TOLERANCE and not (whole and total == count):
        raise SpecError(f"fractions={fractions!r} add up to {float(total):g}; expected {_EXPECTED} ({count})")
    if not exact[0]:
        raise SpecError(f"got fractions={fractions!r}, which leave nothing to train on; expected a first part above 0")
    return exact[0] / total, exact[1] / total, exact[2] / total


def part_sizes(count: int, fractions: Sequence[float] = DEFAULT_FRACTIONS) -> tuple[int, int, int]:
    """Sizes of train, val and test that add up to ``count``.

    Each share is rounded down; the graphs left over go one by one to the parts with the largest remainders, the earlier
    part first where they are equal. After that a part that was asked for and is empty gets one graph from the largest
    part, if there are enough graphs for all parts asked for.
    """
    shares = exact_shares(count, fractions)
    quotas = [share * count for share in shares]
    sizes = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(PARTS)), key=lambda part: (sizes[part] - quotas[part], part))
    for part in by_remainder[: count - sum(sizes)]:
        sizes[part] += 1
    if count >= sum(share > 0 for share in shares):
        for part, share in enumerate(shares):
            if share and not sizes[part]:
                sizes[sizes.index(max(sizes))] -= 1
                sizes[part] = 1
    return sizes[0], sizes[1], sizes[2]


def _is_share(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) and float(value) >= 0
