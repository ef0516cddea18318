"""What a split is: index arrays for train, val and test, and the check that all of them pass (:func:`check_split`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.errors import SpecError, did_you_mean

Integers = NDArray[np.int64]
Split = dict[str, Integers]  # train, val, test → the numbers of the graphs in that part

PARTS = ("train", "val", "test")
WORDS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}  # word → part
EXPECTED_WORDS = "train, val (or valid, validation) or test"


def check_split(split: Mapping[str, Any], count: int) -> Split:
    """Check a split of ``count`` graphs, and give it the form that everything else relies on.

    Args:
        split: index arrays (or lists) of whole numbers by part; ``valid`` and ``validation`` are taken as ``val``. A
            part that is not there is empty. Graphs in no part are simply not used.
        count: number of graphs; indices are 0 to count − 1.

    Returns:
        A new dictionary with the keys train, val, test, in this order, of int64 arrays. The order of the indices stays.

    Raises:
        SpecError: an unknown part, anything but whole numbers in range, an index twice in a part or in two parts, or
            no graph to train on. One exception: ``val`` may be exactly ``test``, as in the protocol that picks the
            epoch on the test fold (:func:`~pointset.datasets.splits.folds` with ``validation="test"``).
    """
    count = whole_number(count, "count")
    if not isinstance(split, Mapping):
        raise SpecError(f"got a split of type {type(split).__name__}; expected a dictionary with keys train, val, test")
    result: Split = {}
    for name, values in split.items():
        part = part_of(name)
        if part is None:
            known = did_you_mean(str(name), list(WORDS))
            raise SpecError(f"the split has a part {str(name)[:80]!r}; expected {EXPECTED_WORDS}{known}")
        if part in result:
            raise SpecError(f"the split names the part {part!r} twice; expected each part once")
        result[part] = _indices(values, part, count)
    result = {part: result.get(part, np.zeros(0, dtype=np.int64)) for part in PARTS}
    if not len(result["train"]):
        raise SpecError("the part 'train' is empty; expected at least one graph to train on")
    if len(result["test"]) and np.array_equal(result["val"], result["test"]):
        _check_once({part: result[part] for part in ("train", "test")}, count)
    else:
        _check_once(result, count)
    return result


def part_of(word: object) -> str | None:
    """The part that a word names, whatever its case and the space around it; None where it names none."""
    return WORDS.get(word.strip().lower()) if isinstance(word, str) else None


def whole_number(value: Any, name: str, least: int = 0) -> int:
    """The value as an int.

    Raises:
        SpecError: it is no whole number, or too small.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise SpecError(f"got {name}={value!r}; expected a whole number, {least} or more")
    return number


def parts_from_codes(codes: Integers) -> Split:
    """The split in which graph i is in part ``codes[i]`` of train, val, test (0, 1, 2), or in none (-1); sorted."""
    return {part: np.flatnonzero(codes == code) for code, part in enumerate(PARTS)}


def _indices(values: Any, part: str, count: int) -> Integers:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:  # ragged lists, tensors on another device
        raise SpecError(f"the part {part!r} cannot be read as a list of whole numbers: {error}") from None
    if array.ndim != 1:
        raise SpecError(f"the part {part!r} has shape {array.shape}; expected (k,), a list of whole numbers")
    if array.dtype.kind == "b":
        raise SpecError(
            f"the part {part!r} is a mask of truth values; expected indices. Convert with numpy.flatnonzero"
        )
    if array.size and array.dtype.kind not in "iu":
        first = str(array.flat[0])[:40]
        raise SpecError(
            f"the part {part!r} holds values such as {first!r} ({array.dtype}); expected whole numbers from 0 to "
            f"{count - 1}. Convert with numpy.asarray(indices, dtype=int) if they are whole"
        )
    if array.size:
        wrong = (array < 0) | (array >= count)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise SpecError(
                f"the part {part!r} holds {array[at]} at position {at}; expected 0 to {count - 1}, as there are "
                f"{count} graphs. Is the split of another dataset, or counted from 1?"
            )
    return array.astype(np.int64)


def _check_once(split: Split, count: int) -> None:
    """Refuse a graph that stands twice in a part, or in two parts."""
    owner = np.full(count, -1, dtype=np.int64)
    for code, (part, indices) in enumerate(split.items()):
        repeated = np.flatnonzero(np.bincount(indices, minlength=count) > 1)
        if len(repeated):
            raise SpecError(f"the part {part!r} holds graph {repeated[0]} more than once; expected each graph once")
        before = indices[owner[indices] >= 0]
        if len(before):
            other = list(split)[owner[before[0]]]
            raise SpecError(
                f"graph {before[0]} is in {other!r} and in {part!r} ({len(before)} such graphs); expected each graph "
                "in one part. Remove it from one of them"
            )
        owner[indices] = code


# How many graphs each part gets: fractions or whole counts → exact sizes that lose no graph (:func:`part_sizes`).


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
