"""Graphs dealt out at random (:func:`random_split`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pointset.datasets.splits.parts import Split, parts_from_codes, whole_number
from pointset.datasets.splits.sizes import DEFAULT_FRACTIONS, part_sizes


def random_split(count: int, fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int) -> Split:
    """Deal ``count`` graphs out to train, val and test at random.

    Args:
        count: number of graphs.
        fractions: shares of train, val and test that add up to 1, or whole numbers of graphs that add up to ``count``.
            Sizes are rounded as :func:`~pointset.datasets.splits.sizes.part_sizes` says; no graph is lost.
        seed: the same seed gives the same split on every machine.

    Returns:
        The split; indices are sorted within each part.

    Raises:
        SpecError: impossible fractions, or no graph.
    """
    sizes = part_sizes(count, fractions)
    codes = np.empty(count, dtype=np.int64)
    codes[generator_of(seed).permutation(count)] = np.repeat(np.arange(len(sizes)), sizes)
    return parts_from_codes(codes)


def generator_of(seed: Any) -> np.random.Generator:
    """PCG64 with this seed; it never comes from the state of the process.

    Raises:
        SpecError: the seed is no whole number.
    """
    return np.random.default_rng(whole_number(seed, "seed"))
