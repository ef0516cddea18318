"""Rows of a table of SMILES (:class:`TableSource`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pointset.datasets.own.column_choice import Column, shown, smiles_column
from pointset.datasets.own.csv_rows import CsvFile, Row
from pointset.datasets.own.numbers import is_missing
from pointset.errors import FileFormatError
from pointset.training.prediction.file_identity import identity_of, stamp_of
from pointset.training.prediction.sources import Entry


class TableSource:
    """A CSV, TSV or .smi file, also packed with gzip, one row after the other in constant memory.

    Args:
        path: the file.
        smiles: the column of SMILES, by name or number; by default the one that is named so.
        header: whether the first line names the columns.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: it is no table of text.
        SpecError: there is no such column.
    """

    unit = "row"
    has_smiles = True

    def __init__(self, path: Path, smiles: str | None = None, *, header: bool = True):
        self.file = CsvFile(path, header=header)
        self.smiles = smiles_column(self.file, self._column(smiles))
        self.columns = self._names()
        self._stamp = stamp_of(path)
        self.identity = identity_of(path) | {"smiles": self.smiles, "header": self.file.has_header}

    def _column(self, chosen: str | None) -> Column | None:
        """A whole number that is no column's name is the number of a column."""
        by_number = chosen is not None and chosen not in self.file.header and re.fullmatch("[0-9]{1,9}", chosen)
        return int(chosen) if chosen is not None and by_number else chosen

    def _names(self) -> list[str]:
        names = [shown(self.file, column) for column in range(self.file.width)]
        if not self.file.header:
            names[self.smiles] = "smiles"
            if self.file.is_smi and self.file.width > 1:
                names[1] = "name"
        return names

    def entries(self) -> Iterator[Entry]:
        """All rows; where one cannot be read its cells are kept as far as they fit."""
        for row in self.file.rows():
            problem = row.problem or self._problem(row)
            item = None if problem else row.cells[self.smiles].strip()
            yield Entry(f"line {row.line}", self._fitted(row.cells), item, problem)

    def _problem(self, row: Row) -> str | None:
        text = row.cells[self.smiles]
        if is_missing(text):
            return "there is no SMILES"
        if len(text.splitlines()) > 1:
            return 'the SMILES runs over several lines; a quote (") before it is probably not closed'
        return None

    def _fitted(self, cells: Sequence[str]) -> Sequence[str]:
        width = self.file.width
        return cells if len(cells) == width else [*cells[:width], *[""] * (width - len(cells))]

    def count(self) -> int | None:
        """Lines of a plain file, which cells of several lines make too many; None for a packed one."""
        lines = 0
        with self.file.path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                return None
            file.seek(0)
            while block := file.read(2**20):
                lines += block.count(b"\n")
        return max(lines - self.file.has_header, 1)

    def check_unchanged(self) -> None:
        """Raise where the file was written to."""
        if stamp_of(self.file.path) != self._stamp:
            raise FileFormatError(f"{self.file.path} changed while it was read; begin again with --restart")
