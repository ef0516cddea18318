"""Intervals and domain from a training to predictions: files of the run, `predict`, `evaluate`, and Python."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import pointset
from pointset.errors import SpecError
from pointset.prediction.evaluation import evaluate
from pointset.prediction.predictor import PredictedIntervals
from pointset.runs.recipe import Recipe
from pointset.training.bundle import read_bundle, write_bundle
from pointset.training.run import train
from tests.command_line import invoke
from tests.small_training import changed, write_graphs

SMALL = ["C" * size + end for size in range(1, 9) for end in ("O", "N", "Cl", "F", "C(=O)O", "C#N", "OC", "S")]
DRUG = "CC(C)Cc1ccc(cc1)C(C)C(=O)NCC(O)COc1ccc2c(c1)CCC(=O)N2C"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def recipe_of(table: Path, **changes: Any) -> Recipe:
    recipe = Recipe.from_dict(
        {
            "name": "molecules",
            "dataset": {"file": str(table), "options": {"split": [0.5, 0.3, 0.2]}},
            "model": {"preset": "pst-fast", "dim": 8, "layers": 1},
            "trainer": {"epochs": 2, "batch_size": 8, "threads": 1, "baseline": False},
        }
    )
    return changed(recipe, **changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on small molecules: ``numbers``, a regression, and ``labels``, an ensemble by snapshots."""
    pytest.importorskip("rdkit", reason="RDKit is not installed")
    folder = tmp_path_factory.mktemp("runs")
    sizes = [smiles.count("C") for smiles in SMALL]
    for name, values in (("numbers", sizes), ("labels", [size % 2 for size in sizes])):
        table = folder / f"{name}.csv"
        table.write_text("smiles,y\n" + "".join(f"{one},{y}\n" for one, y in zip(SMALL, values, strict=True)))
    train(recipe_of(folder / "numbers.csv"), folder / "numbers", watch="quiet")
    train(recipe_of(folder / "labels.csv", trainer__snapshots=2), folder / "labels", watch="quiet")
    return folder


def test_a_run_leaves_intervals_and_domain(folder: Path) -> None:
    result = json.loads((folder / "numbers" / "result.json").read_text())
    found = result["calibration"]["per_target"]["y"]
    assert result["calibration"]["confidence"] == 0.9 and found["rows"] == result["split_sizes"]["test"]
    assert result["domain"]["references"] == result["split_sizes"]["train"]
    rows = rows_of(folder / "numbers" / "predictions.csv")
    assert list(rows[0])[-6:] == ["predicted_y", "lower_y", "upper_y", "std_y", "similarity", "in_domain"]
    inside = [float(row["lower_y"]) <= float(row["y"]) <= float(row["upper_y"]) for row in rows]
    assert np.mean(inside) == pytest.approx(found["coverage"])
    labels = rows_of(folder / "labels" / "predictions.csv")
    assert {row["set_y"] for row in labels} <= {"0", "1", "0|1"} and all(row["std_y"] for row in labels)


def test_predict_gives_the_same_as_the_run(folder: Path) -> None:
    for name in ("numbers", "labels"):
        recorded = rows_of(folder / name / "predictions.csv")
        table = folder / f"{name}-test.csv"
        table.write_text("smiles\n" + "".join(f"{row['smiles']}\n" for row in recorded))
        invoke("predict", str(folder / name), str(table), "-o", str(folder / f"{name}-out.csv"), "--overwrite")
        for row, before in zip(rows_of(folder / f"{name}-out.csv"), recorded, strict=True):
            assert row["status"] == "ok" and row["in_domain"] == before["in_domain"]
            for column in (set(row) & set(before)) - {"smiles", "in_domain", "set_y"}:
                assert float(row[column]) == pytest.approx(float(before[column]), rel=1e-3, abs=1e-3)


