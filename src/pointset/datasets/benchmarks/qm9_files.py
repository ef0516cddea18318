"""The files of QM9: flat arrays, and PyG's, as downloaded (``qm9_v3.pt``) and as it keeps them (``data_v3.pt``).

PyG's are pickles. Nothing is rebuilt of them but plain containers and tensors (:mod:`pointset.datasets.unpickling`).
Its targets are float32 numbers in eV already, so its total energies are exact to 1e-3 eV only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.benchmarks.checked_arrays import (
    as_array,
    as_features,
    expect_real,
    expect_shape,
    expect_whole,
    kind_of,
)
from pointset.datasets.benchmarks.collated import Collated, collate, read_collated
from pointset.datasets.benchmarks.members import members
from pointset.datasets.benchmarks.pickled_lists import read_list
from pointset.datasets.benchmarks.qm9_targets import ELEMENTS, TARGETS, in_units
from pointset.datasets.npz import read_arrays
from pointset.datasets.table import Array, GraphTable
from pointset.errors import FileFormatError
from pointset.specs import Categories, Reals

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
