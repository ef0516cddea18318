"""Graphs dealt out at random (:func:`random_split`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.splits.parts import (
    DEFAULT_FRACTIONS,
    PARTS,
    Integers,
    Split,
    exact_shares,
    part_sizes,
    parts_from_codes,
    whole_number,
)
from pointset.errors import SpecError


def random_split(count: int, fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int) -> Split:
    """Deal ``count`` graphs out to train, val and test at random.

    Args:
        count: number of graphs.
        fractions: shares of train, val and test that add up to 1, or whole numbers of graphs that add up to ``count``.
            Sizes are rounded as :func:`~pointset.datasets.splits.parts.part_sizes` says; no graph is lost.
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


# Labels of any kind → one class for each graph, to stratify by (:func:`classes_of`).


QUANTILE_BINS = 10  # of real-valued targets
_LEAST_IN_BIN = 5  # graphs: fewer bins where there are few graphs
_FEW_VALUES = 10  # real numbers with no more different values than this are classes written as 0.0, 1.0, …


def classes_of(labels: Any, count: int | None = None) -> Integers:
    """One class 0, 1, … for each graph.

    * Whole numbers, truth values and text are classes as they are.
    * Real numbers with up to 10 different values are classes too; otherwise the class is one of 10 quantile bins (as
      near to equal in size as ties allow). Missing values (NaN, None) are a class of their own.
    * Several columns, (G, k), are taken together: the class is the whole row. Where more than half of the graphs have a
      row to themselves that would be no stratification, and is refused.

    Args:
        labels: (G,) or (G, k).
        count: G, where it is known.

    Raises:
        SpecError: labels of another shape or number, or with hardly any value twice.
    """
    table = _table(labels, count)
    classes = np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        codes = _column_classes(column)
        joint = classes * (codes.max(initial=0) + 1) + codes
        classes = np.unique(joint, return_inverse=True)[1].astype(np.int64).reshape(-1)
    alone = int((np.bincount(classes, minlength=1) == 1).sum())
    if len(table) > 1 and alone > len(table) / 2:
        remedy = (
            "Stratify by one column, e.g. labels[:, 0], or use random_split"
            if table.shape[1] > 1
            else "Pass real-valued targets as floating-point numbers, which are binned, or use random_split"
        )
        raise SpecError(
            f"{alone} of {len(table)} graphs have labels that no other graph has, so there is nothing to stratify by; "
            f"expected classes that most graphs share. {remedy}"
        )
    return classes


def _table(labels: Any, count: int | None) -> NDArray[Any]:
    """The labels as (G, k)."""
    try:
        array = np.asarray(labels)
    except (ValueError, TypeError, RuntimeError) as error:
        raise SpecError(f"the labels cannot be read as a table: {error}") from None
    if array.ndim not in (1, 2) or not len(array) or array.shape[-1] == 0:
        raise SpecError(f"the labels have shape {array.shape}; expected (G,) or (G, k), one row for each graph")
    if count is not None and len(array) != count:
        raise SpecError(f"got labels of {len(array)} graphs; expected one for each of {count} graphs")
    if array.dtype.kind not in "biufUO":
        raise SpecError(f"the labels are of type {array.dtype}; expected numbers or text")
    return array.reshape(len(array), -1)


def _column_classes(column: NDArray[Any]) -> Integers:
    if column.dtype.kind == "O":
        column = _plain(column)
    if column.dtype.kind == "f":
        return _real_classes(column.astype(np.float64))
    return np.unique(column, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """Numbers with missing ones among them as real numbers, everything else as text."""
    if all(value is None or isinstance(value, Real) for value in column):
        return np.array([np.nan if value is None else float(value) for value in column])
    return np.array(["" if value is None else f"{type(value).__name__} {value}" for value in column])


def _real_classes(column: NDArray[np.float64]) -> Integers:
    known = ~np.isnan(column)
    values, codes = np.unique(column[known], return_inverse=True)
    if len(values) > _FEW_VALUES:
        position = np.searchsorted(np.sort(column[known]), values)  # equal values stay in one bin
        bins = max(min(QUANTILE_BINS, int(known.sum()) // _LEAST_IN_BIN), 1)
        codes = position[codes] * bins // int(known.sum())
    classes = np.zeros(len(column), dtype=np.int64)
    classes[known] = 1 + codes
    return classes


# Every part with the same share of each class (:func:`stratified_split`).


def stratified_split(labels: Any, fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int) -> Split:
    """Deal the graphs out at random so that every part has the same share of each class.

    A class of c graphs gives each part ⌊f·c⌋ or ⌈f·c⌉ of them, f the part's fraction, and the parts are together as
    large as those of :func:`~pointset.datasets.splits.random_split`. (Only where a part would be empty otherwise does a
    class give one graph more.)

    Args:
        labels: (G,) classes, text or real targets (by quantile bins), or (G, k) for several, taken together as one
            class; see :func:`~pointset.datasets.splits.random.classes_of`.
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


# k splits in which every graph is tested once (:func:`folds`).


def folds(
    count: int, k: int = 10, *, seed: int, labels: Any = None, validation: Literal["inner", "test"] = "inner"
) -> list[Split]:
    """k-fold cross-validation: split i tests on fold i.

    The folds' sizes differ by at most one, and with labels so do the numbers of each class in them.

    Args:
        count: number of graphs.
        k: number of folds, from 2 to ``count``.
        seed: the same seed gives the same folds on every machine.
        labels: stratify by them; as in :func:`~pointset.datasets.splits.stratified_split`.
        validation: ``"inner"`` takes the fold after the test fold (the first after the last) out of the training part,
            so that the test fold is never looked at before the end: k ≥ 3. ``"test"`` has ``val`` equal to ``test``:
            the custom of the TU datasets, and of the paper, which picks the epoch on the test fold. Its scores are too
            good by the gain of that choice; use it only to compare with numbers made so.

    Returns:
        k splits; indices are sorted within each part.

    Raises:
        SpecError: an impossible number of folds, or labels of another number of graphs.
    """
    count, k = whole_number(count, "count", least=1), whole_number(k, "k", least=2)
    if validation not in ("inner", "test"):
        raise SpecError(f"got validation={validation!r}; expected 'inner' or 'test'")
    if k > count:
        raise SpecError(f"got k={k} folds for {count} graphs; expected at most one fold for each graph")
    if k == 2 and validation == "inner":
        raise SpecError("with k=2 folds validation would take all graphs to train on; use k ≥ 3, or validation='test'")
    order = generator_of(seed).permutation(count)
    if labels is not None:
        order = order[np.argsort(classes_of(labels, count)[order], kind="stable")]
    fold_of = np.empty(count, dtype=np.int64)
    fold_of[order] = np.arange(count) % k  # dealt out like cards, class after class without a new start
    return [_split(fold_of, test, (test + 1) % k if validation == "inner" else test) for test in range(k)]


def _split(fold_of: Integers, test: int, val: int) -> Split:
    return {
        "train": np.flatnonzero((fold_of != test) & (fold_of != val)),
        "val": np.flatnonzero(fold_of == val),
        "test": np.flatnonzero(fold_of == test),
    }
