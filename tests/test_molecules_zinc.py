"""ZINC's own features and its target, against the published graphs and values."""

from __future__ import annotations

import csv
import gzip
import operator
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt
import pytest

from pointset.datasets.molecules import ZINC_ATOM_COLUMNS, Molecule, MoleculeError, read_zinc_molecule
from pointset.datasets.molecules.descriptors import morgan_matrix
from pointset.datasets.molecules.zinc import penalized_logp, zinc_smiles

pytest.importorskip("rdkit")

SAMPLE = 1_000


class Published(NamedTuple):
    smiles: str
    y: float
    atom_type: npt.NDArray[np.int64]  # (n,)
    edges: npt.NDArray[np.int64]  # (m, 2)
    bond_type: npt.NDArray[np.int64]  # (m,)


@pytest.fixture(scope="module")
def zinc(shared_data: Path) -> list[Published]:
    """Some of ZINC-12k; the rows of both files are in the same order."""
    with gzip.open(shared_data / "zinc" / "zinc12k.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    with np.load(shared_data / "zinc" / "zinc12k.npz") as arrays:
        assert tuple(arrays["atom_vocab"].tolist()) == ZINC_ATOM_COLUMNS[0].labels
        atoms = np.split(arrays["atom_type"].astype(np.int64), np.cumsum(arrays["num_nodes"], dtype=np.int64)[:-1])
        ends = np.cumsum(arrays["num_edges"], dtype=np.int64)[:-1]
        edges = np.split(arrays["edges"].astype(np.int64), ends)
        bonds = np.split(arrays["bond_type"].astype(np.int64), ends)
        targets = arrays["y"].tolist()
    chosen = np.random.default_rng(0).choice(len(rows), SAMPLE, replace=False)
    return [Published(rows[i]["smiles"], targets[i], atoms[i], edges[i], bonds[i]) for i in chosen]


class TestPublishedGraphs:
    def test_same_graph(self, zinc: list[Published]) -> None:
        other_forms = 0
        for published in zinc:
            ours, theirs = as_networkx(read_zinc_molecule(published.smiles)), as_published(published)
            if nx.is_isomorphic(ours, theirs, node_match=operator.eq, edge_match=operator.eq):
                continue
            other_forms += 1
            assert nx.is_isomorphic(ours, theirs, node_match=operator.eq), published.smiles
            assert sorted(nx.get_edge_attributes(ours, "type").values()) == sorted(published.bond_type.tolist())
        assert other_forms <= 0.005 * SAMPLE, "another Kekulé form of the same molecule: 13 in all 12,000"

    def test_target(self, zinc: list[Published]) -> None:
        assert max(abs(penalized_logp(published.smiles) - published.y) for published in zinc) < 1e-5

    def test_its_smiles_has_the_same_fingerprint(self, zinc: list[Published]) -> None:
        written = [
            zinc_smiles(one.atom_type.tolist(), one.edges.tolist(), one.bond_type.tolist()) for one in zinc[:200]
        ]
        ours, theirs = (
            morgan_matrix(smiles, progress=False) for smiles in (written, [one.smiles for one in zinc[:200]])
        )
        assert np.array_equal(ours, theirs)


def as_networkx(molecule: Molecule) -> nx.Graph[int]:
    return _graph(molecule.x[:, 0], molecule.edges.T, molecule.edge_attr[:, 0])


def as_published(published: Published) -> nx.Graph[int]:
    return _graph(published.atom_type, published.edges, published.bond_type)


def _graph(atoms: npt.NDArray[np.int64], edges: npt.NDArray[np.int64], bonds: npt.NDArray[np.int64]) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from((node, {"type": kind}) for node, kind in enumerate(atoms.tolist()))
    for (u, v), kind in zip(edges.tolist(), bonds.tolist(), strict=True):
        graph.add_edge(u, v, type=kind)
    return graph


class TestSmilesOfGraphs:
    @pytest.mark.parametrize("smiles", ["C[NH2+]CC#N", "O=C([O-])c1c[nH]c2ccccc12", "CP(C)=S", "CS(=O)(=O)N"])
    def test_there_and_back(self, smiles: str) -> None:
        one = read_zinc_molecule(smiles)
        assert zinc_smiles(one.x[:, 0].tolist(), one.edges.T.tolist(), one.edge_attr[:, 0].tolist()) == one.smiles

    def test_what_is_not_a_molecule(self) -> None:
        with pytest.raises(MoleculeError, match="a graph of 2 atoms is not a molecule"):
            zinc_smiles([9, 9], [[0, 1]], [3])  # bromine with three bonds


class TestFeatures:
    def test_shapes_and_types(self) -> None:
        molecule = read_zinc_molecule("C[C@H](F)C#N")
        labels = [ZINC_ATOM_COLUMNS[0].labels[kind] for kind in molecule.x[:, 0]]
        assert molecule.smiles == "C[C@H](F)C#N" and labels == ["C", "C H1", "F", "C", "N"]
        assert molecule.edge_attr.tolist() == [[1], [1], [1], [3]]
        assert molecule.x.dtype == molecule.edge_attr.dtype == np.int64 and molecule.pos is None

    def test_hydrogen_of_pyrrole_is_not_named(self) -> None:
        molecule = read_zinc_molecule("[nH]1cccc1")
        assert set(molecule.x[:, 0]) == {0, 2} and sorted(molecule.edge_attr[:, 0]) == [1, 1, 1, 2, 2]

    @pytest.mark.parametrize("smiles", ["Cc1cccc2sc(N)nc12", "CC1=CC=CC2=C1N=C(N)S2", "Nc1nc2c(s1)cccc2C"])
    def test_one_kekule_form_for_all_writings(self, smiles: str) -> None:
        molecule = read_zinc_molecule(smiles)
        assert molecule.edge_attr[:, 0].tolist() == read_zinc_molecule("Cc1cccc2sc(N)nc12").edge_attr[:, 0].tolist()

    @pytest.mark.parametrize(
        "smiles",
        [
            "c1ccccc1",
            "c1ccc2ccccc2c1",
            "c1cc2ccc3cccc4ccc(c1)c2c34",
            "c1ccc2cccc-2cc1",
            "c1ccc2[nH]ccc2c1",
            "Cn1cnc2c1c(=O)[nH]c(=O)n2C",
        ],
        ids=["benzene", "naphthalene", "pyrene", "azulene", "indole", "purine"],
    )
    def test_valences_hold(self, smiles: str) -> None:
        """No atom has more bonds than its element allows, and no two double bonds meet at a ring atom."""
        molecule = read_zinc_molecule(smiles)
        valence = {0: 4, 1: 2, 2: 3}  # C, O, N
        for atom, kind in enumerate(molecule.x[:, 0].tolist()):
            types = molecule.edge_attr[(molecule.edges == atom).any(axis=0), 0].tolist()
            assert sum(types) <= valence[kind] and types.count(2) <= 1

    @pytest.mark.parametrize(
        ("smiles", "atom"),
        [("[SiH4]", "Si H4"), ("[Na+].[Cl-]", "Cl -"), ("[Ca+2]", r"Ca \+2"), ("[2H]C", "H"), ("*C", r"\*")],
    )
    def test_unknown_atom(self, smiles: str, atom: str) -> None:
        with pytest.raises(MoleculeError, match=rf"an atom of type '{atom}' .*expected one of: C, O, N, F, C H1"):
            read_zinc_molecule(smiles)

    def test_unknown_bond(self) -> None:
        with pytest.raises(MoleculeError, match="a bond of type QUADRUPLE"):
            read_zinc_molecule("C$C")


class TestPenalizedLogP:
    def test_large_ring_costs(self) -> None:
        """Cyclooctane against cyclohexane: two atoms beyond six, 3.475 each, is most of the difference."""
        assert -9 < penalized_logp("C1CCCCCCC1") - penalized_logp("C1CCCCC1") < -6

    def test_unreadable(self) -> None:
        with pytest.raises(MoleculeError, match="unclosed ring"):
            penalized_logp("C1CC")
