"""Columns of numbers from a CSV file (:func:`read_columns`), and of text beside them (:func:`csv_rows`)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pointset.errors import FileFormatError

Floats = NDArray[np.float64]
Columns = dict[str, Floats]


def csv_rows(path: Path) -> Iterator[list[str]]:
    """The header, then every row, all as long as the header.

    Raises:
        FileFormatError: the file is empty, not text, or a row has another length.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, None)
            if not header:
                raise FileFormatError(f"{path} is damaged: it is empty; expected a line with the names of the columns")
            if len(set(header)) < len(header):
                raise FileFormatError(f"{path} is damaged: two columns have the same name")
            yield header
            for row in rows:
                if len(row) != len(header):
                    message = f"line {rows.line_num} has {len(row)} values; expected {len(header)}"
                    raise FileFormatError(f"{path} is damaged: {message}")
                yield row
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path} is damaged: it is not a CSV file in UTF-8 ({error})") from None


def read_columns(path: Path) -> Columns:
    """A file of numbers only; an empty cell is NaN."""
    rows = csv_rows(path)
    header = next(rows)
    cells = list(rows)
    return {name: as_numbers([row[index] for row in cells], path, name) for index, name in enumerate(header)}


def as_numbers(cells: list[str], path: Path, column: str) -> Floats:
    """(rows,) numbers; an empty cell is NaN."""
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float64)
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged: column {column!r}: {error}") from None
