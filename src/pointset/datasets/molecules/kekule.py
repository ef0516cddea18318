"""Which bonds of an aromatic ring are the double ones: one fixed answer, the one that ZINC's graphs were made with.

A benzene ring with unlike substituents has two Kekulé forms, and they are different graphs once bond types are edge
features. RDKit changed its choice in 2026.03; ZINC's graphs have the choice of the RDKits before. Here the choice is a
function of the order of atoms and bonds alone, so a model trained on ZINC meets the forms that it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rdkit.Chem import Mol

_MOST_STEPS = 100_000  # of the search; beyond them RDKit's own form stays
_Neighbours = list[list[tuple[int, int]]]  # for each atom: (neighbour, bond), in the order of the bonds


def kekulise(mol: Mol) -> Mol:
    """A copy without aromatic bonds: each of them single or double, such that every valence holds."""
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
            kind = Chem.BondType.DOUBLE if index in chosen else Chem.BondType.SINGLE
            result.GetBondWithIdx(index).SetBondType(kind)
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
    """Aromatic atoms ring by ring: each ring from its first atom that is no junction, towards the lower neighbour."""
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
