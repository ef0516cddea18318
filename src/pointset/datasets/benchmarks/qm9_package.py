"""QM9 from the pip package qm9pack: three CSV files, read without importing it.

It carries the 130,831 molecules that are left of 133,885 without those whose geometry the publication calls
uncharacterised. Lists are written as text, and small numbers as ``1.2*^-6``. Like QM9's original files it lists no
bonds: RDKit reads them from the SMILES and the positions (:func:`bonds_of`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pointset.arrays import Array
from pointset.datasets.benchmarks.reading import DataFile, read_columns
from pointset.datasets.molecules.qm9 import BOND_TYPES, ELEMENTS
from pointset.errors import FileFormatError
from pointset.progress import track

if TYPE_CHECKING:
    from rdkit.Chem import Mol

PACKAGE = ("qm9pack", "data/qm9_part1.csv", "data/qm9_part2.csv", "data/qm9_part3.csv")
_TARGETS = (
    "Dipole_debye", "Polarizability_bohr3", "HOMO_au", "LUMO_au", "HOMO_LUMO_gap_au", "R2_bohr2", "ZPVE_au",
    "InternalEnergy_0K_au", "InternalEnergy_298K_au", "Enthalphy_298K_au", "GibbsFreeEnergy_298K_au",
    "Heatcapacity_Cv_cal_mol_K",
)  # fmt: skip
_LIST_MARKS = str.maketrans("", "", "[]' ")
_LONGEST = 1.3  # of the sum of covalent radii. The longest bond of QM9 has 1.29, a wrong order at least 1.39
_RADII = np.zeros(10)  # covalent radii in Å, by atomic number
_RADII[[1, 6, 7, 8, 9]] = 0.31, 0.76, 0.71, 0.66, 0.57
_LONGEST_SMILES = 1000  # characters; RDKit takes minutes for very long ones, and QM9 has none with more than 50
_SYMBOLS = {number: symbol for symbol, number in ELEMENTS.items()}


def read_part(path: Path) -> tuple[list[str], Array, Array, Array, Array]:
    """One of the three files.

    SMILES (G,), the numbers of atoms (G,), atomic numbers (N,), positions (N, 3) in Å, and targets (G, 12) in the units
    of the file: Hartree, Debye, Bohr.
    """
    smiles, elements, positions, *targets = read_columns(DataFile(path), ("SMILES", "Elements", "XYZ_Ang", *_TARGETS))
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


class Written(NamedTuple):
    """A molecule in the order of its SMILES."""

    atomic_numbers: list[int]  # (n,)
    bonds: list[tuple[int, int, int]]  # (m,) two atoms and the type of bond


class Bonds(NamedTuple):
    """Bonds of G molecules, M in all."""

    num_bonds: Array  # (G,)
    bonds: Array  # (2, M)
    bond_type: Array  # (M,) 1 single, 2 double, 3 triple, 4 aromatic


def bonds_of(
    smiles: Sequence[str], num_atoms: Array, atomic_numbers: Array, pos: Array, *, show: bool | None = None
) -> Bonds:
    """The bonds of G molecules that are given as SMILES and as atoms in space.

    The SMILES says which bonds there are, and the atoms stand in its order: first those that it writes, each followed
    by the hydrogens that stand with it in brackets, then all other hydrogens. Of ten molecules of QM9 this is not true:
    eight have another order, and two have relaxed to other bonds. There the bonds are determined from the positions.

    Shapes: smiles and num_atoms (G,), atomic_numbers (N,), pos (N, 3) in Å.
    """
    from pointset.datasets.molecules.parsing import require_rdkit

    require_rdkit()
    from rdkit import rdBase

    stops = np.cumsum(num_atoms.astype(np.int64))
    found = []
    with rdBase.BlockLogs():
        for text, stop, count in track(
            zip(smiles, stops.tolist(), num_atoms.tolist(), strict=True), "Reading bonds", len(smiles), show=show
        ):
            molecule, atoms = written(text), slice(stop - count, stop)
            fits = _fits(molecule, atomic_numbers[atoms], pos[atoms])
            found.append(molecule.bonds if fits else _in_space(text, atomic_numbers[atoms], pos[atoms]))
    flat = np.array([bond for bonds in found for bond in bonds], dtype=np.int64).reshape(-1, 3)
    return Bonds(np.array([len(bonds) for bonds in found]), flat[:, :2].T, flat[:, 2])


def written(smiles: str) -> Written:
    """Atoms and bonds in the order of the SMILES, with all hydrogens."""
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles) if len(smiles) <= _LONGEST_SMILES else None
    if mol is None:
        raise FileFormatError(f"{smiles[:60]!r} is not the SMILES of a molecule")
    numbers: list[int] = []
    place: list[int] = []
    hydrogens: list[tuple[int, int, int]] = []
    later: list[int] = []  # the atoms of those hydrogens that stand at the end
    for atom in mol.GetAtoms():
        place.append(len(numbers))
        numbers.append(atom.GetAtomicNum())
        in_brackets = atom.GetNumExplicitHs() if atom.GetNoImplicit() else 0
        hydrogens += [(place[-1], place[-1] + 1 + number, 1) for number in range(in_brackets)]
        numbers += [1] * in_brackets
        later += [place[-1]] * (atom.GetTotalNumHs() - in_brackets)
    hydrogens += [(atom, len(numbers) + number, 1) for number, atom in enumerate(later)]
    bonds = [(place[one], place[other], bond_type) for one, other, bond_type in _bonds(mol)]
    return Written(numbers + [1] * len(later), bonds + hydrogens)


def _bonds(mol: Mol) -> list[tuple[int, int, int]]:
    bonds = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), BOND_TYPES.get(bond.GetBondTypeAsDouble(), 0))
        for bond in mol.GetBonds()
    ]
    if any(not bond_type for _, _, bond_type in bonds):
        raise FileFormatError("a molecule has a bond that is not single, double, triple or aromatic")
    return bonds


def _fits(molecule: Written, atomic_numbers: Array, pos: Array) -> bool:
    """Whether the elements are the same in the same order, and no bond is too long."""
    if molecule.atomic_numbers != atomic_numbers.tolist():
        return False
    if not molecule.bonds:
        return True
    first, second, _ = np.array(molecule.bonds).T
    lengths = np.sqrt(np.square(pos[first] - pos[second]).sum(axis=1))
    return bool((lengths < _LONGEST * (_RADII[atomic_numbers[first]] + _RADII[atomic_numbers[second]])).all())


def _in_space(smiles: str, atomic_numbers: Array, pos: Array) -> list[tuple[int, int, int]]:
    """The bonds that RDKit determines from the positions alone."""
    from rdkit import Chem
    from rdkit.Chem import rdDetermineBonds

    atoms = "".join(
        f"{symbol} {x:.10f} {y:.10f} {z:.10f}\n"
        for symbol, (x, y, z) in zip(map(_SYMBOLS.get, atomic_numbers.tolist()), pos.tolist(), strict=True)
    )
    try:
        mol = Chem.MolFromXYZBlock(f"{len(atomic_numbers)}\n\n{atoms}")
        rdDetermineBonds.DetermineBonds(mol, charge=0)
        return _bonds(mol)
    except (ValueError, RuntimeError):  # no bonds satisfy all valences
        raise FileFormatError(f"the atoms of {smiles[:60]!r} do not lie as its SMILES says") from None
