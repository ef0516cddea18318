"""QM9 from the pip package qm9pack: three CSV files, read without importing it (:func:`read_package`).

It carries the 130,831 molecules that are left of 133,885 when those are taken out whose geometry the publication calls
uncharacterised. Lists are written as text, and small numbers as ``1.2*^-6``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pointset.datasets.benchmarks.csv_columns import read_columns
from pointset.datasets.benchmarks.members import Member
from pointset.datasets.benchmarks.qm9_bonds import bonds_of
from pointset.datasets.benchmarks.qm9_files import molecules
from pointset.datasets.benchmarks.qm9_targets import ELEMENTS, in_units
from pointset.datasets.table import Array, GraphTable
from pointset.errors import FileFormatError

PACKAGE = ("qm9pack", "data/qm9_part1.csv", "data/qm9_part2.csv", "data/qm9_part3.csv")
_TARGETS = (
    "Dipole_debye",
    "Polarizability_bohr3",
    "HOMO_au",
    "LUMO_au",
    "HOMO_LUMO_gap_au",
    "R2_bohr2",
    "ZPVE_au",
    "InternalEnergy_0K_au",
    "InternalEnergy_298K_au",
    "Enthalphy_298K_au",
    "GibbsFreeEnergy_298K_au",
    "Heatcapacity_Cv_cal_mol_K",
)
_LIST_MARKS = str.maketrans("", "", "[]' ")


def read_package(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """The three CSV files of the package; bonds come from the SMILES and the positions.

    Raises:
        MissingExtraError: RDKit is not installed.
        FileFormatError: a file is damaged or lacks a column; with the line where it can be said.
    """
    parts = [_read_part(path) for path in files]
    smiles = [text for part in parts for text in part[0]]
    num_atoms, atomic_numbers, pos, targets = (
        np.concatenate([part[column] for part in parts]) for column in range(1, 5)
    )
    try:
        found = bonds_of(smiles, num_atoms, atomic_numbers, pos, show=show)
    except FileFormatError as error:
        raise FileFormatError(f"{files[0].parent}: {error}") from None
    return molecules(
        files[0].parent,
        num_atoms=num_atoms,
        atomic_numbers=atomic_numbers,
        pos=pos,
        num_bonds=found.num_bonds,
        bonds=found.bonds,
        bond_type=found.bond_type,
        y=in_units(targets),
        smiles=smiles,
    )


def _read_part(path: Path) -> tuple[list[str], Array, Array, Array, Array]:
    """SMILES (G,), atoms of each (G,), atomic numbers (N,), positions (N, 3), targets (G, 12) in the file's units."""
    smiles, elements, positions, *targets = read_columns(Member(path), ("SMILES", "Elements", "XYZ_Ang", *_TARGETS))
    symbols = [cell.translate(_LIST_MARKS).split(",") for cell in elements]
    for row, (names, cell) in enumerate(zip(symbols, positions, strict=True)):
        if strange := set(names).difference(ELEMENTS):
            raise FileFormatError(
                f"{path}, row {row + 1}: element {min(strange)[:20]!r}; expected {', '.join(ELEMENTS)}"
            )
        if cell.count(",") + 1 != 3 * len(names):
            raise FileFormatError(f"{path}, row {row + 1}: expected three coordinates for each of {len(names)} atoms")
    return (
        smiles,
        np.array([len(names) for names in symbols]),
        np.array([ELEMENTS[name] for names in symbols for name in names]),
        _numbers(f"{path}, XYZ_Ang", positions).reshape(-1, 3),
        np.stack([_numbers(f"{path}, {name}", column) for name, column in zip(_TARGETS, targets, strict=True)], axis=1),
    )


def _numbers(place: str, cells: Sequence[str]) -> Array:
    """All numbers of a column, in a row; those of one cell are separated by commas."""
    text = ",".join(cells).translate(_LIST_MARKS).replace("*^", "e")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(text, sep=",")
        except (ValueError, DeprecationWarning):  # numpy warns where it cannot read on
            numbers = np.empty(0)
    if len(numbers) != text.count(",") + 1 or not np.isfinite(numbers).all():
        raise FileFormatError(f"{place}, row {_wrong_row(cells) + 1}: expected finite numbers")
    return numbers


def _wrong_row(cells: Sequence[str]) -> int:
    for row, cell in enumerate(cells):
        try:
            numbers = [float(number) for number in cell.translate(_LIST_MARKS).replace("*^", "e").split(",")]
        except ValueError:
            return row
        if not np.isfinite(numbers).all():
            return row
    return 0
