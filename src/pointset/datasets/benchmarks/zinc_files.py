"""The official files of ZINC: as the authors of the benchmark publish them (``raw``), and as PyG keeps them.

The raw files are pickles, and there is no other official form. Nothing is rebuilt of them but plain containers, arrays
and tensors (:mod:`pointset.datasets.unpickling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.benchmarks.checked_arrays import as_array, as_features, kind_of
from pointset.datasets.benchmarks.collated import read_collated
from pointset.datasets.benchmarks.members import Member, members
from pointset.datasets.benchmarks.pickled_lists import read_list
from pointset.datasets.splits.parts import PARTS
from pointset.datasets.table import Array, GraphTable, joined_parts
from pointset.errors import FileFormatError
from pointset.progress import progress_bar
from pointset.specs import Categories, Reals

ATOMS, BONDS = Categories(28), Categories(4)
_TARGET = "logP_SA_cycle_normalized"


def read_raw(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """From ``molecules.zip`` or its ``.pickle`` files; with the three ``.index`` files only the molecules they name.

    Each part is a list of dicts: ``atom_type`` (n,), ``bond_type`` (n, n), 0 where there is no bond, and the target.

    Raises:
        FileFormatError: a file is damaged, or is none of this dataset; with the molecule where it can be said.
    """
    chosen = {path.stem: path for path in files if path.suffix == ".index"}
    pickles = members([path for path in files if path.suffix != ".index"], [f"{part}.pickle" for part in PARTS])
    tables = []
    with progress_bar("Reading ZINC (bytes)", sum(map(Member.size, pickles)), show=show) as advance:
        for part, member in zip(PARTS, pickles, strict=True):
            molecules = read_list(member, "molecules, each a dict", advance=advance)
            if part in chosen:
                molecules = [molecules[number] for number in _read_index(chosen[part], len(molecules))]
            tables.append(_table(member, molecules))
    return joined_parts(tables)


def read_processed(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """From PyG's ``train.pt``, ``val.pt`` and ``test.pt``: each is (data, slices), all graphs in flat tensors.

    Raises:
        FileFormatError: a file is damaged, or is none of this dataset.
    """
    tables = []
    for path in files:
        flat = read_collated(path, nodes=("x",), edges=("edge_attr",), graphs=("y",))
        tables.append(
            GraphTable(
                num_nodes=flat.num_nodes,
                num_edges=flat.num_edges,
                edges=flat["edge_index"],
                x=as_features(f"{path}, x", flat["x"].reshape(-1, 1), ATOMS),
                edge_attr=as_features(f"{path}, edge_attr", flat["edge_attr"].reshape(-1, 1), BONDS),
                y=as_features(f"{path}, y", flat["y"].reshape(-1, 1), Reals(1))[:, 0],
            )
        )
    return joined_parts(tables)


def _table(member: Member, molecules: Sequence[Any]) -> GraphTable:
    """All molecules of a part; each edge is listed in both directions, as the matrix has it."""
    atoms, bonds, edges, targets = [], [], [], []
    for number, molecule in enumerate(molecules):
        atom_type, matrix, target = _fields(f"{member}, molecule {number}", molecule)
        ends = np.nonzero(matrix)
        atoms.append(atom_type)
        bonds.append(matrix[ends])
        edges.append(np.stack(ends))
        targets.append(target)
    return GraphTable(
        num_nodes=np.array([len(rows) for rows in atoms]),
        num_edges=np.array([len(rows) for rows in bonds]),
        edges=np.concatenate(edges, axis=1),
        x=as_features(f"{member}, atom_type", np.concatenate(atoms)[:, None], ATOMS),
        edge_attr=as_features(f"{member}, bond_type", np.concatenate(bonds)[:, None], BONDS),
        y=as_features(f"{member}, {_TARGET}", np.concatenate(targets)[:, None], Reals(1))[:, 0],
    )


def _fields(place: str, molecule: Any) -> tuple[Array, Array, Array]:
    names = ("atom_type", "bond_type", _TARGET)
    if not isinstance(molecule, dict) or any(name not in molecule for name in names):
        raise FileFormatError(f"{place}: got {kind_of(molecule)}; expected a dict with {', '.join(names)}")
    atom_type, matrix, target = (as_array(f"{place}, {name}", molecule[name]) for name in names)
    if atom_type.ndim != 1 or matrix.shape != (len(atom_type),) * 2 or target.size != 1:
        raise FileFormatError(
            f"{place}: atom_type has shape {atom_type.shape}, bond_type {matrix.shape}, the target {target.shape}; "
            "expected (n,), (n, n) and one number"
        )
    return _whole(f"{place}, atom_type", atom_type), _whole(f"{place}, bond_type", matrix), target.reshape(1)


def _whole(place: str, array: Array) -> Array:
    """Whole numbers, also where they are stored as real ones: PyG converts them too."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise FileFormatError(f"{place}: got numbers with fractions; expected whole ones")
    return whole


def _read_index(path: Path, count: int) -> list[int]:
    text = path.read_text("utf-8", "replace").strip().strip(",")
    try:
        numbers = [int(cell) for cell in text.split(",")]
    except ValueError:
        raise FileFormatError(f"{path} holds {text[:60]!r}; expected whole numbers, separated by commas") from None
    if wrong := [number for number in numbers if not 0 <= number < count]:
        raise FileFormatError(f"{path} names molecule {wrong[0]}; there are {count:,}, counted from 0")
    return numbers
