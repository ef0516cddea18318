"""What a split is: index arrays for train, val and test, and the check that all of them pass (:func:`check_split`)."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from pointset.arrays import Integers
from pointset.errors import SpecError, did_you_mean

Split = dict[str, Integers]  # train, val, test → the numbers of the graphs in that part

PARTS = ("train", "val", "test")
EXPECTED_PARTS = "train, val (or valid, validation) or test"
_PART_OF = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_PART_OF |= {"training": "train", "dev": "val", "testing": "test"}  # as tables have it, too


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
            known = did_you_mean(str(name), list(_PART_OF))
            raise SpecError(f"the split has a part {str(name)[:80]!r}; expected {EXPECTED_PARTS}{known}")
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
    """The part that a word names, whatever its case and the space around it; None for any other word."""
    return _PART_OF.get(word.strip().lower()) if isinstance(word, str) else None


def whole_number(value: Any, name: str, least: int = 0, most: int | None = None) -> int:
    """The value as an int; a :class:`SpecError` where it is not a whole number from ``least`` to ``most``."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least or (most is not None and number > most):
        expected = f", {least} or more" if most is None else f" from {least} to {most}"
        raise SpecError(f"got {name}={value!r}; expected a whole number{expected}")
    return number


def parts_from_codes(codes: Integers) -> Split:
    """The split in which graph i is in part ``codes[i]`` of train, val, test (0, 1, 2), or in none (-1); sorted."""
    return {part: np.flatnonzero(codes == code) for code, part in enumerate(PARTS)}


def codes_of(split: Split, count: int) -> Integers:
    """(count,) the part of each graph: 0, 1, 2 for train, val, test, or -1 for none. Inverts ``parts_from_codes``."""
    codes = np.full(count, -1)
    for code, part in enumerate(PARTS):
        codes[split.get(part, [])] = code
    return codes


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
