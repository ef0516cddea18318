"""Text in which each line holds the same number of numbers, separated by commas (:func:`read_numbers`)."""

from __future__ import annotations

import io
import warnings

import numpy as np

from pointset.datasets.benchmarks.members import Member
from pointset.datasets.table import Array
from pointset.errors import FileFormatError


def read_numbers(member: Member, columns: int, *, rows: int | None = None, real: bool = False) -> Array:
    """(rows, columns) the numbers of a file: int64, or with ``real`` float64.

    Raises:
        FileFormatError: a line is not of that form (it is named), or there is another number of lines.
    """
    content = member.read()
    kind = np.float64 if real else np.int64
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns of 1.5 read as a whole number, and of a file of blank lines
            numbers = np.loadtxt(io.BytesIO(content), kind, comments=None, delimiter=",", ndmin=2, encoding="utf-8")
    except (ValueError, OverflowError, Warning):
        numbers = np.empty((0, 0))
    if numbers.shape[1] != columns or (real and not np.isfinite(numbers).all()):
        _refuse(member, content, columns, real)
    if rows is not None and len(numbers) != rows:
        raise FileFormatError(
            f"{member} has {len(numbers):,} lines; expected {rows:,}, as in the other files. It is cut short, or from "
            "another dataset"
        )
    return numbers


def _refuse(member: Member, content: bytes, columns: int, real: bool) -> None:
    """Find the line that is wrong; only now is each looked at."""
    what = f"{columns} {'numbers' if real else 'whole numbers'} on each line, separated by commas"
    for number, line in enumerate(content.splitlines(), start=1):
        cells = line.split(b",")
        if line.strip() and (len(cells) != columns or not all(_is_number(cell, real) for cell in cells)):
            shown = line[:60].decode("utf-8", "backslashreplace")
            raise FileFormatError(f"{member}, line {number}: got {shown!r}; expected {what}")
    raise FileFormatError(f"{member} holds no numbers; expected {what}")


def _is_number(cell: bytes, real: bool) -> bool:
    try:
        value = float(cell) if real else int(cell)
    except ValueError:
        return False
    return bool(np.isfinite(value)) if real else abs(value) < 2**63
