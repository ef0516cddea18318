"""The ring systems of a molecule with what links them: what a scaffold split keeps on one side."""

from __future__ import annotations

from pointset.datasets.molecules.canonical import canonical
from pointset.datasets.molecules.molecule import MoleculeError
from pointset.datasets.molecules.parsing import parse, screen
from pointset.datasets.molecules.rdkit_guard import rdkit_at_work, require_rdkit


def murcko_scaffold(smiles: str) -> str:
    """The Bemis–Murcko scaffold as canonical SMILES without stereochemistry.

    It is empty for a molecule without rings, and for one that cannot be read.
    """
    require_rdkit()
    from rdkit import Chem

    try:
        text = screen(smiles)
        with rdkit_at_work(text):
            mol, _ = canonical(parse(text))
            Chem.RemoveStereochemistry(mol)
            scaffold = Chem.MurckoDecompose(mol)
            # lenient: cutting a side chain off can leave an atom, such as [c-], that no molecule may have
            return canonical(scaffold, lenient=True)[1] if scaffold.GetNumAtoms() else ""
    except MoleculeError:
        return ""
