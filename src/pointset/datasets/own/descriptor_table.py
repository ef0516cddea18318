"""Descriptors of one's own: a table with a SMILES and numbers in each row (:func:`read_descriptors`).

Rows are found by the molecule, not by their place: a table may hold more molecules than are asked for, in any order
and any writing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.molecules.descriptors import KINDS
from pointset.datasets.molecules.parallel import read_many
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, canonical, parse, quiet_rdkit, screen
from pointset.datasets.molecules.reader import ReadMolecule
from pointset.datasets.own.columns import shown, smiles_column
from pointset.datasets.own.table_files import open_table
from pointset.datasets.own.targets import number_of
from pointset.errors import FileFormatError, SpecError


def is_file(descriptors: str) -> bool:
    """Whether ``model.descriptors`` names a file, and not what RDKit computes."""
    return not set(descriptors.split("+")) <= set(KINDS) and ("." in descriptors or Path(descriptors).exists())


@dataclass(frozen=True, eq=False)
class DescriptorTable:
    """Numbers of molecules by their canonical SMILES."""

    path: Path
    names: tuple[str, ...]
    rows: dict[str, int]
    numbers: NDArray[np.float32]  # (rows, c), NaN where a cell is empty

    def of(self, smiles: str) -> NDArray[np.float32]:
        """(c,) of one molecule; raises MoleculeError where the table does not have it."""
        row = self.rows.get(canonical_smiles(smiles))
        if row is None:
            raise MoleculeError(f"{self.path.name} has no descriptors of {smiles!r:.60}; add a row with its SMILES")
        numbers: NDArray[np.float32] = self.numbers[row]
        return numbers

    def matrix(self, smiles: Sequence[str], *, progress: bool | None = None) -> NDArray[np.float32]:
        """(G, c); raises SpecError where the table lacks some of the molecules."""
        texts = read_many(smiles, canonical_smiles, progress=progress)
        missing = [one for one, text in zip(smiles, texts, strict=True) if text not in self.rows]
        if missing:
            raise SpecError(
                f"{self.path} has no descriptors of {len(missing):,} of {len(smiles):,} molecules, such as "
                f"{missing[0]!r:.60}; expected a row for each"
            )
        return self.numbers[[self.rows[str(text)] for text in texts]]


@dataclass(frozen=True)
class DescribedReader:
    """Reads molecules, each with its row of a table of descriptors; it can be pickled."""

    read: ReadMolecule
    table: DescriptorTable

    def __call__(self, smiles: str) -> Molecule:
        """The molecule; raises MoleculeError where it cannot be read, or the table does not have it."""
        return dataclasses.replace(self.read(smiles), descriptors=self.table.of(smiles))


def canonical_smiles(smiles: str) -> str:
    """The same text for all writings of a molecule."""
    text = screen(smiles)
    with quiet_rdkit(text):
        return canonical(parse(text, lenient=True), text, lenient=True)[1]


def read_descriptors(path: str | Path) -> DescriptorTable:
    """A table (CSV, TSV, Excel, Parquet) with a column of SMILES; all other columns must be numbers.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: a cell is not a number, a molecule has two different rows, or there are no columns of numbers.
    """
    file = open_table(path)
    smiles_at = smiles_column(file, None)
    columns = [column for column in range(file.width) if column != smiles_at]
    texts, numbers = [], []
    for row in file.filled_rows():
        if row.problem is not None:
            raise FileFormatError(f"{file.path}, {file.unit} {row.line}: {row.problem}")
        values = [number_of(row.cells[column]) for column in columns]
        if None in values:
            wrong = columns[values.index(None)]
            raise FileFormatError(
                f"{file.path}, {file.unit} {row.line}: {shown(file, wrong)} is {row.cells[wrong]!r:.40}; expected a "
                "number. A table of descriptors has a column of SMILES, and all others are numbers"
            )
        texts.append(row.cells[smiles_at])
        numbers.append(values)
    if not numbers or not columns:
        raise FileFormatError(f"{file.path} has no descriptors; expected rows with a SMILES and numbers")
    rows: dict[str, int] = {}
    for at, text in enumerate(read_many(texts, canonical_smiles, progress=False)):
        first = rows.setdefault(str(text), at)
        if isinstance(text, str) and numbers[first] != numbers[at] and numbers[at] == numbers[at]:
            raise FileFormatError(
                f"{file.path} describes {texts[at]!r:.60} twice, differently; expected one row for each molecule"
            )
    names = tuple(shown(file, column) for column in columns)
    return DescriptorTable(file.path, names, rows, np.array(numbers, dtype=np.float32))
