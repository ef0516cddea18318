"""SMILES → graphs with OGB's atom and bond columns (:func:`table_of_smiles`), and how cards name those columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pointset.datasets.molecules.columns import ATOM_COLUMNS, BOND_COLUMNS
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError
from pointset.specs import Categories

NODE = Categories(*(column.size for column in ATOM_COLUMNS))
EDGE = Categories(*(column.size for column in BOND_COLUMNS))
NODE_COLUMNS, EDGE_COLUMNS = (
    tuple(f"{column.name}: {column.meaning}" for column in columns) for columns in (ATOM_COLUMNS, BOND_COLUMNS)
)


def table_of_smiles(smiles: Sequence[str], place: object, *, show: bool | None) -> GraphTable:
    """The molecules as OGB reads them, in their order and with atoms in the order of the SMILES; no targets yet.

    Raises:
        FileFormatError: one cannot be read; ``place`` says which file it stands in.
        MissingExtraError: RDKit is not installed.
    """
    from pointset.datasets.molecules.many import Unreadable, read_many
    from pointset.datasets.molecules.reader import OGB_READER

    molecules = []
    for row, molecule in enumerate(read_many(smiles, OGB_READER, progress=show), start=1):
        if isinstance(molecule, Unreadable):
            raise FileFormatError(f"{place}, row {row}: {molecule.reason}")
        molecules.append(molecule)
    return GraphTable(
        num_nodes=np.array([len(molecule.x) for molecule in molecules]),
        num_edges=np.array([len(molecule.edge_attr) for molecule in molecules]),
        edges=np.concatenate([molecule.edges for molecule in molecules], axis=1),
        x=np.concatenate([molecule.x for molecule in molecules]),
        edge_attr=np.concatenate([molecule.edge_attr for molecule in molecules]),
        smiles=list(smiles),
    )
