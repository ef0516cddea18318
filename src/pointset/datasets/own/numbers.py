"""Cells of text as numbers: what is missing, what is a number, what is neither (:func:`number_of`)."""

from __future__ import annotations

import math

MISSING = frozenset({"", "-", "na", "n/a", "#n/a", "nan", "null", "none"})  # in lower case
_TRUTH = {"true": 1.0, "false": 0.0}


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value: empty, or one of -, NA, N/A, #N/A, NaN, null, None."""
    return cell.strip().lower() in MISSING


def number_of(cell: str, *, truth: bool = False) -> float | None:
    """The finite number in a cell, NaN where the value is missing, None where the cell holds anything else.

    Args:
        cell: the text.
        truth: whether ``true`` and ``false`` are 1 and 0.
    """
    text = cell.strip()
    try:
        number = float(text)
    except ValueError:
        if text.lower() in MISSING:
            return math.nan
        return _TRUTH.get(text.lower()) if truth else None
    if "_" in text or math.isinf(number):  # Python's own 1_000; inf, and what is too large for a float
        return None
    return number


def why_no_number(cell: str) -> str:
    """What is to be said of a cell that :func:`number_of` does not take."""
    text = cell.strip()
    shown = repr(text if len(text) <= 40 else text[:39] + "…")
    try:
        infinite = math.isinf(float(text))
    except ValueError:
        infinite = False
    if infinite:
        return f"is {shown}; expected a finite number"
    if text.count(",") == 1 and number_of(text.replace(",", ".")) is not None:
        return f"is {shown}; expected a number with a decimal point, not a comma"
    return f"is {shown}; expected a number, or nothing where it is missing"
