"""SMILES → graph arrays, with RDKit (``pip install 'pointset[chem]'``); docs/molecules.md describes every column.

>>> from pointset.datasets.molecules import MoleculeReader
>>> MoleculeReader()("OCC").smiles
'CCO'
"""

from pointset.datasets.molecules.features import ATOM_COLUMNS as ATOM_COLUMNS
from pointset.datasets.molecules.features import BOND_COLUMNS as BOND_COLUMNS
from pointset.datasets.molecules.features import Column as Column
from pointset.datasets.molecules.many import Unreadable as Unreadable
from pointset.datasets.molecules.many import read_many as read_many
from pointset.datasets.molecules.parsing import Molecule as Molecule
from pointset.datasets.molecules.parsing import MoleculeError as MoleculeError
from pointset.datasets.molecules.parsing import murcko_scaffold as murcko_scaffold
from pointset.datasets.molecules.reader import OGB_READER as OGB_READER
from pointset.datasets.molecules.reader import MoleculeReader as MoleculeReader
from pointset.datasets.molecules.zinc import ZINC_ATOM_COLUMNS as ZINC_ATOM_COLUMNS
from pointset.datasets.molecules.zinc import ZINC_BOND_COLUMNS as ZINC_BOND_COLUMNS
from pointset.datasets.molecules.zinc import read_zinc_molecule as read_zinc_molecule
