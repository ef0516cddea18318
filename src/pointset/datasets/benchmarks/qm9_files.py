"""The files of QM9: flat arrays, and PyG's, as downloaded (``qm9_v3.pt``) and as it keeps them (``data_v3.pt``).

PyG's are pickles. Nothing is rebuilt of them but plain containers and tensors (:mod:`pointset.datasets.safe_pickle`).
Its targets are float32 numbers in eV already, so its total energies are exact to 1e-3 eV only.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Array
from pointset.datasets.benchmarks.pyg_files import Collated, collate, read_collated, read_list
from pointset.datasets.benchmarks.reading import (
    Member,
    as_array,
    as_features,
    expect_real,
    expect_shape,
    expect_whole,
    kind_of,
    members,
    read_columns,
)
from pointset.datasets.card import Target
from pointset.datasets.npz import read_arrays
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError
from pointset.progress import track
from pointset.specs import Categories, Reals

if TYPE_CHECKING:
    from rdkit.Chem import Mol


# QM9's twelve targets, their units, and the energies of its atoms.
#
# The files give Hartree; energies here are eV, converted with PyG's constant so that numbers are comparable.


HARTREE_IN_EV = 27.211386246
ELEMENTS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}  # atomic numbers; in this order the categories 0…4 of x

TARGETS = (
    Target("mu", "D", "dipole moment"),
    Target("alpha", "a0^3", "isotropic polarisability"),
    Target("homo", "eV", "energy of the highest occupied orbital"),
    Target("lumo", "eV", "energy of the lowest unoccupied orbital"),
    Target("gap", "eV", "lumo − homo"),
    Target("r2", "a0^2", "electronic spatial extent"),
    Target("zpve", "eV", "zero-point vibrational energy"),
    Target("u0", "eV", "internal energy at 0 K"),
    Target("u298", "eV", "internal energy at 298.15 K"),
    Target("h298", "eV", "enthalpy at 298.15 K"),
    Target("g298", "eV", "free energy at 298.15 K"),
    Target("cv", "cal/(mol K)", "heat capacity at 298.15 K"),
)
_IN_UNITS = np.array([HARTREE_IN_EV if target.unit == "eV" else 1.0 for target in TARGETS])

# The energies of single atoms by the same method, in Hartree: the file atomref.txt that is published with QM9. It gives
# a reference for cv too, 2.981 for every atom; like PyG, we leave cv as it is.
_ATOM_ENERGIES = {
    "u0": (-0.500273, -37.846772, -54.583861, -75.064579, -99.718730),
    "u298": (-0.498857, -37.845355, -54.582445, -75.063163, -99.717314),
    "h298": (-0.497912, -37.844411, -54.581501, -75.062219, -99.716370),
    "g298": (-0.510927, -37.861317, -54.598897, -75.079532, -99.733544),
}
REFERENCED = tuple(_ATOM_ENERGIES)  # the targets from which atom references are subtracted


def in_units(targets: Array) -> NDArray[np.float64]:
    """(G, 12) the targets in the units of :data:`TARGETS`, from the units of the files: Hartree, Debye, Bohr."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        converted: NDArray[np.float64] = targets.astype(np.float64) * _IN_UNITS
    return converted


def atom_reference_energies(x: Any, num_nodes: Any) -> NDArray[np.float64]:
    """(G, 12) what the atoms of each molecule have by themselves, Σ_atoms E_element, in eV; 0 but for four targets.

    ``load("qm9", atom_reference=True)`` subtracts it, so that it is what to add to predictions to have QM9's targets.

    Args:
        x: (N,) or (N, 1) elements as in ``x`` of the graphs: 0…4 for H, C, N, O, F.
        num_nodes: (G,) atoms of each molecule.
    """
    elements, sizes = np.asarray(x).reshape(-1), np.asarray(num_nodes).astype(np.int64)
    molecule = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(molecule * len(ELEMENTS) + elements, minlength=len(sizes) * len(ELEMENTS))
    return counts.reshape(len(sizes), len(ELEMENTS)) @ _reference_table([target.name for target in TARGETS])


def _reference_table(names: Sequence[str]) -> NDArray[np.float64]:
    """(5, targets) in eV."""
    nothing = (0.0,) * len(ELEMENTS)
    return np.array([_ATOM_ENERGIES.get(name, nothing) for name in names]).T * HARTREE_IN_EV


ATOMS, BONDS = Categories(len(ELEMENTS)), Categories(5)
_ARRAYS = ("num_atoms", "Z", "pos", "targets", "num_bonds", "bonds", "bond_type", "smiles")
_DOWNLOADED = ("z", "pos", "edge_index", "edge_attr", "y")
_PYG_TARGETS, _PYG_BONDS = 19, 4  # columns of y, of which the first twelve are ours, and of one-hot edge_attr


def molecules(
    place: object,
    *,
    num_atoms: Array,
    atomic_numbers: Array,
    pos: Array,
    num_bonds: Array,
    bonds: Array,
    bond_type: Array,
    y: Array,
    smiles: Sequence[str] | None,
) -> GraphTable:
    """The table of QM9's molecules, whatever they were read from; ``y`` (G, 12) is in the units of the card.

    Raises:
        FileFormatError: an element or a bond that QM9 does not have.
    """
    known = np.array(list(ELEMENTS.values()))
    x = np.searchsorted(known, atomic_numbers).clip(max=len(known) - 1)
    if (strange := atomic_numbers[known[x] != atomic_numbers]).size:
        raise FileFormatError(f"{place}: atomic number {strange[0]}; expected those of {', '.join(ELEMENTS)}")
    return GraphTable(
        num_nodes=num_atoms,
        num_edges=num_bonds,
        edges=bonds,
        x=x[:, None],
        edge_attr=as_features(f"{place}, bonds", bond_type.astype(np.int64)[:, None], BONDS),
        pos=as_features(f"{place}, pos", pos, Reals(3)),
        y=expect_real(place, "targets", y, len(num_atoms), len(TARGETS)),
        smiles=smiles,
    )


