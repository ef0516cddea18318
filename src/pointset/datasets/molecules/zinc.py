"""ZINC's own features, 28 atom types and the Kekulé bond types 1, 2 and 3, and its target, the penalised logP.

An atom's type is its symbol, the hydrogens that its bracket in the SMILES names, and its charge: ``[NH2+]`` is
``N H2 +``, ``O`` is ``O``. A hydrogen is named only on charged and on chiral atoms, so ``C H1`` is a stereocentre.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pointset.datasets.molecules.features import Column, atoms_of, bonds_of, edges_of
from pointset.datasets.molecules.parsing import (
    Molecule,
    MoleculeError,
    canonical,
    parse,
    quiet_rdkit,
    require_rdkit,
    screen,
    shown,
    silent_rdkit,
)
from pointset.errors import MissingExtraError

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol


_ATOM_TYPES = (
    "C, O, N, F, C H1, S, Cl, O -, N H1 +, Br, N H3 +, N H2 +, N +, N -, S -, I, P, O H1 +, N H1 -, O +, S +, P H1, "
    "P H2, C H2 -, P +, S H1 +, C H1 -, P H1 +"
)
ZINC_ATOM_COLUMNS = (Column("atom_type", tuple(_ATOM_TYPES.split(", ")), "symbol, hydrogens named, charge"),)
ZINC_BOND_COLUMNS = (Column("bond_type", ("none", "SINGLE", "DOUBLE", "TRIPLE"), "Kekulé bond order; 0 never occurs"),)

_TYPE_INDEX = {label: index for index, label in enumerate(ZINC_ATOM_COLUMNS[0].labels)}
_BOND_INDEX = {label: index for index, label in enumerate(ZINC_BOND_COLUMNS[0].labels)}
_MOST_STEPS = 100_000  # of the search; beyond them RDKit's own form stays
_Neighbours = list[list[tuple[int, int]]]  # for each atom: (neighbour, bond), in the order of the bonds


def read_zinc_molecule(smiles: str) -> Molecule:
    """The molecule with x (n, 1) of atom types 0 … 27 and edge_attr (m, 1) of bond types 1 … 3, written canonically.

    Raises:
        MoleculeError: the SMILES cannot be read, or has an atom or a bond that ZINC does not have.
        MissingExtraError: RDKit is not installed.
    """
    require_rdkit()
    text = screen(smiles)
    with quiet_rdkit(text):
        mol, text = canonical(parse(text), text)
        mol = kekulise(mol)
        bonds = bonds_of(mol)
        return Molecule(
            x=np.array([[_atom_type(atom, text)] for atom in atoms_of(mol)], dtype=np.int64),
            edges=edges_of(bonds),
            edge_attr=np.array([_bond_type(bond, text) for bond in bonds], dtype=np.int64).reshape(-1, 1),
            pos=None,
            smiles=text,
        )


def zinc_smiles(atom_types: Sequence[int], edges: Sequence[Sequence[int]], bond_types: Sequence[int]) -> str:
    """The molecule of a graph of ZINC, whose files have no SMILES; without stereochemistry, which they lack too.

    Args:
        atom_types: (n,) from 0 to 27.
        edges: (m, 2) each bond once.
        bond_types: (m,) 1, 2 or 3.

    Raises:
        MoleculeError: there is no such molecule.
        MissingExtraError: RDKit is not installed.
    """
    require_rdkit()
    from rdkit import Chem

    mol = Chem.RWMol()
    for kind in atom_types:
        symbol, *rest = ZINC_ATOM_COLUMNS[0].labels[kind].split()
        atom = Chem.Atom(symbol)
        for word in rest:
            if word.startswith("H"):
                atom.SetNumExplicitHs(int(word[1:]))
            else:
                atom.SetFormalCharge(1 if word == "+" else -1)
        mol.AddAtom(atom)
    for (first, second), kind in zip(edges, bond_types, strict=True):
        mol.AddBond(int(first), int(second), Chem.BondType.names[ZINC_BOND_COLUMNS[0].labels[kind]])
    try:
        with silent_rdkit():
            Chem.SanitizeMol(mol)
    except (ValueError, RuntimeError) as error:
        raise MoleculeError(f"a graph of {len(atom_types)} atoms is not a molecule ({error})") from None
    return str(Chem.MolToSmiles(mol))


def _atom_type(atom: Atom, smiles: str) -> int:
    hydrogens, charge = atom.GetNumExplicitHs(), atom.GetFormalCharge()
    label = atom.GetSymbol()
    if hydrogens:
        label += f" H{hydrogens}"
    if charge:
        label += " " + ("+" if charge > 0 else "-") + (str(abs(charge)) if abs(charge) > 1 else "")
    if label not in _TYPE_INDEX:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has an atom of type {label!r} (number {atom.GetIdx()}), which ZINC does not "
            f"have; expected one of: {_ATOM_TYPES}. Train on data that has it, with the general molecule features"
        )
    return _TYPE_INDEX[label]


def _bond_type(bond: Bond, smiles: str) -> int:
    label = bond.GetBondType().name
    if label not in _BOND_INDEX:
        raise MoleculeError(
            f"the SMILES {shown(smiles)} has a bond of type {label}, which ZINC does not have; "
            "expected single, double, triple or aromatic bonds"
        )
    return _BOND_INDEX[label]


def kekulise(mol: Mol) -> Mol:
    """A copy without aromatic bonds: each of them single or double, such that every valence holds.

    A benzene ring with unlike substituents has two Kekulé forms, and they are different graphs once bond types are edge
    features. RDKit changed its choice in 2026.03; ZINC's graphs have the choice of the RDKits before. Here the choice
    is a function of the order of atoms and bonds alone, so a model trained on ZINC meets the forms that it knows.
    """
    from rdkit import Chem

    result = Chem.Mol(mol)
    Chem.Kekulize(result, clearAromaticFlags=True)
    aromatic = [bond.GetIdx() for bond in mol.GetBonds() if bond.GetIsAromatic()]
    doubles = [index for index in aromatic if result.GetBondWithIdx(index).GetBondType() == Chem.BondType.DOUBLE]
    to_match = 0  # the same atoms take part in a double bond in every form
    for bond in map(result.GetBondWithIdx, doubles):
        to_match |= 1 << bond.GetBeginAtomIdx() | 1 << bond.GetEndAtomIdx()
    chosen = _first_matching(_walk_order(mol), _aromatic_neighbours(mol, aromatic), to_match)
    if chosen is not None:
        for index in aromatic:
            bond_type = Chem.BondType.DOUBLE if index in chosen else Chem.BondType.SINGLE
            result.GetBondWithIdx(index).SetBondType(bond_type)
    return result


class _Step(NamedTuple):
    """Where the search stands. Sets of atoms are the bits of a whole number: thousands of them are cheap to keep."""

    seen: int
    queue: tuple[int, ...]  # seen next
    unmatched: int
    doubles: frozenset[int]


def _first_matching(order: list[int], neighbours: _Neighbours, to_match: int) -> frozenset[int] | None:
    """Pair the atoms ``to_match`` along bonds: breadth-first, each with the first neighbour that leaves a way on."""
    todo = [_Step(0, (), to_match, frozenset())]
    for _ in range(_MOST_STEPS):
        seen, queue, unmatched, doubles = todo.pop()
        if queue:
            atom, queue = queue[0], queue[1:]
        else:
            unseen = (atom for atom in order if not seen >> atom & 1)
            if (atom := next(unseen, -1)) < 0:
                return doubles
        seen |= 1 << atom
        ahead = [(other, bond) for other, bond in neighbours[atom] if not seen >> other & 1]
        queue += tuple(other for other, _ in reversed(ahead) if other not in queue)
        if not unmatched >> atom & 1:
            todo.append(_Step(seen, queue, unmatched, doubles))
            continue
        for other, bond in reversed(ahead):  # the first neighbour is tried first, so it is put on the pile last
            if unmatched >> other & 1:
                todo.append(_Step(seen, queue, unmatched & ~(1 << atom | 1 << other), doubles | {bond}))
        if not todo:
            return None
    return None


def _aromatic_neighbours(mol: Mol, aromatic: list[int]) -> _Neighbours:
    neighbours: _Neighbours = [[] for _ in range(mol.GetNumAtoms())]
    for bond in map(mol.GetBondWithIdx, aromatic):
        begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        neighbours[begin].append((end, bond.GetIdx()))
        neighbours[end].append((begin, bond.GetIdx()))
    return neighbours


def _walk_order(mol: Mol) -> list[int]:
    """Aromatic atoms ring by ring: each ring from its first atom that is not a junction, to the lower neighbour."""
    ring_bonds = [0] * mol.GetNumAtoms()
    for bond in mol.GetBonds():
        if bond.IsInRing():
            ring_bonds[bond.GetBeginAtomIdx()] += 1
            ring_bonds[bond.GetEndAtomIdx()] += 1
    rings = []
    for ring in map(list, mol.GetRingInfo().AtomRings()):
        start = min(range(len(ring)), key=lambda place: (ring_bonds[ring[place]] > 2, ring[place]))
        turned = ring[start:] + ring[:start]
        rings.append(turned if turned[1] < turned[-1] else turned[:1] + turned[:0:-1])
    rings.sort(key=lambda ring: (ring_bonds[ring[0]] > 2, ring[0]))
    return [
        atom
        for atom in dict.fromkeys(atom for ring in rings for atom in ring)
        if mol.GetAtomWithIdx(atom).GetIsAromatic()
    ]


def penalized_logp(smiles: str) -> float:
    """The target y = 0.6976318·logP − 1.1981676·SA − 3.47513914·max(L − 6, 0) + 2.11182998.

    logP is Crippen's octanol–water coefficient, SA the synthetic accessibility of Ertl and Schuffenhauer (1 easy … 10
    hard) and L the longest cycle of networkx' ``cycle_basis``, started at the first atom of the SMILES. A bridged ring
    system has several cycle bases, so there L can depend on how the molecule is written: that is how ZINC defines it.

    Raises:
        MoleculeError: the SMILES cannot be read.
        MissingExtraError: RDKit, or its Contrib folder, is not installed.
    """
    require_rdkit()
    from rdkit.Chem import rdMolDescriptors

    accessibility = _accessibility_score()
    text = screen(smiles)
    with quiet_rdkit(text):
        mol = parse(text)
        logp = rdMolDescriptors.CalcCrippenDescriptors(mol)[0]
        ring = max(_longest_cycle(mol) - 6, 0)
        return float(0.6976318 * logp - 1.1981676 * accessibility(mol) - 3.47513914 * ring + 2.11182998)


def _longest_cycle(mol: Mol) -> int:
    """Atoms in the longest cycle of the basis, 0 without cycles; neighbours are visited in the order of the atoms."""
    import networkx as nx
    from rdkit import Chem

    graph = nx.from_numpy_array(Chem.GetAdjacencyMatrix(mol))
    return max(map(len, nx.cycle_basis(graph, root=0)), default=0)


@cache
def _accessibility_score() -> Callable[[object], float]:
    """RDKit's own script, which is shipped beside the package and not inside it.

    It unpickles its table of fragment scores: a file of the installed RDKit, never one of the user's.
    """
    from rdkit import RDConfig

    script = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    spec = importlib.util.spec_from_file_location("_rdkit_sascorer", script)
    if spec is None or spec.loader is None or not script.is_file():
        raise MissingExtraError(
            f"RDKit's script SA_Score is not there ({script}); install the RDKit that carries it: "
            "pip install 'pointset[chem]'"
        )
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves the file open
        spec.loader.exec_module(module)
        module.readFragmentScores()
    score: Callable[[object], float] = module.calculateScore
    return score
