"""The rows of a CSV of molecules: SMILES, cells of targets, the cell of the split (:func:`read_molecule_rows`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pointset.datasets.own.column_choice import Column, column_number, shown, smiles_column, target_columns
from pointset.datasets.own.csv_rows import CsvFile
from pointset.datasets.own.numbers import is_missing, number_of
from pointset.datasets.own.rejected import Rejected, rejected_row
from pointset.datasets.own.splitting import split_problem
from pointset.errors import FileFormatError


@dataclass(frozen=True)
class MoleculeColumns:
    """The columns that are read, by number."""

    smiles: int
    targets: tuple[int, ...]
    split: int | None
    names: tuple[str, ...]  # of the targets

    @classmethod
    def chosen(
        cls, file: CsvFile, smiles: Column | None, targets: Column | Sequence[Column] | None, split: str | None
    ) -> MoleculeColumns:
        """Find the columns in the header.

        Raises:
            SpecError: there is no such column.
            FileFormatError: a name stands in the header twice, or the first line is a row already.
        """
        smiles_at = smiles_column(file, smiles)
        split_at = None if split is None else column_number(file, split, "split")
        others = [smiles_at] if split_at is None else [smiles_at, split_at]
        columns = tuple(target_columns(file, targets, others))
        if isinstance(smiles, int) and file.header and _looks_like_data(file, smiles_at, columns):
            raise FileFormatError(
                f"the first line of {file.path} is {','.join(file.header)[:80]!r}, which seems to be a row already; "
                "expected the names of the columns. Pass header=False (--no-header), or put a header above it"
            )
        return cls(smiles_at, columns, split_at, tuple(shown(file, column) for column in columns))


@dataclass(frozen=True)
class MoleculeRows:
    """All rows that could be read, column by column."""

    lines: list[int] = field(default_factory=list)
    smiles: list[str] = field(default_factory=list)
    targets: list[list[str]] = field(default_factory=list)  # a list for each column
    split: list[str] = field(default_factory=list)  # empty where there is no such column
    rejected: list[Rejected] = field(default_factory=list)

    def content(self, position: int) -> str:
        """A row as the record of rejected rows shows it."""
        return ", ".join([self.smiles[position], *(cells[position].strip() for cells in self.targets)])


def read_molecule_rows(file: CsvFile, columns: MoleculeColumns) -> MoleculeRows:
    """Read all rows; those without SMILES, with another number of cells or an unknown split are rejected.

    Raises:
        FileFormatError: there are none, or the file is damaged further down.
    """
    read = MoleculeRows(targets=[[] for _ in columns.targets])
    for row in file.rows():
        kind, problem = "a row that cannot be read", row.problem
        if problem is None and is_missing(row.cells[columns.smiles]):
            kind, problem = "no SMILES", f"{shown(file, columns.smiles)!r} is empty; expected a SMILES"
        if problem is None and len(row.cells[columns.smiles].splitlines()) > 1:
            problem = 'the SMILES runs over several lines; a quote (") before it is probably not closed'
        if problem is None and columns.split is not None and (problem := split_problem(row.cells[columns.split])):
            kind = "an unknown split"
        if problem is not None:
            read.rejected.append(rejected_row(row.line, kind, problem, file.delimiter.join(row.cells)))
            continue
        read.lines.append(row.line)
        read.smiles.append(row.cells[columns.smiles].strip())
        for cells, column in zip(read.targets, columns.targets, strict=True):
            cells.append(row.cells[column])
        if columns.split is not None:
            read.split.append(row.cells[columns.split])
    if not read.lines and not read.rejected:
        raise FileFormatError(f"{file.path} has a header, but no rows; expected a row for each molecule")
    return read


def _looks_like_data(file: CsvFile, smiles: int, targets: Sequence[int]) -> bool:
    """Whether numbers stand where the names of targets should, and the SMILES is not named as such."""
    words = "".join(letter for letter in file.header[smiles].lower() if letter.isalpha())
    numbers = [number_of(file.header[column]) is not None for column in targets]
    named = number_of(file.header[smiles]) is not None or any(part in words for part in ("smi", "mol", "struct"))
    return bool(numbers) and all(numbers) and not named
