"""The files of QM9: flat arrays, and PyG's, as downloaded (``qm9_v3.pt``) and as it keeps them (``data_v3.pt``).

PyG's are pickles. Nothing is rebuilt of them but plain containers and tensors (:mod:`pointset.datasets.unpickling`).
Its targets are float32 numbers in eV already, so its total energies are exact to 1e-3 eV only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.benchmarks.collated import read_collated
from pointset.datasets.benchmarks.flat_arrays import expect_real, expect_whole
from pointset.datasets.benchmarks.members import Member, members
from pointset.datasets.benchmarks.npz import read_arrays
from pointset.datasets.benchmarks.plain_arrays import as_array, as_features, kind_of
from pointset.datasets.benchmarks.qm9_targets import ELEMENTS, TARGETS, in_units
from pointset.datasets.table import Array, GraphTable
from pointset.errors import FileFormatError
from pointset.specs import Categories

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
        pos=pos.astype(np.float32),
        y=y,
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
    flat = read_collated(path, nodes=("z", "pos"), edges=("edge_attr",), graphs=("y",), texts=("smiles",))
    return _from_pyg(
        path,
        flat.num_nodes,
        flat.num_edges,
        flat["z"],
        flat["pos"],
        flat.edges,
        flat["edge_attr"],
        flat["y"],
        flat.texts["smiles"],
    )


def read_downloaded(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """PyG's ``qm9_v3.pt``, or the zip with it: a list of dicts, one for each molecule.

    Raises:
        FileFormatError: it is damaged, or is not that of QM9; with the molecule where it can be said.
    """
    (member,) = members(files, ["qm9_v3.pt"])
    columns: dict[str, list[Array]] = {name: [] for name in _DOWNLOADED}
    smiles = []
    for number, molecule in enumerate(_content(member)):
        place = f"{member}, molecule {number}"
        if not isinstance(molecule, dict) or any(name not in molecule for name in (*_DOWNLOADED, "smiles")):
            raise FileFormatError(f"{place}: got {kind_of(molecule)}; expected a dict with {', '.join(_DOWNLOADED)}")
        for name in _DOWNLOADED:
            columns[name].append(as_array(f"{place}, {name}", molecule[name]))
        _check_shapes(place, *(columns[name][-1] for name in _DOWNLOADED))
        smiles.append(str(molecule["smiles"]))
    z, pos, edges, edge_attr, y = (
        np.concatenate(rows, axis=1 if name == "edge_index" else 0) for name, rows in columns.items()
    )
    num_atoms, num_bonds = (np.array([len(rows) for rows in columns[name]]) for name in ("z", "edge_attr"))
    return _from_pyg(member, num_atoms, num_bonds, z, pos, edges, edge_attr, y, smiles)


def _content(member: Member) -> list[Any]:
    from pointset.datasets.unpickling import read_torch

    try:
        with member.open() as file:
            content = read_torch(file)
    except FileFormatError as error:
        raise FileFormatError(f"{member.path}: {error}" if member.inside else str(error)) from None
    if not isinstance(content, list) or not content:
        raise FileFormatError(f"{member} holds {kind_of(content)}; expected a list of molecules, each a dict")
    return content


def _check_shapes(place: str, z: Array, pos: Array, edges: Array, edge_attr: Array, y: Array) -> None:
    atoms, bonds = len(np.atleast_1d(z)), edges.shape[-1] if edges.ndim else 0
    for name, array, expected in (
        ("z", z, (atoms,)),
        ("pos", pos, (atoms, 3)),
        ("edge_index", edges, (2, bonds)),
        ("edge_attr", edge_attr, (bonds, _PYG_BONDS)),
        ("y", y, (1, _PYG_TARGETS)),
    ):
        if array.shape != expected:
            raise FileFormatError(f"{place}: {name} has shape {array.shape}; expected {expected}")


def _from_pyg(
    place: object,
    num_atoms: Array,
    num_bonds: Array,
    z: Array,
    pos: Array,
    edges: Array,
    edge_attr: Array,
    y: Array,
    smiles: Sequence[str],
) -> GraphTable:
    one_hot = expect_real(place, "edge_attr", edge_attr.astype(np.float64), int(num_bonds.sum()), _PYG_BONDS)
    if not ((one_hot == 1).sum(axis=1) == 1).all():
        raise FileFormatError(f"{place}: edge_attr does not name one bond for each edge; expected one 1 in each row")
    targets = expect_real(place, "y", y.astype(np.float64), len(num_atoms), _PYG_TARGETS)
    return molecules(
        place,
        num_atoms=num_atoms,
        atomic_numbers=expect_whole(place, "z", z, int(num_atoms.sum())),
        pos=expect_real(place, "pos", pos, int(num_atoms.sum()), 3),
        num_bonds=num_bonds,
        bonds=expect_whole(place, "edge_index", edges, 2, int(num_bonds.sum())),
        bond_type=one_hot.argmax(axis=1) + 1,
        y=targets[:, : len(TARGETS)],
        smiles=smiles,
    )
