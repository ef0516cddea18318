"""Every part with the same share of each class (:func:`stratified_split`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.splits.label_classes import classes_of
from pointset.datasets.splits.parts import PARTS, Integers, Split, parts_from_codes
from pointset.datasets.splits.shuffled import generator_of
from pointset.datasets.splits.sizes import DEFAULT_FRACTIONS, exact_shares, part_sizes


def stratified_split(labels: Any, fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int) -> Split:
    """Deal the graphs out at random so that every part has the same share of each class.

    A class of c graphs gives each part ⌊f·c⌋ or ⌈f·c⌉ of them, f the part's fraction, and the parts are together as
    large as those of :func:`~pointset.datasets.splits.random_split`. (Only where a part would be empty otherwise does a
    class give one graph more.)

    Args:
        labels: (G,) classes, text or real targets (by quantile bins), or (G, k) for several, taken together as one
            class; see :func:`~pointset.datasets.splits.label_classes.classes_of`.
        fractions: as in :func:`~pointset.datasets.splits.random_split`.
        seed: the same seed gives the same split on every machine.

    Raises:
        SpecError: impossible fractions or labels.
    """
    classes = classes_of(labels)
    count = len(classes)
    rng = generator_of(seed)
    sizes = np.bincount(classes)  # (C,)
    table = _class_by_part(sizes, count, fractions, rng)  # (C, 3)
    order = np.lexsort((rng.permutation(count), classes))  # by class, at random within
    codes = np.empty(count, dtype=np.int64)
    codes[order] = np.repeat(np.tile(np.arange(len(PARTS)), len(sizes)), table.ravel())
    return parts_from_codes(codes)


def _class_by_part(sizes: Integers, count: int, fractions: Sequence[float], rng: np.random.Generator) -> Integers:
    """(C, 3) how many graphs of each class go to each part: rows add up to the classes, columns to the parts.

    Each entry is its quota rounded down or up. With three parts such a table always exists for part sizes that are
    themselves rounded quotas, and moving single graphs between two parts, or through the third, always finds it.
    """
    shares = exact_shares(count, fractions)
    quotas = [[share * int(size) for share in shares] for size in sizes]
    low = np.array([[math.floor(quota) for quota in row] for row in quotas], dtype=np.int64)
    high = np.array([[math.ceil(quota) for quota in row] for row in quotas], dtype=np.int64)
    table = low.copy()
    for parts in np.argsort(low - np.array(quotas, dtype=np.float64), axis=1, kind="stable").T:
        rows = np.flatnonzero(table.sum(axis=1) < sizes)  # what is left over goes to the largest remainders
        table[rows, parts[rows]] += 1
    target = np.array(part_sizes(count, fractions))
    order = rng.permutation(len(sizes))
    for least, most in ((low, high), (np.zeros_like(low), np.full_like(high, count))):
        while _step(table, target, least, most, order):
            pass
    return table


def _step(table: Integers, target: Integers, least: Integers, most: Integers, order: Integers) -> bool:
    """Bring column sums nearer to the target; False where that is done, or no move is left."""
    excess = table.sum(axis=0) - target
    for giver, taker in itertools.permutations(range(len(target)), 2):
        wanted = int(min(excess[giver], -excess[taker]))
        if wanted <= 0:
            continue
        third = len(target) - giver - taker
        direct = _movable(table, least, most, giver, taker)[order]
        if direct.any():
            _move(table, order[direct][:wanted], giver, taker)
            return True
        first = order[_movable(table, least, most, giver, third)[order]]
        second = order[_movable(table, least, most, third, taker)[order]]
        if len(first) and len(second):
            _move(table, first[:1], giver, third)
            _move(table, second[:1], third, taker)
            return True
    return False


def _movable(table: Integers, least: Integers, most: Integers, giver: int, taker: int) -> NDArray[np.bool_]:
    """(C,) whether a class can give one graph from one part to another."""
    result: NDArray[np.bool_] = (table[:, giver] > least[:, giver]) & (table[:, taker] < most[:, taker])
    return result


def _move(table: Integers, rows: Integers, giver: int, taker: int) -> None:
    table[rows, giver] -= 1
    table[rows, taker] += 1
