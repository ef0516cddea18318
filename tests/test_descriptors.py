"""Descriptors and fingerprints of molecules, and how they travel with a graph into a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import pointset
from pointset.errors import GraphError, PointsetError
from pointset.prediction.predictor import Predictor

pytest.importorskip("rdkit")

from pointset.datasets.molecules.descriptors import (
    FINGERPRINT_BYTES,
    MORGAN_BITS,
    descriptor_matrix,
    descriptor_names,
    morgan_matrix,
    packed,
)
from pointset.datasets.molecules.reader import MoleculeReader


def test_morgan_counts_are_rdkits() -> None:
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=MORGAN_BITS)
    smiles = ["CCO", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O"]
    expected = [generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(one)) for one in smiles]
    np.testing.assert_array_equal(morgan_matrix(smiles), expected)


def test_all_writings_of_a_molecule_have_the_same_bits() -> None:
    one, other = descriptor_matrix(["OC(=O)c1ccccc1OC(C)=O", "CC(=O)Oc1ccccc1C(=O)O"], "morgan+rdkit")
    np.testing.assert_array_equal(one, other)


def test_a_reader_gives_what_the_matrices_hold() -> None:
    smiles = "CC(=O)Nc1ccc(O)cc1"
    read = MoleculeReader(descriptors="rdkit", fingerprint=True)(smiles)
    np.testing.assert_array_equal(read.descriptors, descriptor_matrix([smiles], "rdkit")[0])
    np.testing.assert_array_equal(read.fingerprint, packed(morgan_matrix([smiles]))[0])
    assert read.fingerprint is not None and read.fingerprint.shape == (FINGERPRINT_BYTES,)


def test_names_belong_to_the_numbers() -> None:
    by_name = dict(zip(descriptor_names("rdkit"), descriptor_matrix(["CCO"], "rdkit")[0].tolist(), strict=True))
    assert by_name["MolWt"] == pytest.approx(46.069)
    assert by_name["TPSA"] == pytest.approx(20.23)
    assert by_name["MQN1"] == 2  # carbons
    assert len(descriptor_names("morgan+rdkit")) == MORGAN_BITS + len(by_name)


def test_unreadable_molecules_are_zeros_or_missing() -> None:
    assert not morgan_matrix(["not a molecule"]).any()
    assert np.isnan(descriptor_matrix(["not a molecule"], "rdkit")).all()
    assert morgan_matrix([]).shape == (0, MORGAN_BITS)


def test_a_metal_has_no_infinite_descriptors() -> None:
    numbers = descriptor_matrix(["[Na+].[Cl-]", "[Fe]"], "rdkit")
    assert not np.isinf(numbers).any()


def test_unknown_descriptors_are_refused() -> None:
    with pytest.raises(PointsetError, match=r"'morgn'.*did you mean 'morgan'"):
        MoleculeReader(descriptors="morgn")


def test_numbers_of_a_graph_travel_into_the_batch_in_input_order() -> None:
    from torch_geometric.data import Data

    graphs = [
        Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=n, descriptors=torch.tensor([[float(n), 1.0]]))
        for n in (5, 2, 3)
    ]
    points = pointset.to_points_many(graphs)
    expected = torch.tensor([[5.0, 1], [2, 1], [3, 1]])
    torch.testing.assert_close(pointset.collate(list(points)).descriptors, expected)
    (batch,) = pointset.PointLoader(points, batch_size=3)
    torch.testing.assert_close(batch.descriptors, expected)
    (shuffled,) = pointset.PointLoader(points, batch_size=2, indices=[2, 0])
    torch.testing.assert_close(shuffled.descriptors, expected[[2, 0]])


def test_descriptors_on_some_graphs_only_are_refused() -> None:
    from torch_geometric.data import Data

    pair = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(edge_index=pair, num_nodes=2, descriptors=torch.ones(1, 2)), Data(edge_index=pair, num_nodes=2)]
    with pytest.raises(GraphError, match="descriptors is there on some graphs and missing on others"):
        pointset.collate(list(pointset.to_points_many(graphs)))


SMILES = ["CCO", "c1ccccc1O", "CCN", "CC(=O)O", "CCCC", "OCCO", "c1ccncc1", "CCCl", "CC#N", "CCS", "COC", "C1CCCC1"]


def trained(folder: Path, descriptors: str | None) -> Predictor:
    """A tiny model of the number of carbons."""
    table = folder / "molecules.csv"
    parts = ["train"] * 8 + ["val"] * 2 + ["test"] * 2
    rows = [f"{one},{one.upper().count('C')},{part}" for one, part in zip(SMILES, parts, strict=True)]
    table.write_text("\n".join(["smiles,carbons,split", *rows]))
    from pointset.runs.recipe_files import read_recipe

    words = [f"dataset.file={table}", "trainer.epochs=2", "model.dim=8", "model.layers=1"]
    words += [f"model.descriptors={'null' if descriptors is None else descriptors}"]
    recipe = read_recipe("molecules", words)
    pointset.train(recipe, folder / "run", device="cpu", watch="quiet")
    return pointset.load(folder / "run")


@pytest.mark.parametrize("descriptors", ["morgan", "rdkit", "morgan+rdkit"])
def test_a_model_with_descriptors_predicts_from_smiles_alone(tmp_path: Path, descriptors: str) -> None:
    model = trained(tmp_path, descriptors)
    together = model.predict([*SMILES, "OCC"])
    assert torch.isfinite(together).all()
    torch.testing.assert_close(together[0], together[-1], rtol=0, atol=0)  # another writing of the same molecule
    torch.testing.assert_close(model.predict("CCO")[0], together[0], rtol=1e-5, atol=1e-5)
    assert model.embed(SMILES).shape == (len(SMILES), 16)


def test_descriptors_change_the_prediction_and_graphs_must_bring_them(tmp_path: Path) -> None:
    from pointset.datasets.own import smiles_csv
    from pointset.training.data import with_descriptors

    model = trained(tmp_path, "rdkit")
    dataset = smiles_csv(tmp_path / "molecules.csv", targets="carbons")
    bare = dataset.graphs[0]
    with pytest.raises(PointsetError, match=r"takes 87 descriptors of the whole graph, and the graph has none"):
        model.predict([bare])
    described = with_descriptors(dataset, "rdkit").graphs[0]
    torch.testing.assert_close(model.predict([described])[0], model.predict(SMILES)[0], rtol=1e-5, atol=1e-5)
    other = described.clone()
    other.descriptors = described.descriptors + 3
    assert not torch.equal(model.predict([other]), model.predict([described]))
    other.descriptors = torch.full_like(described.descriptors, torch.nan)  # unknown: the mean of the training part
    assert torch.isfinite(model.predict([other])).all()


def test_descriptors_are_for_molecules(tmp_path: Path) -> None:
    import dataclasses

    from pointset.datasets.own import smiles_csv
    from pointset.training.data import with_descriptors

    (tmp_path / "molecules.csv").write_text("smiles,y\nCCO,1.5\nCCC,2.5\n")
    dataset = dataclasses.replace(smiles_csv(tmp_path / "molecules.csv"), smiles=None)
    with pytest.raises(PointsetError, match="has no molecules"):
        with_descriptors(dataset, "rdkit")


def test_scales_are_fitted_to_the_training_part() -> None:
    from pointset.encoders.layers import DescriptorInput

    part = DescriptorInput(4, 4)
    x = torch.tensor([[0.0, 5.0, 1.0, 0], [0.0, 5.0, 10.0, 0], [0.0, 5.0, 100.0, 3], [2.0, 5.0, torch.nan, 1]])
    part.fit(x, torch.tensor([False, False, False, True]))
    assert part.scale[0] == 0 and part.scale[1] == 0  # one number that differs, and a constant
    assert part.scale[3] == 1 and part.mean[3] == 0  # counts stay as they are
    logs = torch.tensor([1.0, 10.0, 100.0]).log1p()
    torch.testing.assert_close(part.mean[2], logs.mean())
    torch.testing.assert_close(part.scale[2], 1 / logs.std(correction=0))
    unknown, mean = torch.tensor([[0.0, 5, torch.nan, 2]]), torch.tensor([[0.0, 5, float(logs.mean().expm1()), 2]])
    torch.testing.assert_close(part(unknown), part(mean))


def test_dropout_is_drawn_from_the_generator_and_only_in_training() -> None:
    import networkx as nx

    model = pointset.PointModel.from_preset("pst-fast", out=2, dim=8, layers=1, dropout=0.5)
    batch = pointset.collate([pointset.to_points(nx.cycle_graph(n), matrix=model.matrix) for n in (3, 5, 4)])

    def outputs(seed: int) -> torch.Tensor:
        rows: torch.Tensor = model(batch, generator=torch.Generator().manual_seed(seed))
        return rows.detach()

    model.train()
    torch.testing.assert_close(outputs(1), outputs(1), rtol=0, atol=0)
    assert not torch.equal(outputs(1), outputs(2))
    with pointset.torch_path():
        torch.testing.assert_close(outputs(1), outputs(1), rtol=0, atol=0)
    means = torch.stack([outputs(seed) for seed in range(400)]).mean(0)
    model.eval()
    torch.testing.assert_close(means, outputs(1), rtol=0.2, atol=0.2)
    torch.testing.assert_close(outputs(1), outputs(2), rtol=0, atol=0)
    with pytest.raises(PointsetError, match="dropout=1; expected a number from 0 to below 1"):
        pointset.PointModel.from_preset("pst-fast", dropout=1)


class TestTables:
    """``model.descriptors=FILE``."""

    def test_a_model_learns_from_a_table_and_asks_for_it_again(self, tmp_path: Path) -> None:
        table = tmp_path / "own.csv"
        table.write_text("\n".join(["smiles,a,b", *(f"{one},{at},{at % 3}" for at, one in enumerate(SMILES))]))
        model = trained(tmp_path, str(table))
        with pytest.raises(PointsetError, match=r"trained with descriptors of a table \(a, b…\).*--descriptors FILE"):
            model.predict(["CCO"])
        described = pointset.load(tmp_path / "run", descriptors=table)
        first = described.predict(["OCC"])  # found however it is written
        torch.testing.assert_close(first, described.predict(SMILES)[:1], rtol=1e-5, atol=1e-5)
        with pytest.raises(PointsetError, match="has no descriptors of 'CCCCCCC'"):
            described.predict(["CCCCCCC"])
        other = tmp_path / "other.csv"
        other.write_text("smiles,a,c\nCCO,1,2\n")
        with pytest.raises(PointsetError, match=r"has the columns a, c; expected those.*: a, b"):
            pointset.load(tmp_path / "run", descriptors=other).predict(["CCO"])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("smiles,a\nCCO,x\n", "line 2: a is 'x'; expected a number"),
            ("smiles,a\nCCO,1\nOCC,2\n", "describes 'OCC' twice, differently"),
            ("smiles\nCCO\n", "has no descriptors"),
        ],
    )
    def test_bad_tables_are_refused(self, tmp_path: Path, text: str, message: str) -> None:
        from pointset.datasets.own.descriptor_table import read_descriptors

        (tmp_path / "own.csv").write_text(text)
        with pytest.raises(PointsetError, match=message):
            read_descriptors(tmp_path / "own.csv")

    def test_molecules_without_a_row_are_named(self, tmp_path: Path) -> None:
        from pointset.datasets.own.descriptor_table import read_descriptors

        (tmp_path / "own.csv").write_text("smiles,a\nCCO,1.5\nCCN,\n")
        table = read_descriptors(tmp_path / "own.csv")
        np.testing.assert_array_equal(table.matrix(["NCC", "OCC"]), np.array([[np.nan], [1.5]], dtype=np.float32))
        with pytest.raises(PointsetError, match=r"has no descriptors of 1 of 2 molecules, such as 'CCC'"):
            table.matrix(["CCO", "CCC"])
