"""Labels of any kind → one class for each graph, to stratify by (:func:`classes_of`)."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.splits.parts import Integers
from pointset.errors import SpecError

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
