"""Columns of a CSV with a header, by name (:func:`read_columns`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pointset.datasets.benchmarks.members import Member
from pointset.errors import FileFormatError


def read_columns(member: Member, names: Sequence[str]) -> list[list[str]]:
    """The cells of these columns, as text.

    Raises:
        FileFormatError: the file is damaged, lacks a column, or a line has another number of cells.
    """
    try:
        text = member.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{member} is not UTF-8 text (byte {error.start}); get it again") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(lines)
        if wrong := [name for name in names if header.count(name) != 1]:
            raise FileFormatError(
                f"{member} has the columns {', '.join(header)[:200]}; expected {', '.join(wrong)}, each once"
            )
        rows = []
        for row in lines:
            if len(row) != len(header):
                raise FileFormatError(
                    f"{member}, line {lines.line_num}: got {len(row)} cells; expected {len(header)}, as in the header"
                )
            rows.append(row)
    except (csv.Error, StopIteration) as error:
        raise FileFormatError(f"{member}, line {lines.line_num}: not valid CSV ({error}); get it again") from None
    if not rows:
        raise FileFormatError(f"{member} has a header and no rows; it was cut short. Get it again")
    places = [header.index(name) for name in names]
    return [[row[place] for row in rows] for place in places]
