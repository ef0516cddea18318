"""The bonds of molecules that are given as a SMILES and as atoms in space (:func:`bonds_of`).

QM9's original files list no bonds. Their SMILES say which there are, and their atoms stand in the order of the SMILES:
first the atoms that it writes, each followed by the hydrogens that stand with it in brackets, then all other hydrogens.
Of ten molecules this is not true: eight have another order, and two have relaxed to other bonds. There the bonds are
determined from the positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pointset.datasets.benchmarks.qm9_targets import ELEMENTS
from pointset.datasets.table import Array
from pointset.errors import FileFormatError
from pointset.progress import track

if TYPE_CHECKING:
    from rdkit.Chem import Mol

_LONGEST = 1.3  # of the sum of covalent radii. The longest bond of QM9 has 1.29, a wrong order at least 1.39
_RADII = np.zeros(10)  # covalent radii in Å, by atomic number
_RADII[[1, 6, 7, 8, 9]] = 0.31, 0.76, 0.71, 0.66, 0.57
_LONGEST_SMILES = 1000  # characters; RDKit takes minutes for very long ones, and QM9 has none with more than 50
_SYMBOLS = {number: symbol for symbol, number in ELEMENTS.items()}
_KINDS = {1.0: 1, 2.0: 2, 3.0: 3, 1.5: 4}  # RDKit's order of a bond → 1 single, 2 double, 3 triple, 4 aromatic


class Written(NamedTuple):
    """A molecule in the order of its SMILES."""

    atomic_numbers: list[int]  # (n,)
    bonds: list[tuple[int, int, int]]  # (m,) two atoms and the kind


class Bonds(NamedTuple):
    """Bonds of G molecules, M in all."""

    num_bonds: Array  # (G,)
    bonds: Array  # (2, M)
    bond_type: Array  # (M,)


def bonds_of(
    smiles: Sequence[str], num_atoms: Array, atomic_numbers: Array, pos: Array, *, show: bool | None = None
) -> Bonds:
    """The bonds of G molecules, with the kinds 1 single, 2 double, 3 triple and 4 aromatic.

    Args:
        smiles: (G,).
        num_atoms: (G,).
        atomic_numbers: (N,).
        pos: (N, 3) in Å.
        show: whether to show a progress bar.

    Raises:
        MissingExtraError: RDKit is not installed.
        FileFormatError: a SMILES is none, or neither it nor the positions give bonds.
    """
    from pointset.datasets.molecules.rdkit_guard import require_rdkit

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
    """Atoms and bonds in the order of the SMILES, with all hydrogens.

    Raises:
        FileFormatError: RDKit does not take it for a molecule.
    """
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
    bonds = [(place[one], place[other], kind) for one, other, kind in _bonds(mol)]
    return Written(numbers + [1] * len(later), bonds + hydrogens)


def _bonds(mol: Mol) -> list[tuple[int, int, int]]:
    kinds = [_KINDS.get(bond.GetBondTypeAsDouble(), 0) for bond in mol.GetBonds()]
    if 0 in kinds:
        raise FileFormatError("a molecule has a bond that is not single, double, triple or aromatic")
    return [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), kind) for bond, kind in zip(mol.GetBonds(), kinds, strict=True)
    ]


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
