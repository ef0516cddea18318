"""Molecules → graphs in flat arrays (:func:`table_of_smiles`), and how cards describe OGB's atom and bond columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pointset.datasets.molecules.columns import ATOM_COLUMNS, BOND_COLUMNS, MISC
from pointset.datasets.molecules.elements import SYMBOLS
from pointset.datasets.molecules.many import Unreadable, read_many
from pointset.datasets.molecules.molecule import Molecule
from pointset.datasets.molecules.reader import OGB_READER
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError
from pointset.specs import Categories

NODE = Categories(*(column.size for column in ATOM_COLUMNS))
EDGE = Categories(*(column.size for column in BOND_COLUMNS))
NODE_LABELS = ((*SYMBOLS, MISC), *(column.labels for column in ATOM_COLUMNS[1:]))  # elements, not atomic numbers
EDGE_LABELS = (tuple(map(str.lower, BOND_COLUMNS[0].labels)), *(column.labels for column in BOND_COLUMNS[1:]))
OGB_FEATURES: dict[str, Any] = {
    "node": NODE,
    "edge": EDGE,
    "node_columns": tuple(f"{column.name}: {column.meaning}" for column in ATOM_COLUMNS),
    "edge_columns": tuple(f"{column.name}: {column.meaning}" for column in BOND_COLUMNS),
    "node_labels": NODE_LABELS,
    "edge_labels": EDGE_LABELS,
    "molecules": "ogb",
}
"""What every card of molecules with these features says of them."""


def table_of_smiles(smiles: Sequence[str], place: object, *, show: bool | None) -> GraphTable:
    """The molecules as OGB reads them, in their order and with atoms in the order of the SMILES; no targets yet.

    Raises:
        FileFormatError: one cannot be read; ``place`` says which file it stands in.
        MissingExtraError: RDKit is not installed.
    """
    molecules = []
    for row, molecule in enumerate(read_many(smiles, OGB_READER, progress=show), start=1):
        if isinstance(molecule, Unreadable):
            raise FileFormatError(f"{place}, row {row}: {molecule.reason}")
        molecules.append(molecule)
    return table_of_molecules(molecules, smiles)


def table_of_molecules(molecules: Sequence[Molecule], smiles: Sequence[str]) -> GraphTable:
    """One molecule or more, with the SMILES (G,) that each was read from; no targets yet."""

    def together(name: str, axis: int = 0) -> Any:
        return np.concatenate([getattr(molecule, name) for molecule in molecules], axis=axis)

    return GraphTable(
        num_nodes=np.array([molecule.num_nodes for molecule in molecules]),
        num_edges=np.array([len(molecule.edge_attr) for molecule in molecules]),
        edges=together("edges", axis=1),
        x=together("x"),
        edge_attr=together("edge_attr"),
        pos=None if molecules[0].pos is None else together("pos").astype(np.float32),
        smiles=list(smiles),
    )
