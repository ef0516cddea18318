"""Making splits: at random, with the same share of every class, in folds, or by scaffold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Integers
from pointset.datasets.splits.parts import PARTS, Split, parts_from_codes, whole_number
from pointset.errors import SpecError

DEFAULT_FRACTIONS = (0.8, 0.1, 0.1)
_SUM_TOLERANCE = 1e-6  # 1/3 three times is not quite 1
_EXPECTED = "three numbers for train, val and test that add up to 1, or three whole numbers that add up to the graphs"
_QUANTILE_BINS = 10  # of real-valued targets
_LEAST_IN_BIN = 5  # graphs: fewer bins where there are few graphs
_FEW_VALUES = 10  # real numbers with no more different values than this are classes written as 0.0, 1.0, …


def random_split(count: int, fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int) -> Split:
    """Deal ``count`` graphs out to train, val and test at random.

    Args:
        count: number of graphs.
        fractions: shares of train, val and test that add up to 1, or whole numbers of graphs that add up to ``count``.
            Sizes are rounded as :func:`~pointset.datasets.splits.splitters.part_sizes` says; no graph is lost.
        seed: the same seed gives the same split on every machine.

    Returns:
        The split; indices are sorted within each part.

    Raises:
        SpecError: impossible fractions, or no graph.
    """
    sizes = part_sizes(count, fractions)
    codes = np.empty(count, dtype=np.int64)
    codes[_generator(seed).permutation(count)] = np.repeat(np.arange(len(sizes)), sizes)
    return parts_from_codes(codes)


def stratified_split(labels: Any, fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int) -> Split:
    """Deal the graphs out at random so that every part has the same share of each class.

    A class of c graphs gives each part ⌊f·c⌋ or ⌈f·c⌉ of them, f the part's fraction, and the parts are together as
    large as those of :func:`~pointset.datasets.splits.random_split`. (Only where a part would be empty otherwise does a
    class give one graph more.)

    Args:
        labels: (G,) classes, text or real targets (by quantile bins), or (G, k) for several, taken together as one
            class; see :func:`~pointset.datasets.splits.splitters.classes_of`.
        fractions: as in :func:`~pointset.datasets.splits.random_split`.
        seed: the same seed gives the same split on every machine.

    Raises:
        SpecError: impossible fractions or labels.
    """
    classes = classes_of(labels)
    count = len(classes)
    rng = _generator(seed)
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
    shares = _exact_shares(count, fractions)
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
        while _adjust_sizes(table, target, least, most, order):
            pass
    return table


def _adjust_sizes(table: Integers, target: Integers, least: Integers, most: Integers, order: Integers) -> bool:
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


def classes_of(labels: Any, count: int | None = None) -> Integers:
    """One class 0, 1, … for each graph, from labels (G,) or (G, k); ``count`` is G, where it is known.

    * Whole numbers, truth values and text are classes as they are.
    * Real numbers with up to 10 different values are classes too; otherwise the class is one of 10 quantile bins (as
      near to equal in size as ties allow). Missing values (NaN, None) are a class of their own.
    * Several columns, (G, k), are taken together: the class is the whole row. Where more than half of the graphs have a
      row to themselves that would be no stratification, and is refused.
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
    """Objects are real numbers where all are numbers or missing (None), otherwise text with their type."""
    if column.dtype.kind == "O" and all(value is None or isinstance(value, Real) for value in column):
        column = np.array([np.nan if value is None else float(value) for value in column])
    elif column.dtype.kind == "O":
        column = np.array(["" if value is None else f"{type(value).__name__} {value}" for value in column])
    if column.dtype.kind == "f":
        return _real_classes(column.astype(np.float64))
    return np.unique(column, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _real_classes(column: NDArray[np.float64]) -> Integers:
    known = ~np.isnan(column)
    values, codes = np.unique(column[known], return_inverse=True)
    if len(values) > _FEW_VALUES:
        position = np.searchsorted(np.sort(column[known]), values)  # equal values stay in one bin
        bins = max(min(_QUANTILE_BINS, int(known.sum()) // _LEAST_IN_BIN), 1)
        codes = position[codes] * bins // int(known.sum())
    classes = np.zeros(len(column), dtype=np.int64)
    classes[known] = 1 + codes
    return classes


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
    order = _generator(seed).permutation(count)
    if labels is not None:
        order = order[np.argsort(classes_of(labels, count)[order], kind="stable")]
    fold_of = np.empty(count, dtype=np.int64)
    fold_of[order] = np.arange(count) % k  # dealt out like cards, class after class without a new start
    splits = []
    for test in range(k):
        val = (test + 1) % k if validation == "inner" else test
        train = np.flatnonzero((fold_of != test) & (fold_of != val))
        splits.append({"train": train, "val": np.flatnonzero(fold_of == val), "test": np.flatnonzero(fold_of == test)})
    return splits


def scaffold_split(smiles: Sequence[str], fractions: Sequence[float] = DEFAULT_FRACTIONS) -> Split:
    """Split molecules by their Bemis–Murcko scaffold (rings and the chains between them), always in the same way.

    As in OGB and DeepChem, the largest groups go first, into train until it is full, then into val, then into test; so
    train has the common scaffolds and test the rare ones.

    Molecules without a ring have the empty scaffold and are one group, as in OGB, DeepChem and chemprop; so are SMILES
    that cannot be read.

    Args:
        smiles: (G,) one for each molecule.
        fractions: as in :func:`~pointset.datasets.splits.random_split`; reached only as nearly as whole groups allow.

    Raises:
        SpecError: impossible fractions, or groups so large that a part stays empty.
        MissingExtraError: RDKit is not installed.
    """
    from pointset.datasets.molecules.parallel import read_many
    from pointset.datasets.molecules.parsing import Unreadable, murcko_scaffold

    _exact_shares(len(smiles), fractions)  # refused before the scaffolds are made, which takes a while
    scaffolds = ["" if isinstance(found, Unreadable) else found for found in read_many(smiles, murcko_scaffold)]
    return split_by_scaffold(scaffolds, fractions)


def split_by_scaffold(scaffolds: Sequence[str], fractions: Sequence[float] = DEFAULT_FRACTIONS) -> Split:
    """As :func:`scaffold_split`, for scaffolds (or any other names of groups) that are known already."""
    count = len(scaffolds)
    shares = _exact_shares(count, fractions)
    by_scaffold: dict[str, list[int]] = {}
    for index, scaffold in enumerate(scaffolds):
        by_scaffold.setdefault(scaffold, []).append(index)
    # Equal groups by the later first member, as OGB does it: only so does its official split come out.
    groups = sorted(by_scaffold.values(), key=lambda group: (len(group), group[0]), reverse=True)
    room = [math.floor(shares[0] * count), math.floor((shares[0] + shares[1]) * count)]
    split = parts_from_codes(_fill_in_turn(groups, room, count))
    empty = [part for part, share in zip(PARTS, shares, strict=True) if share and not len(split[part])]
    if empty:
        raise SpecError(
            f"the part {empty[0]!r} stays empty: there are {len(groups)} scaffolds for {count} molecules, the largest "
            f"with {len(groups[0])}, and a scaffold is never divided. Use random_split, or other fractions"
        )
    return split


def _fill_in_turn(groups: list[list[int]], room: list[int], count: int) -> Integers:
    """Into train while it fits; otherwise into val while train and val together hold it; otherwise into test."""
    codes = np.empty(count, dtype=np.int64)
    filled = [0, 0, 0]
    for group in groups:
        if filled[0] + len(group) <= room[0]:
            part = 0
        elif filled[0] + filled[1] + len(group) <= room[1]:
            part = 1
        else:
            part = 2
        codes[group] = part
        filled[part] += len(group)
    return codes


def _generator(seed: Any) -> np.random.Generator:
    """PCG64 with this seed; it never comes from the state of the process."""
    return np.random.default_rng(whole_number(seed, "seed"))


def part_sizes(count: int, fractions: Sequence[float] = DEFAULT_FRACTIONS) -> tuple[int, int, int]:
    """Sizes of train, val and test that add up to ``count``.

    Each share is rounded down; the graphs left over go one by one to the parts with the largest remainders, the earlier
    part first where they are equal. After that a part that was asked for and is empty gets one graph from the largest
    part, if there are enough graphs for all parts asked for.
    """
    shares = _exact_shares(count, fractions)
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


def _exact_shares(count: int, fractions: Sequence[float]) -> tuple[Fraction, Fraction, Fraction]:
    """The share of train, val and test as exact fractions that add up to 1.

    A decimal such as 0.1 means one tenth and not its binary neighbour, so that sizes never hang on a rounding error.
    """
    count = whole_number(count, "count", least=1)
    try:
        given = tuple(fractions)
    except TypeError:
        raise SpecError(f"got fractions={fractions!r}; expected {_EXPECTED}") from None
    shares = [value for value in given if isinstance(value, Real) and not isinstance(value, bool)]
    if len(shares) != len(given) or len(given) != len(PARTS) or not all(0 <= value < math.inf for value in shares):
        raise SpecError(f"got fractions={fractions!r}; expected {_EXPECTED}, none below 0. A part may be 0")
    exact = [Fraction(repr(float(value))) for value in given]
    total = sum(exact, Fraction(0))
    whole = all(isinstance(value, Integral) for value in given)
    if abs(total - 1) > _SUM_TOLERANCE and not (whole and total == count):
        raise SpecError(f"fractions={fractions!r} add up to {float(total):g}; expected {_EXPECTED} ({count})")
    if not exact[0]:
        raise SpecError(f"got fractions={fractions!r}, which leave nothing to train on; expected a first part above 0")
    return exact[0] / total, exact[1] / total, exact[2] / total
