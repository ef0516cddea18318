"""Rows that are written come back as they were, whatever stands in their cells."""

from __future__ import annotations

import csv
import io

from hypothesis import example, given
from hypothesis import strategies as st

from pointset.files import csv_lines

cells = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@given(rows=st.lists(st.lists(cells, min_size=2, max_size=3), max_size=4), delimiter=st.sampled_from(",;\t"))
@example(rows=[["a\rb", "c\nd"], ['"', "\r\n"]], delimiter=",")
def test_rows_come_back(rows: list[list[str]], delimiter: str) -> None:
    text = "".join(csv_lines(rows, delimiter))
    assert list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) == rows


def test_lines_end_as_on_unix() -> None:
    assert list(csv_lines([["smiles", 1], ["C,C", 2.5]])) == ["smiles,1\n", '"C,C",2.5\n']
