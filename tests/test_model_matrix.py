"""``matrix=…`` of a model in place of its preset's: which presets take which, in training, bundles and recipes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import get_args

import networkx as nx
import pytest
import torch

import pointset
from pointset.errors import SpecError
from pointset.paper.comparison import with_model
from pointset.points.matrices import MATRICES
from pointset.registry import PRESETS, MatrixName, preset_names
from pointset.runs.recipe_files import read_recipe
from pointset.testing import assert_invariant
from pointset.training.bundle import read_bundle, write_bundle
from tests.graph_strategies import MATRIX_NAMES, with_features
from tests.small_models import molecule_card

GRAPHS = [nx.cycle_graph(6), nx.star_graph(6), nx.path_graph(5), nx.complete_graph(5)]
WITHOUT_POSITIONS = [name for name in preset_names() if not PRESETS[name].uses_positions]


def small_model(preset: str, matrix: str | None = None, **settings: object) -> pointset.PointModel:
    torch.manual_seed(0)
    return pointset.PointModel.from_preset(preset, dim=8, layers=2, matrix=matrix, **settings).eval()  # type: ignore[arg-type]


def test_the_names_are_those_of_the_matrices() -> None:
    assert list(get_args(MatrixName)) == list(MATRICES)


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@pytest.mark.parametrize("preset", WITHOUT_POSITIONS)
def test_every_preset_takes_a_matrix_or_refuses_it(preset: str, matrix: str) -> None:
    if matrix not in PRESETS[preset].matrices:
        with pytest.raises(SpecError, match=rf"got matrix='{matrix}' for {preset}, .*; expected '"):
            small_model(preset, matrix)
        return
    model = small_model(preset, matrix)
    assert model.matrix == matrix
    outputs = model(GRAPHS)
    assert bool(outputs.isfinite().all()) and float(outputs.detach().abs().max()) < 1e4
    given = list(pointset.to_points_many(GRAPHS, matrix=matrix))
    assert torch.equal(outputs, model(pointset.collate(given)))


@pytest.mark.parametrize("matrix", MATRIX_NAMES)
@pytest.mark.parametrize("preset", ["pst", "pst-gc", "pst-fast-roots", "psds"])
def test_it_stays_invariant_and_both_paths_agree(preset: str, matrix: str) -> None:
    """Also where eigenvalues are negative and f is a root: half of the channels take √|λ|, half sgn(λ)√|λ|."""
    assert_invariant(small_model(preset, matrix).double(), GRAPHS)
    model = small_model(preset, matrix)
    native = model(GRAPHS)
    with pointset.torch_path():
        assert torch.allclose(native, model(GRAPHS), rtol=1e-3, atol=1e-4)


def test_the_matrix_matters() -> None:
    outputs = [small_model("pst", matrix)(GRAPHS) for matrix in MATRIX_NAMES]
    assert all(not torch.allclose(one, other) for one in outputs for other in outputs if one is not other)
    assert torch.equal(small_model("pst")(GRAPHS), outputs[0])


def test_points_of_the_presets_own_matrix_are_then_refused() -> None:
    model = small_model("pst", "adjacency")
    points = pointset.collate([pointset.to_points(GRAPHS[0])])
    with pytest.raises(SpecError, match=r"points come from matrix='laplacian', but the model was made for 'adjacency'"):
        model(points)


def test_refusals_name_what_to_take() -> None:
    with pytest.raises(SpecError, match="such as pst-fast-roots with the same layers"):
        small_model("pst-fast", "adjacency")
    with pytest.raises(SpecError, match="a baseline, which reads edges and weights from the points of the Laplacian"):
        small_model("gin", "adjacency")
    with pytest.raises(SpecError, match="did you mean 'adjacency'"):
        small_model("pst", "adjacensy")


@pytest.mark.parametrize("preset", preset_names())
def test_dropout_is_part_of_every_preset(preset: str) -> None:
    """It is on the representation that the readout sees, so no preset lacks it."""
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=8, layers=1, dropout=0.5, node=(5, 3))
    batch = [with_features(graph, seed) for seed, graph in enumerate(GRAPHS)]
    once, again = (model(batch, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert not torch.equal(once, again)
    model.eval()
    assert torch.equal(model(batch), model(batch))


def test_it_is_kept_with_the_bundle(tmp_path: Path) -> None:
    card = molecule_card()

    def written(matrix: str | None) -> pointset.PointModel:
        model = small_model("pst", matrix, node=card.node, edge=card.edge)
        write_bundle(tmp_path / str(matrix), model, card)
        return read_bundle(tmp_path / str(matrix)).model

    assert written("augmented").matrix == "augmented"
    assert written(None).matrix == written("laplacian").matrix == "laplacian"
    versions = {
        name: json.loads((tmp_path / name / "bundle.json").read_text())["version"]
        for name in ("augmented", "None", "laplacian")
    }
    # An older pointset would predict from points of the preset's matrix.
    assert versions == {"augmented": 4, "None": 1, "laplacian": 1}


def test_training_and_prediction_take_the_same_points(tmp_path: Path) -> None:
    rows = [("C" * length + end, float(length)) for length in range(1, 21) for end in ("O", "N")]
    table = tmp_path / "chains.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("smiles", "length"), *rows])
    settings = [f"dataset.file={table}", "model.preset=pst", "model.matrix=adjacency", "model.dim=8", "model.layers=1"]
    recipe = read_recipe("molecules", [*settings, "trainer.epochs=1", "trainer.baseline=false"])
    pointset.train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    with (tmp_path / "run" / "predictions.csv").open() as file:
        predicted = list(csv.DictReader(file))
    predictor = pointset.load(tmp_path / "run")
    answers = predictor.predict([rows[int(row["graph"])][0] for row in predicted])
    for answer, row in zip(answers, predicted, strict=True):
        assert float(answer) == pytest.approx(float(row["predicted_length"]), rel=1e-4)


def test_a_recipe_refuses_what_the_preset_does() -> None:
    with pytest.raises(SpecError, match=r"got matrix='adjacency' for pst-fast"):
        read_recipe("zinc", ["model.preset=pst-fast", "model.matrix=adjacency"])
    with pytest.raises(SpecError, match=r"model\.matrix.*adjacensy"):
        read_recipe("zinc", ["model.matrix=adjacensy"])


def test_a_comparison_gives_a_baseline_its_own_matrix() -> None:
    recipe = read_recipe("zinc", ["model.preset=pst", "model.matrix=adjacency"])
    assert with_model(recipe, "psds").model.matrix == "adjacency"
    assert with_model(recipe, "gin").model.matrix is None