def test_the_confidence_and_predictions_alone(folder: Path) -> None:
    (folder / "two.csv").write_text(f"smiles\nCCO\n{DRUG}\nnonsense\n")

    def answered(*options: str) -> list[dict[str, str]]:
        out = folder / "two-out.csv"
        invoke("predict", str(folder / "numbers"), str(folder / "two.csv"), "-o", str(out), "--overwrite", *options)
        return rows_of(out)

    wide, narrow, alone = answered(), answered("--confidence", "0.5"), answered("--no-intervals")
    assert float(wide[0]["upper_y"]) > float(narrow[0]["upper_y"]) > float(narrow[0]["predicted_y"])
    assert list(alone[0]) == ["smiles", "predicted_y", "status"]
    assert alone[0]["predicted_y"][:6] == wide[0]["predicted_y"][:6]
    assert [row["in_domain"] for row in wide] == ["yes", "no", ""] and float(wide[0]["similarity"]) == 1
    assert wide[2]["lower_y"] == "" and "nonsense" in wide[2]["status"]


def test_predict_says_how_many_molecules_are_unlike_the_training_part(folder: Path) -> None:
    (folder / "drug.csv").write_text(f"smiles\nCCO\n{DRUG}\n")
    said = invoke("predict", str(folder / "numbers"), str(folder / "drug.csv"), "-o", str(folder / "drug-out.csv"))
    assert "1 of 2 rows is unlike what the model was trained on" in said[1]


def test_too_few_validation_rows_are_said_once(folder: Path) -> None:
    out = folder / "sure.csv"
    said = invoke(
        "predict", str(folder / "numbers"), str(folder / "numbers.csv"), "-o", str(out), "--confidence", "0.99"
    )
    assert said[1].count("they need at least 99 validation rows") == 1
    rows = rows_of(out)
    assert all(row["lower_y"] == row["upper_y"] == "" and row["std_y"] for row in rows)


def test_intervals_in_python(folder: Path) -> None:
    model = pointset.load(folder / "numbers")
    found = model.predict_interval(["CCO", DRUG], confidence=0.8)
    assert isinstance(found, PredictedIntervals)
    assert found.lower is not None and found.upper is not None and found.std is not None and found.sets is None
    torch.testing.assert_close(found.prediction, model.predict(["CCO", DRUG]), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close((found.lower + found.upper) / 2, found.prediction)
    assert (found.std > 0).all()
    near = model.domain(["CCO", DRUG])
    assert near.in_domain.tolist() == [True, False] and near.similarity is not None
    assert near.similarity[0] == 1 and near.similarity[1] < 0.5
    missing = model.predict_interval(["CCO", "nonsense"], on_error="nan").prediction
    assert torch.isfinite(missing[0]).all() and missing[1].isnan().all()
    with pytest.warns(UserWarning, match="no 0.99 intervals for y"):
        sure = model.predict_interval(["CCO"], confidence=0.99)
    assert sure.lower is not None and sure.lower.isnan().all()
    with pytest.raises(SpecError, match="between 0 and 1"):
        model.predict_interval(["CCO"], confidence=90)


def test_a_table_for_notebooks_has_the_same_columns(folder: Path) -> None:
    model = pointset.load(folder / "numbers")
    table = model.table(["CCO", DRUG, "nonsense"])
    assert table.columns == [
        "smiles",
        "predicted_y",
        "lower_y",
        "upper_y",
        "std_y",
        "similarity",
        "in_domain",
        "status",
    ]
    found = model.predict_interval(["CCO"])
    assert table[0]["lower_y"] == pytest.approx(float(found.lower[0, 0])) and table[0]["in_domain"] == "yes"
    assert table[1]["in_domain"] == "no" and table[2]["lower_y"] is None and table[2]["in_domain"] is None
    assert "(outside the domain)" in table._repr_html_()
    assert pointset.load(folder / "labels").table(["CCO"])[0]["set_y"] in ("0", "1", "0|1")


def test_sets_of_labels_in_python(folder: Path) -> None:
    model = pointset.load(folder / "labels")
    found = model.predict_interval(["CCO", "CCCO"])
    assert isinstance(found, PredictedIntervals) and found.lower is None and found.std is not None
    assert found.sets is not None and all(set(one[0]) <= {"0", "1"} and one[0] for one in found.sets)
    torch.testing.assert_close(found.prediction, model.predict(["CCO", "CCCO"]), rtol=1e-4, atol=1e-4)


def test_molecules_given_as_graphs_have_no_similarity(folder: Path) -> None:
    from torch_geometric.data import Data

    x, edge_attr = torch.zeros(3, 9, dtype=torch.long), torch.zeros(4, 3, dtype=torch.long)
    graph = Data(x=x, edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), edge_attr=edge_attr)
    model = pointset.load(folder / "numbers")
    near = model.domain([graph, "CCO"])
    assert near.similarity is not None and near.similarity[0].isnan() and near.similarity[1] == 1
    assert torch.isfinite(model.predict_interval([graph]).lower).all()


