"""Cells of text as numbers: what is missing, what is a number, what is neither (:func:`number_of`)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

MISSING = frozenset({"", "-", "?", "na", "n/a", "#n/a", "nan", "n.d.", "n.t.", "null", "none"})  # in lower case
_TRUTH = {"true": 1.0, "false": 0.0}
_LIKE_A_NUMBER = re.compile(r"[<>~≈≤≥±+−-]|[.,]?[0-9]")  # how numbers, limits (>100) and quantities (12 uM) begin
_LIMIT = re.compile(r"[<>~≈≤≥±]")


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value: empty, or one of -, ?, NA, N/A, #N/A, NaN, n.d., n.t., null, None."""
    return cell.strip().lower() in MISSING


def number_of(cell: str, *, truth: bool = False, comma: bool = False) -> float | None:
    """The finite number in a cell, NaN where the value is missing, None where the cell holds anything else.

    Args:
        cell: the text.
        truth: whether ``true`` and ``false`` are 1 and 0.
        comma: whether the decimal sign is a comma; a point is none then, be it 1.5 or the thousands of 1.234,5.
    """
    text = cell.strip()
    try:
        number = float(text.replace(",", ".", 1) if comma else text)
    except ValueError:
        if text.lower() in MISSING:
            return math.nan
        return _TRUTH.get(text.lower()) if truth else None
    if "_" in text or math.isinf(number):  # Python's own 1_000; inf, and what is too large for a float
        return None
    return None if comma and "." in text else number


def has_decimal_commas(cells: Sequence[str]) -> bool:
    """Whether more of these cells hold a number with a comma (0,5) than one with a point (0.5)."""
    commas = sum("," in cell and number_of(cell, comma=True) is not None for cell in cells)
    return commas > sum("." in cell and not is_missing(cell) and number_of(cell) is not None for cell in cells)


def looks_numeric(cell: str) -> bool:
    """Whether a cell is a number, or begins like one: ``>100``, ``~3``, ``12 uM``, ``5±1``."""
    return number_of(cell, truth=True) is not None or _LIKE_A_NUMBER.match(cell.strip()) is not None


def why_no_number(cell: str, *, comma: bool = False) -> str:
    """What is to be said of a cell that :func:`number_of` does not take."""
    text = cell.strip()
    shown = repr(text if len(text) <= 40 else text[:39] + "…")
    try:
        infinite = math.isinf(float(text))
    except ValueError:
        infinite = False
    if infinite:
        return f"is {shown}; expected a finite number"
    if comma and re.fullmatch(r"[+-]?[0-9.,]+", text):
        return f"is {shown}; expected a decimal comma and no point, as most of the column has it"
    if text.count(",") == 1 and number_of(text.replace(",", ".")) is not None:
        return f"is {shown}; expected a number with a decimal point, not a comma"
    if _LIMIT.match(text):
        return f"is {shown}, a limit; expected a number"
    if _LIKE_A_NUMBER.match(text):
        return f"is {shown}; expected a number alone, without unit, error or other signs"
    return f"is {shown}; expected a number, or nothing where it is missing"
