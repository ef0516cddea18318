"""Whether there is enough in a table to learn from: targets that never vary, classes of one row, parts without any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.card import Task
from pointset.datasets.own.options import option
from pointset.datasets.splits.files import SplitChoice, names_file, split_column_of
from pointset.datasets.splits.parts import Split
from pointset.datasets.table import Limits
from pointset.errors import SpecError
from pointset.text import counted, listed

_MOST_NAMED = 3  # classes, in a note
_MOST_TARGETS = 6


def target_notes(
    y: NDArray[Any] | None,
    names: Sequence[str],
    task: Task,
    classes: Sequence[str] = (),
    limits: Limits | None = None,
) -> tuple[str, ...]:
    """What is to be said of targets (G, k) or classes (G,) that cannot be learned, or hardly."""
    if y is None or not len(y):
        return ()
    notes = []
    if task is Task.MULTI_CLASS:
        if len(classes) == 1 and len(y) > 1:
            notes.append(f"{names[0]!r} has a single class, {classes[0]!r}: there is nothing to learn from it")
        counts = np.bincount(y[y >= 0], minlength=len(classes))  # negative: not known
        single = [repr(name) for name, count in zip(classes, counts.tolist(), strict=True) if count == 1]
        if single and len(y) > 1:
            verb, dots = "has" if len(single) == 1 else "have", ", …" if len(single) > _MOST_NAMED else ""
            doubt = ". These may be names rather than classes" if 2 * len(single) > len(classes) else ""
            notes.append(
                f"{len(single):,} of {counted(len(classes), 'class')} of {names[0]!r} {verb} a single row: "
                f"{', '.join(single[:_MOST_NAMED])}{dots}, which cannot be both learned and tested{doubt}"
            )
        return tuple(notes)
    constant = {names[column]: value for column, value in _constant(y, limits).items()}
    if len(constant) == 1:
        ((name, value),) = constant.items()
        notes.append(f"{name!r} has the same value in every row ({value:g}): there is nothing to learn from it")
    elif constant:
        told = listed([repr(name) for name in constant], _MOST_TARGETS)
        notes.append(f"{told} have the same value in every row: there is nothing to learn from them")
    if task is not Task.REGRESSION and (rare := _in_one_row(y, names)):
        notes.append(f"{listed(rare, _MOST_TARGETS)} in a single row, which cannot be both learned and tested")
    return tuple(notes)


def _constant(y: NDArray[Any], limits: Limits | None) -> dict[int, float]:
    """The columns of (G, k) with one value in several rows, and no limit beside it."""
    table = y.reshape(len(y), -1)
    limited = np.zeros(table.shape[1], dtype=bool)
    for each in limits or ():
        limited |= ~np.isnan(each.reshape(len(table), -1)).all(axis=0)
    found = {}
    for column, values in enumerate(table.T):
        known = values[~np.isnan(values)]
        if len(known) > 1 and (known == known[0]).all() and not limited[column]:
            found[column] = float(known[0])
    return found


def _in_one_row(y: NDArray[Any], names: Sequence[str]) -> list[str]:
    """``'y' is 1`` for every label of which 0 or 1 stands once, and the other more often."""
    found = []
    for name, values in zip(names, y.reshape(len(y), -1).T, strict=True):
        counts = [int((values == label).sum()) for label in (0, 1)]
        if min(counts) == 1 < max(counts):
            found.append(f"{name!r} is {counts.index(1)}")
    return found


def check_varies(
    y: NDArray[Any], names: Sequence[str], task: Task, where: str, classes: Sequence[str] = (), limits: Any = None
) -> None:
    """Refuse a training part, targets (rows, k) or classes (rows,), in which no target varies.

    Where some do, the others are only said (:func:`target_notes`); so is a single row.
    """
    remedy = f"Choose another column with {option('targets')}, or another split with {option('split')}"
    if task is Task.MULTI_CLASS:
        y = y[y >= 0]
        if len(y) > 1 and len(np.unique(y)) == 1:
            raise SpecError(
                f"the target {names[0]!r} of {where} has a single class in the training part, "
                f"{classes[int(y.flat[0])]!r}; expected at least two. {remedy}"
            )
        return
    constant = _constant(y, limits) if len(y) else {}
    if len(constant) == len(names) > 0:
        told = f"the target {names[0]!r} of {where} has"
        if len(names) > 1:
            told = f"all {len(names)} targets of {where} have"
        raise SpecError(
            f"{told} the same value in every row of the training part ({next(iter(constant.values())):g}); expected "
            f"different ones to learn from. {remedy}"
        )


def part_notes(how: SplitChoice, parts: Split, noun: str) -> tuple[str, ...]:
    """What is to be said where there are too few graphs for the parts of a split; ``noun`` is what a graph is."""
    count = sum(map(len, parts.values()))
    are = "is" if count == 1 else "are"
    if names_file(how) or split_column_of(how) is not None:  # which says itself that it has no test part
        expected = {"val": True, "test": False}
    else:
        shares = (1, 1, 1) if isinstance(how, str | Path) else how
        expected = {"val": shares[1] > 0, "test": shares[2] > 0}
    words = {"val": "validation", "test": "test"}
    absent = [f"no {words[part]} part" for part, wanted in expected.items() if wanted and not len(parts[part])]
    return (f"there is {listed(absent)}: {counted(count, noun)} {are} too few for a split",) if absent else ()
