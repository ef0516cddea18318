"""The split that a column of a table names row by row (:func:`split_by_column`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pointset.datasets.splits.parts import EXPECTED_WORDS, PARTS, Split, check_split, part_of, parts_from_codes
from pointset.errors import SpecError

_SHOWN_ROWS = 5


def split_by_column(values: Iterable[object]) -> Split:
    """Read a column with the words train, val (or valid, validation) and test.

    Case and surrounding space do not matter. An empty cell (also None and NaN) leaves its row out of every part, as in
    tables that hold rows for later use.

    Args:
        values: (G,) one cell for each row.

    Returns:
        The split; indices count rows from 0 and are sorted.

    Raises:
        SpecError: another word, with its rows (counted from 1, without the header); or no row for training.
    """
    cells = list(values)
    codes = np.full(len(cells), -1, dtype=np.int64)
    strange: list[str] = []
    for row, cell in enumerate(cells):
        part = part_of(cell)
        if part is not None:
            codes[row] = PARTS.index(part)
        elif not _is_empty(cell):
            strange.append(f"row {row + 1} has {str(cell)[:40]!r}")
    if strange:
        more = f" and {len(strange) - _SHOWN_ROWS} more rows" if len(strange) > _SHOWN_ROWS else ""
        raise SpecError(
            f"the split column: {', '.join(strange[:_SHOWN_ROWS])}{more}; expected {EXPECTED_WORDS}, or an empty cell "
            "for a row that is not used"
        )
    return check_split(parts_from_codes(codes), len(cells))


def _is_empty(cell: object) -> bool:
    missing = isinstance(cell, (float, np.floating)) and bool(np.isnan(cell))
    return cell is None or missing or (isinstance(cell, str) and not cell.strip())
