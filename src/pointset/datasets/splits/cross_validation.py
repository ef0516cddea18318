"""k splits in which every graph is tested once (:func:`folds`)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pointset.datasets.splits.label_classes import classes_of
from pointset.datasets.splits.parts import Integers, Split, whole_number
from pointset.datasets.splits.shuffled import generator_of
from pointset.errors import SpecError


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