def test_evaluate_reports_the_coverage(folder: Path) -> None:
    recorded = json.loads((folder / "numbers" / "result.json").read_text())
    found = evaluate(folder / "numbers", progress=False)
    assert found["calibration"]["per_target"]["y"]["coverage"] == recorded["calibration"]["per_target"]["y"]["coverage"]
    said = " ".join(invoke("evaluate", str(folder / "numbers"))[0].split())
    assert "90 % intervals cover" in said and "applicability domain" in said


def test_bundles_without_it_predict_as_before(folder: Path, tmp_path: Path) -> None:
    whole = read_bundle(folder / "numbers")
    write_bundle(tmp_path / "old", whole.models, whole.card, scale=whole.scale, molecule_reader=whole.molecule_reader)
    model = pointset.load(tmp_path / "old")
    torch.testing.assert_close(model.predict(["CCO"]), pointset.load(folder / "numbers").predict(["CCO"]))
    for ask in (model.predict_interval, model.domain):
        with pytest.raises(SpecError, match="was written without"):
            ask(["CCO"])
    (tmp_path / "in.csv").write_text("smiles\nCCO\n")
    invoke("predict", str(tmp_path / "old"), str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.csv"))
    assert list(rows_of(tmp_path / "out.csv")[0]) == ["smiles", "predicted_y", "status"]


def test_graphs_that_are_no_molecules_have_a_domain_by_size_and_representation(tmp_path: Path) -> None:
    count = 60
    recipe = write_graphs(
        tmp_path, {"edges": [nx.path_graph(4 + i % 5).number_of_edges() for i in range(count)]}, count
    )
    result = train(recipe, tmp_path / "run", watch="quiet")
    assert result["domain"]["threshold"] is None and result["calibration"]["by_similarity"] == []
    model = pointset.load(tmp_path / "run")
    near = model.domain([nx.path_graph(5), nx.path_graph(60)])
    assert near.similarity is None and not near.in_domain[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # six graphs to validate
        found = model.predict_interval([nx.path_graph(5)])
    assert isinstance(found, PredictedIntervals) and found.std is not None


def test_explanations_and_reports_show_the_probability_that_is_predicted(folder: Path) -> None:
    model = pointset.load(folder / "labels")
    assert model.bundle.uncertainty is not None and model.bundle.uncertainty.temperatures.item() != 1
    for one in model.explain(["CCCO", "CCN"]):
        assert one.probability == pytest.approx(float(model.predict([one.smiles])[0]), rel=1e-6)
    rows = rows_of(folder / "labels" / "predictions.csv")
    predicted = {int(row["graph"]): float(row["predicted_y"]) for row in rows}
    examples = json.loads((folder / "labels" / "examples.json").read_text())
    for one in (*examples["worst"], *examples["typical"]):
        (value,) = one["values"]
        assert value["predicted"] == pytest.approx(predicted[one["position"]], rel=1e-3)
        (found,) = model.explain([one["contributions"]["read_as"]])  # the mean over both members
        assert one["contributions"]["output"] == pytest.approx(found.prediction, abs=1e-4)


def test_elements_and_charges_that_the_model_never_saw_are_outside(folder: Path) -> None:
    model = pointset.load(folder / "numbers")
    known = model.domain(["CCCCO", "CCCCN"]).in_domain
    unseen = model.domain(["CCC[Si](C)C", "CCCC[O-]", "*CCCC", "OB(O)CCC"]).in_domain
    assert known.all() and not unseen.any()
    assert not model.domain(["CCCCO", "CCCC[O-]"]).in_domain.tolist()[1]  # whatever stands beside it
    again = pointset.load(folder / "numbers" / "bundle").domain(["CCCC[O-]"])
    assert not again.in_domain.any()