def read_npz(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """One ``.npz`` of flat arrays; the twelve targets stand first in ``targets``, in Hartree, Debye and Bohr.

    Raises:
        FileFormatError: it is damaged, or an array is missing or of another shape.
    """
    (path,) = files
    arrays = read_arrays(path, _ARRAYS)
    graphs, atoms, bonds = (np.atleast_1d(arrays[name]).shape[0] for name in ("num_atoms", "Z", "bond_type"))
    text = arrays["smiles"]
    if text.shape != () or text.dtype.kind != "U":
        raise FileFormatError(f"{path}: smiles has shape {text.shape}; expected one text, a line for each molecule")
    targets = expect_real(path, "targets", arrays["targets"], graphs, None)
    if targets.shape[1] < len(TARGETS):
        raise FileFormatError(f"{path}: targets has {targets.shape[1]} columns; expected at least {len(TARGETS)}")
    return molecules(
        path,
        num_atoms=expect_whole(path, "num_atoms", arrays["num_atoms"], graphs),
        atomic_numbers=expect_whole(path, "Z", arrays["Z"], atoms),
        pos=expect_real(path, "pos", arrays["pos"], atoms, 3),
        num_bonds=expect_whole(path, "num_bonds", arrays["num_bonds"], graphs),
        bonds=expect_whole(path, "bonds", arrays["bonds"], bonds, 2).T,
        bond_type=expect_whole(path, "bond_type", arrays["bond_type"], bonds),
        y=in_units(targets[:, : len(TARGETS)]),
        smiles=str(text).split("\n"),
    )


def read_processed(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """PyG's ``processed/data_v3.pt``: (data, slices), all molecules in flat tensors.

    Raises:
        FileFormatError: it is damaged, or is not that of QM9.
    """
    (path,) = files
    return _from_pyg(
        path, read_collated(path, nodes=("z", "pos"), edges=("edge_attr",), graphs=("y",), texts=("smiles",))
    )


def read_downloaded(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """PyG's ``qm9_v3.pt``, or the zip with it: a list of dicts, one for each molecule.

    Raises:
        FileFormatError: it is damaged, or is not that of QM9; with the molecule where it can be said.
    """
    (member,) = members(files, ["qm9_v3.pt"])
    listed = read_list(member, "molecules, each a dict")
    flat = collate((_fields(f"{member}, molecule {number}", one) for number, one in enumerate(listed)), "z")
    return _from_pyg(member, dataclasses.replace(flat, texts={"smiles": [str(one["smiles"]) for one in listed]}))


def _fields(place: str, molecule: Any) -> dict[str, Array]:
    if not isinstance(molecule, dict) or any(name not in molecule for name in (*_DOWNLOADED, "smiles")):
        raise FileFormatError(f"{place}: got {kind_of(molecule)}; expected a dict with {', '.join(_DOWNLOADED)}")
    fields = {name: as_array(f"{place}, {name}", molecule[name]) for name in _DOWNLOADED}
    atoms, bonds = (fields[name].shape[-1] if fields[name].ndim else 0 for name in ("z", "edge_index"))
    expect_shape(place, "z", fields["z"], atoms)
    expect_shape(place, "pos", fields["pos"], atoms, 3)
    expect_shape(place, "edge_index", fields["edge_index"], 2, bonds)
    expect_shape(place, "edge_attr", fields["edge_attr"], bonds, _PYG_BONDS)
    expect_shape(place, "y", fields["y"], 1, _PYG_TARGETS)
    return fields


def _from_pyg(place: object, flat: Collated) -> GraphTable:
    graphs, atoms, bonds = len(flat.num_nodes), int(flat.num_nodes.sum()), int(flat.num_edges.sum())
    one_hot = expect_real(place, "edge_attr", flat["edge_attr"].astype(np.float64), bonds, _PYG_BONDS)
    if not ((one_hot == 1).sum(axis=1) == 1).all():
        raise FileFormatError(f"{place}: edge_attr does not name one bond for each edge; expected one 1 in each row")
    targets = expect_real(place, "y", flat["y"].astype(np.float64), graphs, _PYG_TARGETS)
    return molecules(
        place,
        num_atoms=flat.num_nodes,
        atomic_numbers=expect_whole(place, "z", flat["z"], atoms),
        pos=expect_real(place, "pos", flat["pos"], atoms, 3),
        num_bonds=flat.num_edges,
        bonds=expect_whole(place, "edge_index", flat["edge_index"], 2, bonds),
        bond_type=one_hot.argmax(axis=1) + 1,
        y=targets[:, : len(TARGETS)],
        smiles=flat.texts["smiles"],
    )


# The bonds of molecules that are given as a SMILES and as atoms in space (:func:`bonds_of`).
#
# QM9's original files list no bonds. Their SMILES say which there are, and their atoms stand in the order of the
# SMILES:
# first the atoms that it writes, each followed by the hydrogens that stand with it in brackets, then all other
# hydrogens.
# Of ten molecules this is not true: eight have another order, and two have relaxed to other bonds. There the bonds are
# determined from the positions.


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


# QM9 from the pip package qm9pack: three CSV files, read without importing it (:func:`read_package`).
#
# It carries the 130,831 molecules that are left of 133,885 when those are taken out whose geometry the publication
# calls
# uncharacterised. Lists are written as text, and small numbers as ``1.2*^-6``.


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
