"""SMILES → :class:`Molecule` with OGB's features (:class:`MoleculeReader`), also with positions in space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pointset.arrays import Floats, Integers
from pointset.datasets.molecules.descriptors import describe, descriptor_kinds, morgan_counts, packed
from pointset.datasets.molecules.features import featurise
from pointset.datasets.molecules.parsing import (
    Molecule,
    MoleculeError,
    Steps,
    Unreadable,
    as_molecule_error,
    canonical_steps,
    finished,
    parse,
    require_rdkit,
    screen,
    shown,
    side_by_side,
    silent_rdkit,
)
from pointset.datasets.molecules.zinc import read_zinc_molecule
from pointset.errors import SpecError

if TYPE_CHECKING:
    from rdkit.Chem import Mol


MAX_EMBEDDED_ATOMS = 400
"""Most atoms, hydrogens included, that are embedded: 283 take 12 s and the time grows with more than their cube."""
_LARGEST_SEED = 2**31 - 2
_SIDE_BY_SIDE = 16  # molecules: more of them would not fit into the processor's cache

ReadMolecule = Callable[[str], Molecule]


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
        descriptors: numbers of the molecule as a whole beside its graph: ``"morgan"``, ``"rdkit"``, ``"morgan+rdkit"``.
        fingerprint: also gives the packed Morgan bits, by which molecules are compared.
    """

    hydrogens: bool = False
    canonical: bool = True
    conformer_seed: int | None = None
    lenient: bool = False
    descriptors: str | None = None
    fingerprint: bool = False

    def __post_init__(self) -> None:
        for name in ("hydrogens", "canonical", "lenient", "fingerprint"):
            if not isinstance(getattr(self, name), bool):
                raise MoleculeError(f"got {name}={getattr(self, name)!r}; expected True or False")
        if self.descriptors is not None:
            descriptor_kinds(self.descriptors)
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
        with silent_rdkit():
            return finished(self.steps(smiles))

    def read_all(self, smiles: Sequence[str]) -> list[Molecule | Unreadable]:
        """The same for several, and the reason where one cannot be read."""
        require_rdkit()
        found: list[Molecule | Unreadable] = []
        with silent_rdkit():
            for start in range(0, len(smiles), _SIDE_BY_SIDE):
                found += side_by_side([self.steps(one) for one in smiles[start : start + _SIDE_BY_SIDE]])
        return found

    def steps(self, smiles: str) -> Steps[Molecule]:
        """The work of reading one molecule."""
        from rdkit import Chem

        text = screen(smiles)
        with as_molecule_error(text):
            mol = parse(text, lenient=self.lenient)
            yield
            if self.canonical:
                mol, text = yield from canonical_steps(mol, text, lenient=self.lenient)
                yield
            described: dict[str, Any] = {}
            if self.descriptors is not None or self.fingerprint:
                counts = morgan_counts(mol) if self.fingerprint or "morgan" in str(self.descriptors) else None
                if self.descriptors is not None:
                    described["descriptors"] = describe(mol, self.descriptors, counts)
                if self.fingerprint and counts is not None:
                    described["fingerprint"] = packed(counts)
                yield
            pos = None
            if self.hydrogens or self.conformer_seed is not None:
                with_hydrogens = Chem.AddHs(mol)
                if self.conformer_seed is not None:
                    pos = embed(with_hydrogens, text, self.conformer_seed)
                if self.hydrogens:
                    mol = with_hydrogens
                elif pos is not None:
                    pos = pos[: mol.GetNumAtoms()]  # the hydrogens come last
            molecule = featurise(mol, text, pos)
            return replace(molecule, **described) if described else molecule


OGB_READER = MoleculeReader(canonical=False, lenient=True)
"""Reads as OGB did: the order of the SMILES, and molecules that only an older RDKit accepted."""


def reader_named(name: str, settings: Mapping[str, Any] | None = None) -> ReadMolecule:
    """The reader for ``Card.molecules``, ``"ogb"`` or ``"zinc"``; ``settings`` are those of :class:`MoleculeReader`."""
    if name == "ogb":
        return MoleculeReader(**(settings or {}))
    if name == "zinc":
        return read_zinc_molecule
    raise SpecError(f"the molecules are of the kind {name!r:.40}, which this pointset cannot read. Upgrade pointset")


def text_in_order(smiles: str, kind: str, x: Integers, edges: Integers) -> str | None:
    """The writing of a molecule whose atoms stand in the order of a graph's nodes; None where no reading gives them.

    Args:
        smiles: any writing of the molecule.
        kind: ``Card.molecules``.
        x: (n, c) features of the graph's nodes.
        edges: (2, m) its edges, in any order.
    """
    readers: list[ReadMolecule] = [reader_named(kind)]
    if kind == "ogb":
        several = product((True, False), (False, True))
        readers = [MoleculeReader(canonical=order, hydrogens=added, lenient=True) for order, added in several]
    for read in readers:
        try:
            molecule = read(smiles)
        except MoleculeError:
            continue
        if np.array_equal(molecule.x, x) and _bonds(molecule.edges) == _bonds(edges):
            return molecule.smiles
    return None


def _bonds(edges: Integers) -> set[tuple[int, ...]]:
    return set(map(tuple, np.sort(edges, axis=0).T.tolist()))


def embed(mol: Mol, smiles: str, seed: int) -> Floats:
    """Coordinates in Å of all atoms of ``mol``, whose hydrogens must be explicit: (n, 3), the same for the same seed.

    ETKDG version 3 gives the first positions (again from random coordinates where it fails), at most 200 steps of the
    MMFF94 force field then relax them, where that force field knows all atoms.
    """
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

    if mol.GetNumAtoms() > MAX_EMBEDDED_ATOMS:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has {mol.GetNumAtoms():,} atoms with hydrogens; positions are made for at "
            f"most {MAX_EMBEDDED_ATOMS}: leave conformer_seed away, or bring positions of your own"
        )
    parameters = rdDistGeom.ETKDGv3()
    # RDKit draws the same for 0 and 1. (Its stubs give every property the type of the class.)
    parameters.randomSeed = seed + 1  # type: ignore[assignment]
    for random_coordinates in (False, True):
        parameters.useRandomCoords = random_coordinates  # type: ignore[assignment]
        if rdDistGeom.EmbedMolecule(mol, parameters) >= 0:
            break
    else:
        raise MoleculeError(
            f"RDKit finds no positions in space for the SMILES {shown(smiles)} (conformer_seed={seed}); "
            "try another seed, or read it without positions"
        )
    if rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        rdForceFieldHelpers.MMFFOptimizeMolecule(mol)
    return np.array(mol.GetConformer().GetPositions(), dtype=np.float64)
