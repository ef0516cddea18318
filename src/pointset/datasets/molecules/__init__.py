"""SMILES → graph arrays, with RDKit (``pip install 'pointset[chem]'``); docs/molecules.md describes every column.

>>> from pointset.datasets.molecules import MoleculeReader
>>> MoleculeReader()("OCC").smiles
'CCO'
"""

from pointset.datasets.molecules.features import ATOM_COLUMNS, BOND_COLUMNS, Column
from pointset.datasets.molecules.parallel import read_many
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Unreadable, murcko_scaffold
from pointset.datasets.molecules.qm9 import QM9_ATOM_COLUMNS, QM9_BOND_COLUMNS, read_qm9_molecule
from pointset.datasets.molecules.reader import OGB_READER, MoleculeReader
from pointset.datasets.molecules.zinc import ZINC_ATOM_COLUMNS, ZINC_BOND_COLUMNS, penalized_logp, read_zinc_molecule

__all__ = [
    "ATOM_COLUMNS",
    "BOND_COLUMNS",
    "OGB_READER",
    "QM9_ATOM_COLUMNS",
    "QM9_BOND_COLUMNS",
    "ZINC_ATOM_COLUMNS",
    "ZINC_BOND_COLUMNS",
    "Column",
    "Molecule",
    "MoleculeError",
    "MoleculeReader",
    "Unreadable",
    "murcko_scaffold",
    "penalized_logp",
    "read_many",
    "read_qm9_molecule",
    "read_zinc_molecule",
]
