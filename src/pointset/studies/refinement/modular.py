"""Products of matrices modulo a prime, exact and by BLAS: what fingerprints are made of (:func:`product`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]  # whole numbers 0 … p − 1

PRIME = 2**22 - 3
DRAWS = 5  # independent fingerprints of everything that is compared
_EXACT = 512  # terms of a sum: 2²² · 2²² · 2⁹ = 2⁵³, up to which float64 holds every whole number


def product(left: Numbers, right: Numbers) -> Numbers:
    """Left · right mod p, (…, n, n)."""
    total = np.zeros(left.shape)
    for begin in range(0, left.shape[-1], _EXACT):
        terms = slice(begin, begin + _EXACT)
        total += remainder(left[..., :, terms] @ right[..., terms, :])
    return remainder(total)


def remainder(numbers: Numbers) -> Numbers:
    """Numbers mod p for 0 ≤ numbers < 2⁵³; np.fmod is a hundred times slower. The quotient may be off by one."""
    rest: Numbers = numbers - PRIME * np.floor(numbers / PRIME)
    rest += PRIME * (rest < 0)
    rest -= PRIME * (rest >= PRIME)
    return rest
