"""Molecules as graphs: OGB's features, one graph for each molecule however written, positions, lenient reading."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pointset.datasets.molecules import (
    ATOM_COLUMNS,
    BOND_COLUMNS,
    OGB_READER,
    ZINC_ATOM_COLUMNS,
    ZINC_BOND_COLUMNS,
    Column,
    Molecule,
    MoleculeError,
    MoleculeReader,
    Unreadable,
    murcko_scaffold,
    read_many,
)

Chem = pytest.importorskip("rdkit.Chem")
rdkit_base = pytest.importorskip("rdkit.rdBase")

NEEDS_LENIENT = [137, 987, 12882, 18293, 30784, 30785, 35728]  # rows of molhiv


@pytest.fixture(scope="module")
def molhiv(shared_data: Path) -> list[str]:
    with gzip.open(shared_data / "molhiv" / "molhiv.csv.gz", "rt") as file:
        return [row["smiles"] for row in csv.DictReader(file)]


def some(smiles: list[str], number: int, seed: int = 0) -> list[str]:
    return [smiles[i] for i in np.random.default_rng(seed).choice(len(smiles), number, replace=False)]


def assert_same_arrays(one: Molecule, other: Molecule) -> None:
    assert one.smiles == other.smiles
    for a, b in ((one.x, other.x), (one.edges, other.edges), (one.edge_attr, other.edge_attr)):
        assert a.dtype == b.dtype and np.array_equal(a, b)


class TestFeatures:
    def test_known_atom_and_bond(self) -> None:
        molecule = OGB_READER("Cl[C@H](/C=C/C)Br")
        assert molecule.x.shape == (6, 9) and molecule.x.dtype == np.int64
        assert molecule.x[1].tolist() == [5, 2, 4, 5, 1, 0, 2, 0, 0]
        assert molecule.edges.T.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [1, 5]]
        assert molecule.edge_attr[2].tolist() == [1, 2, 0]
        assert molecule.pos is None and molecule.num_nodes == 6

    @pytest.mark.parametrize(
        ("smiles", "row"),
        [
            ("[Fe+10]", [25, 0, 0, 11, 0, 0, 5, 0, 0]),  # a charge without a label is the last one
            ("*", [118, 0, 0, 5, 0, 0, 5, 0, 0]),
            ("[2H]C", [0, 0, 1, 5, 0, 0, 5, 0, 0]),
            ("[CH3]", [5, 0, 3, 5, 3, 1, 2, 0, 0]),
            ("c1cc[nH]c1", [5, 0, 3, 5, 1, 0, 1, 1, 1]),
        ],
    )
    def test_first_atom(self, smiles: str, row: list[int]) -> None:
        assert MoleculeReader()(smiles).x[0].tolist() == row

    @pytest.mark.parametrize(("smiles", "kind"), [("CC", 0), ("C=C", 1), ("C#C", 2), ("c1ccccc1", 3), ("N->[Fe]", 4)])
    def test_bond_type(self, smiles: str, kind: int) -> None:
        assert set(MoleculeReader()(smiles).edge_attr[:, 0]) == {kind}

    def test_without_bonds(self) -> None:
        salt = MoleculeReader()("[Na+].[Cl-]")
        assert salt.num_nodes == 2 and salt.edges.shape == (2, 0) and salt.edge_attr.shape == (0, 3)

    def test_sizes(self) -> None:
        assert [column.size for column in ATOM_COLUMNS] == [119, 5, 12, 12, 10, 6, 6, 2, 2]
        assert [column.size for column in BOND_COLUMNS] == [5, 6, 2]

    def test_labels_name_what_rdkit_says(self, molhiv: list[str]) -> None:
        """The obvious way, with RDKit's own words and no tables, on real molecules."""
        for smiles in some(molhiv, 300):
            molecule = OGB_READER(smiles)
            if (mol := Chem.MolFromSmiles(smiles)) is None:
                continue
            assert molecule.x.tolist() == [_labels_in_words(_atom_answers(a), ATOM_COLUMNS) for a in mol.GetAtoms()]
            bonds = [_labels_in_words(_bond_answers(b), BOND_COLUMNS) for b in mol.GetBonds()]
            assert molecule.edge_attr.tolist() == bonds
            ends = [[b.GetBeginAtomIdx(), b.GetEndAtomIdx()] for b in mol.GetBonds()]
            assert molecule.edges.T.tolist() == ends

    def test_page_describes_every_column(self) -> None:
        page = (Path(__file__).parents[1] / "docs" / "molecules.md").read_text(encoding="utf-8")
        for columns in (ATOM_COLUMNS, BOND_COLUMNS, ZINC_ATOM_COLUMNS, ZINC_BOND_COLUMNS):
            for place, column in enumerate(columns):
                row = f"{place} | `{column.name}` | {column.size} | {column.values} | {column.meaning} |"
                assert row in page, f"docs/molecules.md lacks: {row}"


