"""SMILES → :class:`Molecule`, with OGB's features."""

from __future__ import annotations

from dataclasses import dataclass

from pointset.datasets.molecules.canonical import canonical
from pointset.datasets.molecules.conformer import embed
from pointset.datasets.molecules.features import featurise
from pointset.datasets.molecules.molecule import Molecule, MoleculeError
from pointset.datasets.molecules.parsing import parse, screen
from pointset.datasets.molecules.rdkit_guard import rdkit_at_work, require_rdkit

_LARGEST_SEED = 2**31 - 2


@dataclass(frozen=True, slots=True)
class MoleculeReader:
    """Reads one SMILES after the other: ``MoleculeReader()("CCO")``.

    Args:
        hydrogens: hydrogens are nodes too, behind all other atoms.
        canonical: the same molecule written differently gives the same arrays, bit for bit. Otherwise the atoms stay in
            the order of the SMILES, which is how OGB reads.
        conformer_seed: makes positions in space from this seed, 0 … 2³¹ − 2; None makes none.
        lenient: takes a molecule with impossible chemistry (a valence too high, an aromatic ring that cannot be) as it
            is written, instead of refusing it.
    """

    hydrogens: bool = False
    canonical: bool = True
    conformer_seed: int | None = None
    lenient: bool = False

    def __post_init__(self) -> None:
        for name in ("hydrogens", "canonical", "lenient"):
            if not isinstance(getattr(self, name), bool):
                raise MoleculeError(f"got {name}={getattr(self, name)!r}; expected True or False")
        seed = self.conformer_seed
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED):
            raise MoleculeError(f"got conformer_seed={seed!r}; expected a whole number from 0 to 2^31 − 2, or None")

    def __call__(self, smiles: str) -> Molecule:
        """The molecule as a graph.

        Raises:
            MoleculeError: not a SMILES, not a possible molecule, too large, or no positions were found.
            MissingExtraError: RDKit is not installed.
        """
        require_rdkit()
        from rdkit import Chem

        text = screen(smiles)
        with rdkit_at_work(text):
            mol = parse(text, lenient=self.lenient)
            if self.canonical:
                mol, text = canonical(mol, lenient=self.lenient)
            pos = None
            if self.hydrogens or self.conformer_seed is not None:
                with_hydrogens = Chem.AddHs(mol)
                if self.conformer_seed is not None:
                    pos = embed(with_hydrogens, text, self.conformer_seed)
                if self.hydrogens:
                    mol = with_hydrogens
                elif pos is not None:
                    pos = pos[: mol.GetNumAtoms()]  # the hydrogens come last
            return featurise(mol, text, pos)


OGB_READER = MoleculeReader(canonical=False, lenient=True)
"""Reads as OGB did: the order of the SMILES, and molecules that only an older RDKit accepted."""
