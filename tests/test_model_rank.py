"""``model.rank``: large graphs by their largest eigenpairs, the same in training, prediction and a PyG loop."""

from __future__ import annotations

import csv
from pathlib import Path

import networkx as nx
import pytest
import torch

import pointset
from pointset.errors import RankError
from pointset.runs.recipe_files import read_recipe
from pointset.testing import assert_invariant
from pointset.training.bundle import read_bundle, write_bundle
from tests.small_models import molecule_card

RANK = 6
GRAPHS = [nx.cycle_graph(5), nx.path_graph(14), nx.random_regular_graph(3, 20, seed=0)]


def small_model(rank: int | None) -> pointset.PointModel:
    torch.manual_seed(0)
    return pointset.PointModel.from_preset("pst-fast", dim=8, layers=2, rank=rank).eval()


def test_graphs_are_given_as_many_eigenpairs() -> None:
    model, whole = small_model(RANK), small_model(None)
    made = pointset.to_points_many(GRAPHS, matrix=model.matrix, rank=RANK)
    assert [points.rank for points in made] == [5, RANK, RANK]
    outputs = model(GRAPHS)
    assert torch.equal(outputs, model(pointset.collate(list(made))))
    assert torch.equal(outputs[0], whole(GRAPHS)[0])  # a graph of fewer nodes is whole
    assert not torch.equal(outputs[1:], whole(GRAPHS)[1:])


def test_it_is_as_invariant() -> None:
    assert_invariant(small_model(RANK).double(), GRAPHS)


@pytest.mark.parametrize("rank", [0, -1, 2.5, True])
def test_a_rank_that_is_none(rank: int) -> None:
    with pytest.raises(RankError, match="expected a whole number of at least 1"):
        small_model(rank)


def test_it_is_kept_with_the_bundle(tmp_path: Path) -> None:
    card = molecule_card()
    model = pointset.PointModel.from_preset("pst", node=card.node, edge=card.edge, dim=8, layers=1, rank=RANK)
    write_bundle(tmp_path / "bundle", model, card)
    assert read_bundle(tmp_path / "bundle").model.rank == RANK


def test_training_and_prediction_take_the_same_points(tmp_path: Path) -> None:
    rows = [("C" * length + end, float(length)) for length in range(1, 31) for end in ("O", "N")]
    table = tmp_path / "chains.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("smiles", "length"), *rows])
    settings = [f"dataset.file={table}", f"model.rank={RANK}", "model.dim=8", "model.layers=1", "trainer.epochs=1"]
    recipe = read_recipe("molecules", [*settings, "trainer.baseline=false"])
    pointset.train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    with (tmp_path / "run" / "predictions.csv").open() as file:
        written = list(csv.DictReader(file))
    smiles = [rows[int(row["graph"])][0] for row in written]
    answers = pointset.load(tmp_path / "run").predict(smiles)
    for answer, row in zip(answers, written, strict=True):
        assert float(answer) == pytest.approx(float(row["predicted_length"]), rel=1e-4)
