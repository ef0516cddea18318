"""SMILES → :class:`Molecule` with OGB's features (:class:`MoleculeReader`), also with positions in space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from pointset.arrays import Floats, Integers
from pointset.datasets.molecules.atom_kinds import featurise_many
from pointset.datasets.molecules.descriptors import describe, describe_many, descriptor_kinds, morgan_counts, packed
from pointset.datasets.molecules.features import featurise
from pointset.datasets.molecules.parsing import (
    Molecule,
    MoleculeError,
    Reading,
    Steps,
    Unreadable,
    as_molecule_error,
    canonical_reading,
    canonical_steps,
    finished,
    parse,
    require_rdkit,
    screen,
    shown,
    side_by_side,
    silent_rdkit,
)
from pointset.datasets.molecules.qm9 import read_qm9_molecule
from pointset.datasets.molecules.zinc import read_zinc_molecule, zinc_smiles
from pointset.errors import SpecError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from pointset.points.graphs import Graph

MAX_EMBEDDED_ATOMS = 400
"""Most atoms, hydrogens included, that are embedded: 283 take 12 s and the time grows with more than their cube."""
_LARGEST_SEED = 2**31 - 2
_SIDE_BY_SIDE = 16  # molecules: more of them would not fit into the processor's cache
_TOGETHER = 256  # molecules whose arrays are made at once

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
            if not isinstance(self.descriptors, str):
                raise MoleculeError(f"got descriptors={self.descriptors!r:.60}; expected a name such as 'morgan+rdkit'")
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
            return self._molecule(finished(self._reading(smiles)))

    def read_all(self, smiles: Sequence[str]) -> list[Molecule | Unreadable]:
        """The same for several, and the reason where one cannot be read."""
        require_rdkit()
        found: list[Molecule | Unreadable] = []
        with silent_rdkit():
            for start in range(0, len(smiles), _TOGETHER):
                found += self._read_together(smiles[start : start + _TOGETHER])
        return found

    def _read_together(self, smiles: Sequence[str]) -> list[Molecule | Unreadable]:
        found: list[Any] = []
        for start in range(0, len(smiles), _SIDE_BY_SIDE):
            found += side_by_side([self._reading(one) for one in smiles[start : start + _SIDE_BY_SIDE]])
        read = {at: one for at, one in enumerate(found) if isinstance(one, Reading)}
        for at, molecule in zip(read, self._molecules(list(read.values())), strict=True):
            found[at] = molecule
        return found

    def _reading(self, smiles: str) -> Steps[Reading]:
        """The molecule in the order in which its arrays are made."""
        text = screen(smiles)
        with as_molecule_error(text):
            mol = parse(text, lenient=self.lenient)
            yield
            if not self.canonical:
                return Reading(mol, text)
            if self._adds_atoms:  # in the order of the bonds, which is that of the second reading
                return Reading(*(yield from canonical_steps(mol, text, lenient=self.lenient)))
            return (yield from canonical_reading(mol, text, lenient=self.lenient))

    @property
    def _adds_atoms(self) -> bool:
        return self.hydrogens or self.conformer_seed is not None

    def _molecules(self, readings: Sequence[Reading]) -> Sequence[Molecule | Unreadable]:
        """What :meth:`_molecule` gives for each, or why nothing does; together they take half of the time."""
        if not self._adds_atoms:
            try:
                return self._together(readings)
            except (RuntimeError, ValueError):  # one of them is at fault: RDKit's invariants
                pass
        found: list[Molecule | Unreadable] = []
        for reading in readings:
            try:
                found.append(self._molecule(reading))
            except MoleculeError as error:
                found.append(Unreadable(str(error)))
        return found

    def _together(self, readings: Sequence[Reading]) -> list[Molecule]:
        by_kind = self.canonical and not self.lenient
        found = featurise_many(readings) if by_kind else [featurise(reading) for reading in readings]
        if not found or (self.descriptors is None and not self.fingerprint):
            return found
        counts = np.stack([morgan_counts(reading.mol) for reading in readings]) if self._counts else None
        bits: Iterable[Any] = repeat(None) if counts is None or not self.fingerprint else packed(counts)
        numbers: Iterable[Any] = repeat(None)
        if self.descriptors is not None:
            numbers = describe_many(readings, found, self.descriptors, counts)
        return [
            Molecule(one.x, one.edges, one.edge_attr, None, one.smiles, row, own)
            for one, row, own in zip(found, numbers, bits, strict=False)
        ]

    @property
    def _counts(self) -> bool:
        """Whether Morgan counts are needed."""
        return self.fingerprint or "morgan" in str(self.descriptors)

    def _molecule(self, reading: Reading) -> Molecule:
        """The arrays of a molecule, with all that was asked for beside them."""
        with as_molecule_error(reading.smiles):
            counts = morgan_counts(reading.mol) if self._counts else None
            molecule = self._with_hydrogens(reading) if self._adds_atoms else featurise(reading)
            return replace(
                molecule,
                descriptors=None if self.descriptors is None else describe(reading.mol, self.descriptors, counts),
                fingerprint=packed(counts) if self.fingerprint and counts is not None else None,
            )

    def _with_hydrogens(self, reading: Reading) -> Molecule:
        """As nodes, or to find positions of the others."""
        from rdkit import Chem

        pos, complete = None, Chem.AddHs(reading.mol)
        if self.conformer_seed is not None:
            pos = embed(complete, reading.smiles, self.conformer_seed)
        if self.hydrogens:
            return featurise(reading._replace(mol=complete), pos)
        return featurise(reading, None if pos is None else pos[: reading.mol.GetNumAtoms()])  # hydrogens come last


OGB_READER = MoleculeReader(canonical=False, lenient=True)
"""Reads as OGB did: the order of the SMILES, and molecules that only an older RDKit accepted."""


def reader_named(name: str, settings: Mapping[str, Any] | None = None) -> ReadMolecule:
    """The reader for ``Card.molecules``: ``"ogb"``, ``"zinc"`` or ``"qm9"``.

    ``settings`` are those of :class:`MoleculeReader`, which reads the first kind.
    """
    if name == "ogb":
        return MoleculeReader(**(settings or {}))
    if name == "zinc":
        return read_zinc_molecule
    if name == "qm9":
        return read_qm9_molecule
    raise SpecError(f"the molecules are of the kind {name!r:.40}, which this pointset cannot read. Upgrade pointset")


def smiles_of_graph(kind: str | None, graph: Graph) -> str | None:
    """The SMILES of a graph of a kind, for datasets whose files have none; None of kinds that do not say all of it."""
    x, bonds = graph.features.x, graph.features.edge_attr
    if kind != "zinc" or x is None or bonds is None:
        return None
    return zinc_smiles(x[:, 0].tolist(), graph.edges.T.tolist(), bonds[:, 0].tolist())


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
    if kind == "qm9":
        readers.append(partial(read_qm9_molecule, in_canonical_order=False))
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