def _atom_answers(atom: Any) -> list[object]:
    return [
        atom.GetAtomicNum(),
        atom.GetChiralTag(),
        atom.GetTotalDegree(),
        atom.GetFormalCharge(),
        atom.GetTotalNumHs(),
        atom.GetNumRadicalElectrons(),
        atom.GetHybridization(),
        atom.GetIsAromatic(),
        atom.IsInRing(),
    ]


def _bond_answers(bond: Any) -> list[object]:
    return [bond.GetBondType(), bond.GetStereo(), bond.GetIsConjugated()]


def _labels_in_words(answers: list[object], columns: tuple[Column, ...]) -> list[int]:
    found = zip(map(str, answers), columns, strict=True)
    return [column.labels.index(word) if word in column.labels else column.size - 1 for word, column in found]


class TestOneGraphForEachMolecule:
    def test_real_molecules_written_anew(self, molhiv: list[str]) -> None:
        read = MoleculeReader()
        for seed, smiles in enumerate(some(molhiv, 300, seed=1)):
            with rdkit_base.BlockLogs():
                mol = Chem.MolFromSmiles(smiles)
            if mol is None:
                continue
            expected = read(smiles)
            for writing in writings(mol, seed):
                assert_same_arrays(read(writing), expected)

    @pytest.mark.parametrize(
        "same",
        [
            ["CCO", "OCC", "C(O)C", "[CH3][CH2][OH]", "[H]OCC", "[CH3:3][CH2:1][OH:2]", " CCO\n"],
            ["c1ccccc1C", "CC1=CC=CC=C1", "C1=CC(C)=CC=C1"],
            ["N[C@@H](C)C(=O)O", "C[C@H](N)C(O)=O", "OC(=O)[C@H](C)N"],
            ["F/C=C/F", "F\\C=C\\F", "C(\\F)=C/F"],
            ["C[N+](=O)[O-]", "CN(=O)=O"],
            ["[Na+].[Cl-]", "[Cl-].[Na+]"],
            ["C1CC1.C%12CC%12", "C1CC1.C1CC1"],
        ],
        ids=["ethanol", "toluene", "alanine", "alkene", "nitro", "salt", "ring-numbers"],
    )
    def test_writings(self, same: list[str]) -> None:
        read = MoleculeReader(hydrogens=True)
        for smiles in same[1:]:
            assert_same_arrays(read(smiles), read(same[0]))

    @pytest.mark.parametrize(
        ("mapped", "plain"),
        [
            ("[CH3:1][OH:2]", "CO"),
            ("[OH:7][CH3:0]", "CO"),
            ("[CH3:3][C@H:2]([CH3:1])[OH:4]", "CC(C)O"),  # only maps would make it chiral
            ("[CH3:1]/[CH:2]=[C:3](/[CH3:4])[CH3:5]", "CC=C(C)C"),
            ("[H:1][C@:2]([CH3:3])([F:4])[Cl:5]", "[H][C@](C)(F)Cl"),
            ("[H:1][O:2][H:3]", "O"),
            ("[*:1]C[*:2]", "*C*"),
            ("[cH:1]1:[cH:2]:c:c:c:c:1[O-:12345]", "c1ccccc1[O-]"),
            ("[13CH3:1][NH3+:2].[Cl-:3]", "[13CH3][NH3+].[Cl-]"),
        ],
    )
    def test_atom_maps_are_labels(self, mapped: str, plain: str) -> None:
        for reader in (MoleculeReader(), MoleculeReader(hydrogens=True), MoleculeReader(lenient=True)):
            assert_same_arrays(reader(mapped), reader(plain))
        assert MoleculeReader()(mapped).smiles == MoleculeReader()(plain).smiles

    def test_atom_maps_of_any_molecule(self, molhiv: list[str]) -> None:
        read = MoleculeReader(lenient=True)
        for seed, smiles in enumerate(some(molhiv, 50, seed=5)):
            with rdkit_base.BlockLogs():
                mol = Chem.MolFromSmiles(smiles)
            numbers = np.random.default_rng(seed).integers(0, 300, mol.GetNumAtoms()).tolist()
            for atom, number in zip(mol.GetAtoms(), numbers, strict=True):
                atom.SetAtomMapNum(number)
            assert_same_arrays(read(Chem.MolToSmiles(mol)), read(smiles))

    def test_mirror_images_differ(self) -> None:
        left, right = map(MoleculeReader(), ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"])
        assert not np.array_equal(left.x, right.x)

    def test_as_written(self) -> None:
        molecule = MoleculeReader(canonical=False)("OCC")
        assert molecule.smiles == "OCC" and molecule.x[:, 0].tolist() == [7, 5, 5]
        assert MoleculeReader()("OCC").x[:, 0].tolist() == [5, 5, 7]

    def test_scaffold_of_any_writing(self, molhiv: list[str]) -> None:
        for seed, smiles in enumerate(some(molhiv, 50, seed=2)):
            with rdkit_base.BlockLogs():
                mol = Chem.MolFromSmiles(smiles)
            assert len({murcko_scaffold(writing) for writing in [smiles, *writings(mol, seed)]}) == 1


def writings(mol: Any, seed: int) -> list[str]:
    """Random atom orders, a Kekulé form and explicit hydrogens, each without help from the canonical order."""
    kekule = Chem.Mol(mol)
    Chem.Kekulize(kekule, clearAromaticFlags=True)
    with_hydrogens = Chem.AddHs(mol)
    return [
        *Chem.MolToRandomSmilesVect(mol, 2, randomSeed=seed + 1),
        *Chem.MolToRandomSmilesVect(kekule, 1, randomSeed=seed + 1, kekuleSmiles=True),
        *Chem.MolToRandomSmilesVect(with_hydrogens, 1, randomSeed=seed + 1),
        Chem.MolToSmiles(mol, canonical=False, allHsExplicit=True),
    ]


class TestHydrogensAndPositions:
    def test_hydrogens_come_last(self) -> None:
        ethanol = MoleculeReader(hydrogens=True)("OCC")
        assert ethanol.x[:, 0].tolist() == [5, 5, 7, 0, 0, 0, 0, 0, 0]
        assert ethanol.edges.shape == (2, 8) and not ethanol.x[:, 4].any()

    def test_positions_of_the_same_seed_are_equal(self) -> None:
        one, two = (MoleculeReader(conformer_seed=3)(smiles) for smiles in ("OCC", "CCO"))
        assert one.pos is not None and two.pos is not None and one.pos.dtype == np.float64
        assert one.pos.shape == (3, 3) and np.array_equal(one.pos, two.pos)

    def test_positions_of_other_seeds_differ(self) -> None:
        positions = [_positions(MoleculeReader(conformer_seed=seed)("CCCCO")) for seed in (0, 1, 2)]
        assert not np.array_equal(positions[0], positions[1])
        assert not np.array_equal(positions[1], positions[2])

    def test_positions_are_chemistry(self) -> None:
        benzene = MoleculeReader(conformer_seed=0, hydrogens=True)("c1ccccc1")
        lengths = np.linalg.norm(np.diff(_positions(benzene)[benzene.edges], axis=0)[0], axis=1)
        carbons = benzene.x[benzene.edges, 0].min(axis=0) == 5
        assert np.allclose(lengths[carbons], 1.39, atol=0.03)
        assert np.allclose(lengths[~carbons], 1.09, atol=0.03)

    def test_hydrogens_do_not_move_the_rest(self) -> None:
        with_hydrogens, without = (MoleculeReader(hydrogens=h, conformer_seed=0)("CCO") for h in (True, False))
        assert np.array_equal(_positions(with_hydrogens)[:3], _positions(without))

    def test_fragments_and_ions(self) -> None:
        assert _positions(MoleculeReader(conformer_seed=0)("[Na+].[Cl-]")).shape == (2, 3)

    def test_impossible_in_space(self) -> None:
        with pytest.raises(MoleculeError, match="no positions in space"):
            MoleculeReader(conformer_seed=0)("C1#CC1")

    def test_too_large_to_embed(self) -> None:
        with pytest.raises(MoleculeError, match="at most 400"):
            MoleculeReader(conformer_seed=0)("C" * 200)

    @pytest.mark.parametrize("seed", [-1, 2**31 - 1, True, 0.5, "0"])
    def test_bad_seed(self, seed: Any) -> None:
        with pytest.raises(MoleculeError, match="conformer_seed"):
            MoleculeReader(conformer_seed=seed)


def _positions(molecule: Molecule) -> npt.NDArray[np.float64]:
    assert molecule.pos is not None
    return molecule.pos


class TestLenient:
    def test_molhiv_rows_that_need_it(self, molhiv: list[str]) -> None:
        for row in NEEDS_LENIENT:
            with pytest.raises(MoleculeError, match="lenient=True"):
                MoleculeReader()(molhiv[row])
            molecule = MoleculeReader(lenient=True)(molhiv[row])
            assert molecule.x[:, 8].any(), "ring information is there"
            assert_same_arrays(MoleculeReader(lenient=True)(molecule.smiles), molecule)

    def test_valence_too_high(self) -> None:
        """As RDKit 2022.09, which let six bonds on Al pass: SP3D, no hydrogen, no radical."""
        molecule = OGB_READER("O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3")
        assert molecule.x[3].tolist() == [12, 0, 6, 5, 0, 0, 3, 0, 1]

    def test_impossible_ring_stays_aromatic(self) -> None:
        molecule = MoleculeReader(lenient=True)("c1cccc1")
        assert molecule.x[:, [4, 7, 8]].tolist() == [[1, 1, 1]] * 5 and set(molecule.edge_attr[:, 0]) == {3}

    def test_syntax_is_still_checked(self) -> None:
        with pytest.raises(MoleculeError, match="unclosed ring"):
            MoleculeReader(lenient=True)("C1CC")

    @pytest.mark.slow
    def test_all_of_molhiv(self, molhiv: list[str]) -> None:
        molecules = read_many(molhiv, OGB_READER)
        read = [molecule for molecule in molecules if not isinstance(molecule, Unreadable)]
        assert len(read) == 41_127
        assert round(np.mean([molecule.num_nodes for molecule in read]), 2) == 25.51
        assert round(np.mean([molecule.edges.shape[1] for molecule in read]), 2) == 27.47


class TestScaffold:
    @pytest.mark.parametrize(
        ("smiles", "scaffold"),
        [
            ("CCO", ""),
            ("not a molecule", ""),
            ("Cc1ccccc1", "c1ccccc1"),
            ("C[C@H]1CCCN1CC(=O)c1ccccc1", "O=C(CN1CCCC1)c1ccccc1"),
            ("c1ccccc1.C1CC1C", "C1CC1.c1ccccc1"),
        ],
    )
    def test_known(self, smiles: str, scaffold: str) -> None:
        assert murcko_scaffold(smiles) == scaffold


def test_import_is_light() -> None:
    code = "import sys, pointset.datasets.molecules; sys.exit(bool({'torch', 'rdkit', 'networkx'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
