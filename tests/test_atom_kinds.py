"""Molecules read many at a time: the arrays and descriptors of one by one, and those of the second reading."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pointset.arrays import Integers
from pointset.datasets.molecules import Molecule, MoleculeError, MoleculeReader, Unreadable, atom_kinds, crippen
from pointset.datasets.molecules.features import featurise
from pointset.datasets.molecules.parsing import Reading, canonical, canonical_reading, finished, parse

Chem = pytest.importorskip("rdkit.Chem")
rdkit_base = pytest.importorskip("rdkit.rdBase")

FULL = MoleculeReader(descriptors="morgan+rdkit", fingerprint=True)
ODD = {
    "one atom": "C",
    "nothing but hydrogen": "[H][H]",
    "deuterium": "[2H]OC([2H])C",
    "isotope": "[13CH3]c1ccccc1",
    "salt": "CC(=O)[O-].[Na+]",
    "fragments": "CCO.c1ccccc1.O",
    "nitro": "CN(=O)=O",
    "zwitterion": "[NH3+]CC(=O)[O-]",
    "charges in conjugation": "COc1cccc(NC2=[NH+]C(N)=[NH+]C3(CCCCC3)N2)c1",
    "radical": "C[CH]C",
    "carbene": "C[C]C",
    "metal": "[Fe+2].[cH-]1cccc1.[cH-]1cccc1",
    "bound metal": "Cl[Pt](Cl)(N)N",
    "sixteen bonds": "[U]" + "(F)" * 15 + "F",
    "dative bond": "N->[Cu]",
    "wildcard": "*CC*",
    "quadruple bond": "[Re]$[Re]",
    "tetrahedral": "C[C@H](N)C(=O)O",
    "ring stereo": "C[C@H]1CC[C@@H](O)CC1",
    "double bond": "C/C=C/C=C\\Cl",
    "allene": "CC=C=CC",
    "square planar": "C[Pt@SP1](F)(Cl)Br",
    "pyrrole": "c1cc[nH]c1",
    "pyrroles": "c1cc2[nH]ccc2[nH]1",
    "oxide": "C[n+]1ccccc1[O-]",
    "hypervalent": "FS(F)(F)(F)(F)F",
    "phosphate": "CP(=O)(O)OC",
    "boron": "OB(O)c1ccccc1",
    "selenium": "c1cc[se]c1",
    "silicon": "C[Si](C)(C)C",
    "oxonium": "CC[O+](CC)CC",
    "carbonyls": "O=CC(=O)C(=O)c1ccccc1C(=O)NC(=S)OC(=O)Cl",
    "carbon dioxide": "O=C=O",
    "azide": "CN=[N+]=[N-]",
    "isonitrile": "C[N+]#[C-]",
    "sulfoxide": "CS(=O)C",
    "thiophene": "c1ccsc1",
    "peroxide": "COOC",
    "cubane": "C12C3C4C1C5C2C3C45",
    "bridged": "C1CC2CCC1C2",
    "spiro": "C1CCC2(CC1)CCCC2",
    "porphine": "C1=CC2=CC3=CC=C(N3)C=C4C=CC(=N4)C=C5C=CC(=CC1=N2)N5",
    "azulene": "C1=CC2=CC=CC=CC2=C1",
    "mapped": "[CH3:1][OH:2]",
    "not a molecule": "C1CC",
    "impossible": "C(C)(C)(C)(C)C",
    "empty": "",
}


def real(folder: Path, number: int) -> list[str]:
    """Of six sets of drugs, solvents, salts and toxins."""
    found: list[str] = []
    for name in ("lipo.csv", "sider.csv", "clintox.csv", "tox21.csv", "bbbp.csv", "aqsoldb.csv.gz"):
        path = folder / "molecules" / name
        with gzip.open(path, "rt") if name.endswith("gz") else path.open() as file:
            smiles = [row.get("smiles") or row.get("SMILES") or "" for row in csv.DictReader(file)]
        found += [smiles[at] for at in np.random.default_rng(7).choice(len(smiles), number, replace=False)]
    return found


def assert_equal(one: Molecule, other: Molecule) -> None:
    assert one.smiles == other.smiles
    for name in ("x", "edges", "edge_attr", "descriptors", "fingerprint"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, one.smiles
        np.testing.assert_array_equal(a, b, err_msg=f"{one.smiles} {name}")


def by_atoms(edges: Integers, edge_attr: Integers) -> list[tuple[int, ...]]:
    return sorted((min(a, b), max(a, b), *row) for a, b, row in zip(*edges.tolist(), edge_attr.tolist(), strict=True))


def assert_as_one_by_one(smiles: list[str]) -> None:
    for text, found in zip(smiles, FULL.read_all(smiles), strict=True):
        if isinstance(found, Unreadable):
            with pytest.raises(MoleculeError) as raised:
                FULL(text)
            assert found.reason == str(raised.value)
        else:
            assert_equal(found, FULL(text))


def test_many_odd_molecules_are_read_as_one_by_one() -> None:
    assert_as_one_by_one(list(ODD.values()))
    assert_as_one_by_one(list(ODD.values())[::-1])  # whichever atom of a kind is met first


def test_many_real_molecules_are_read_as_one_by_one(shared_data: Path) -> None:
    assert_as_one_by_one(real(shared_data, 60))


@pytest.mark.parametrize(
    "read", [MoleculeReader(canonical=False), MoleculeReader(lenient=True), MoleculeReader(hydrogens=True)]
)
def test_other_readers_too(read: MoleculeReader) -> None:
    for text, found in zip(ODD.values(), read.read_all(list(ODD.values())), strict=True):
        if isinstance(found, Molecule):
            np.testing.assert_array_equal(found.x, read(text).x)
            np.testing.assert_array_equal(found.edges, read(text).edges)


def test_kinds_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atom_kinds, "_MOST_KEPT", 3)
    monkeypatch.setattr(crippen, "_MOST_KEPT", 3)
    for _ in range(2):
        assert_as_one_by_one(list(ODD.values()))
    assert len(atom_kinds._atom_kinds()._number) < 200


def assert_as_read_again(text: str) -> bool:
    """The arrays of a molecule that is put in order are those of the second reading; whether it was put in order."""
    with rdkit_base.BlockLogs():
        reading = finished(canonical_reading(parse(text), text))
        again = Reading(*canonical(parse(text), text))
        one, other = featurise(reading), featurise(again)
    assert one.smiles == other.smiles
    np.testing.assert_array_equal(one.x, other.x)
    assert by_atoms(one.edges, one.edge_attr) == by_atoms(other.edges, other.edge_attr)
    return reading.order is not None


@pytest.mark.parametrize("name", [name for name in ODD if name not in ("not a molecule", "impossible", "empty")])
def test_odd_molecules_have_the_arrays_of_the_second_reading(name: str) -> None:
    assert_as_read_again(ODD[name])


def test_only_plain_molecules_are_not_read_again() -> None:
    plain = {name for name in ODD if name not in ("not a molecule", "impossible", "empty") and in_order(ODD[name])}
    assert {"one atom", "fragments", "pyrrole", "carbonyls", "spiro", "mapped"} <= plain
    assert not plain & {"tetrahedral", "double bond", "salt", "nitro", "isotope", "radical", "cubane", "dative bond"}


def in_order(text: str) -> bool:
    with rdkit_base.BlockLogs():
        return finished(canonical_reading(parse(text), text)).order is not None


def test_all_writings_of_real_molecules_have_the_same_bits(shared_data: Path) -> None:
    """Descriptors and fingerprints among them, and what is read one by one as what is read with others."""
    written: list[str] = []
    groups = []
    for seed, smiles in enumerate(real(shared_data, 40)):
        with rdkit_base.BlockLogs():
            mol = Chem.MolFromSmiles(smiles)
            if mol is not None:
                some = [smiles, *writings(mol, seed)]
                groups.append(range(len(written), len(written) + len(some)))
                written += some
    found = FULL.read_all(written)
    in_order_count = 0
    for group in groups:
        first = found[group[0]]
        assert isinstance(first, Molecule)
        for at in group:
            other = found[at]
            assert isinstance(other, Molecule), written[at]
            assert_equal(other, first)
        in_order_count += assert_as_read_again(written[group[-1]])
    assert in_order_count > len(groups) // 3  # both ways are met


def writings(mol: Any, seed: int) -> list[str]:
    """A random order, a Kekulé form, and all hydrogens written."""
    kekule = Chem.Mol(mol)
    Chem.Kekulize(kekule, clearAromaticFlags=True)
    return [
        *Chem.MolToRandomSmilesVect(mol, 1, randomSeed=seed + 1),
        *Chem.MolToRandomSmilesVect(kekule, 1, randomSeed=seed + 1, kekuleSmiles=True),
        *Chem.MolToRandomSmilesVect(Chem.AddHs(mol), 1, randomSeed=seed + 1),
    ]
