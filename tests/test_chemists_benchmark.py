"""The benchmark beside chemprop and the forest: its splits, its scores, and what it makes of made-up units."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from pointset.files import read_json, try_lock, write_csv, write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # scripts, not a package

from chemists import do_unit
from chemists_data import LEAST_PREDICTED, load, scaffold_parts, write_prediction_tables, write_training_table
from chemists_scores import resampled_scores, score
from chemists_summary import compare, figures_of_set, read_units, summarise, totals

Chem = pytest.importorskip("rdkit.Chem")
pytest.importorskip("sklearn")
NAN = float("nan")


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, None]


def test_scores_of_small_cases() -> None:
    truth, predicted = column(1, 2, NAN, 4), column(1, 4, 100, 4)
    assert score("rmse", truth, predicted) == pytest.approx((4 / 3) ** 0.5)
    assert score("mae", truth, predicted) == pytest.approx(2 / 3)
    # pairs (positive, negative): 0.9 > 0.1, 0.9 > 0.5, 0.5 > 0.1, 0.5 = 0.5
    assert score("roc_auc", column(0, 0, 1, 1), column(0.1, 0.5, 0.5, 0.9)) == pytest.approx(3.5 / 4)


def test_labels_of_one_class_are_left_out() -> None:
    truth = np.array([[0, 1, 0], [1, 1, NAN], [1, 1, 1]])
    predicted = np.array([[0.9, 0.5, 0.1], [0.5, 0.1, 0.5], [0.1, 0.3, 0.9]])
    assert score("roc_auc", truth, predicted) == pytest.approx((0.0 + 1.0) / 2)
    assert np.isnan(score("roc_auc", truth[:, 1:2], predicted[:, 1:2]))


@pytest.mark.parametrize("metric", ["rmse", "mae", "roc_auc"])
def test_a_sample_scores_as_its_rows_do(metric: str) -> None:
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 2, (30, 3)).astype(float), rng.integers(0, 8, (30, 3)) / 8
    truth[rng.random((30, 3)) < 0.2] = NAN
    drawn = rng.integers(0, 30, (5, 30))
    counts = np.stack([np.bincount(rows, minlength=30) for rows in drawn]).astype(float)
    expected = [score(metric, truth[rows], predicted[rows]) for rows in drawn]
    assert resampled_scores(metric, truth, predicted, counts) == pytest.approx(expected)


def test_predictions_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="got 1 predictions that are not finite"):
        score("mae", column(1, 2), column(1, NAN))


def test_a_scaffold_is_in_one_part() -> None:
    scaffolds = ["", *(f"ring {number // 3}" for number in range(270))] + [""] * 29
    parts = scaffold_parts(scaffolds, seed=0)
    assert [int((parts == part).sum()) for part in ("train", "val", "test")] == [240, 30, 30]
    assert all(len(set(parts[np.array(scaffolds) == scaffold])) == 1 for scaffold in set(scaffolds))
    assert set(parts[np.array(scaffolds) == ""]) == {"train"}  # it would fill a part alone
    assert (parts == scaffold_parts(scaffolds, seed=0)).all()
    assert (parts != scaffold_parts(scaffolds, seed=1)).any()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """FreeSolv in small: thirty chains whose target is their length, and one row that RDKit cannot read."""
    smiles = ["C" * (number + 1) + "O" for number in range(30)]
    write_csv(tmp_path / "freesolv.csv", [["smiles", "freesolv"], ["C(", 1], *zip(smiles, range(30), strict=True)])
    parts = {"train": list(range(25)), "val": [25, 26, 27], "test": [28, 29, 30]}
    (tmp_path / "scaffold_splits.json").write_text(json.dumps({"freesolv": {"0": parts}}))
    return tmp_path


def test_rows_that_cannot_be_read_are_left_out_for_all(folder: Path) -> None:
    molecules = load("freesolv", 0, folder)
    assert molecules.left_out == 1
    assert molecules.rows.tolist() == list(range(1, 31))
    assert molecules.smiles[0] == "CO"
    assert molecules.truth[:, 0].tolist() == list(range(30))
    assert np.flatnonzero(molecules.at("test")).tolist() == [27, 28, 29]


def test_tables_for_the_methods(folder: Path) -> None:
    molecules = load("freesolv", 0, folder)
    write_training_table(folder / "training.csv", molecules._replace(truth=np.where(molecules.truth == 3, NAN, 1.5)))
    lines = (folder / "training.csv").read_text().splitlines()
    assert lines[:2] == ["smiles,freesolv,split", "CO,1.5,train"]
    assert lines[4] == "CCCCO,,train"
    assert write_prediction_tables(folder / "many.csv", folder / "one.csv", molecules.smiles) == LEAST_PREDICTED
    with (folder / "many.csv").open() as file:
        many = [row["smiles"] for row in csv.DictReader(file)]
    assert many[:30] == molecules.smiles
    assert Chem.CanonSmiles(many[30 * 7 + 4]) == Chem.CanonSmiles(molecules.smiles[4])
    assert (folder / "one.csv").read_text().splitlines() == ["smiles", "CO"]


def test_a_unit_is_done_once(folder: Path) -> None:
    out = folder / "out"
    out.mkdir()
    options = argparse.Namespace(molecules=folder, out=out, label="", pointset_settings="")
    assert do_unit("freesolv", 0, "forest", options).startswith("freesolv-0-forest: rmse")
    record = read_json(out / "freesolv-0-forest.json")
    assert record["rows"] == {"train": 24, "val": 3, "test": 3}
    assert record["prediction"]["rows"] == LEAST_PREDICTED
    assert 0 < record["training"]["cpu_seconds"] <= 2 * record["training"]["wall_seconds"]
    with np.load(out / "freesolv-0-forest.npz") as arrays:
        assert arrays["rows"].tolist() == [25, 26, 27, 28, 29, 30]
        test = arrays["is_test"]
        error = arrays["truth"][test] - arrays["predicted"][test]
    assert record["scores"]["test"]["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert not list(out.glob("*.lock"))
    assert not list((out / "work").iterdir())
    assert do_unit("freesolv", 0, "forest", options) == "freesolv-0-forest: done before"
    (out / "freesolv-0-forest.json").unlink()
    with (out / "freesolv-0-forest.lock").open("a") as lock:  # as another process that works on it
        assert try_lock(lock)
        assert do_unit("freesolv", 0, "forest", options) == "freesolv-0-forest: another process is at it"


def write_unit(out: Path, method: str, seed: int, noise: float, *, cpu: float = 10.0, digest: str = "same") -> None:
    """A regression on 60 test rows whose errors have this size."""
    rng = np.random.default_rng(100 + seed)
    truth = rng.normal(size=(60, 1))
    predicted = truth + noise * rng.normal(size=(60, 1))
    test = {"rmse": score("rmse", truth, predicted), "mae": score("mae", truth, predicted)}
    cost = {"wall_seconds": cpu, "cpu_seconds": cpu, "peak_mb": 100.0}
    speed = {"rows": 2000, "rows_per_cpu_second": 2000 / cpu, "rows_per_cpu_second_after_start": 2000.0}
    record = {"set": "delaney", "seed": seed, "method": method, "settings": "", "kind": "regression", "version": "1"}
    record |= {"rows_digest": digest, "scores": {"val": test, "test": test}, "training": cost, "start_up": cost}
    name = f"delaney-{seed}-{method}"
    write_json(out / f"{name}.json", record | {"prediction": cost | speed})
    np.savez(out / f"{name}.npz", is_test=np.ones(60, dtype=bool), truth=truth, predicted=predicted)


def test_summary_of_made_up_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        write_unit(tmp_path, "pointset", seed, 0.5)
        write_unit(tmp_path, "chemprop", seed, 1.0, cpu=40.0)
        write_unit(tmp_path, "forest", seed, 0.5, cpu=5.0)
        write_unit(tmp_path, "boosting", seed, 0.2)
    write_unit(tmp_path, "chemprop", 2, 0.1)  # a seed that only one of them has does not count
    summarise(tmp_path, "pointset", tmp_path / "summary.json")
    printed = capsys.readouterr().out
    assert "| chemprop | 1 | 1 | 0 | 0 | 0.25 |" in printed
    head, _, row = printed.splitlines()[:3]
    assert head == "| set | metric | pointset | boosting | chemprop | forest |"
    assert [cell.split()[-1] for cell in row.split(" | ")[3:]] == ["+", "−", "|"]
    summary = read_json(tmp_path / "summary.json")
    against = summary["sets"]["delaney"]["pointset against"]
    assert {name: found["verdict"] for name, found in against.items()} == {
        "boosting": "loss",
        "chemprop": "win",
        "forest": "level",
    }
    chemprop = against["chemprop"]
    ours = summary["sets"]["delaney"]["methods"]["pointset"]
    assert ours["test"] == pytest.approx(np.mean(ours["by seed"]), rel=1e-3)
    assert ours["interval"][0] < ours["test"] < ours["interval"][1]
    assert chemprop["better by"] == pytest.approx(ours["test"], rel=1e-3)  # errors twice as large
    assert chemprop["interval"][0] < chemprop["better by"] < chemprop["interval"][1]
    assert (chemprop["seeds"], chemprop["training CPU ratio"], chemprop["prediction CPU ratio"]) == (2, 0.25, 0.25)
    total = summary["pointset against"]["chemprop"]
    assert [total[key] for key in ("sets", "win", "level", "loss")] == [1, 1, 0, 0]
    assert total["prediction rows per CPU second, ratio"] == 4.0


def test_level_by_rows_not_by_luck(tmp_path: Path) -> None:
    """A difference that one row makes is not a win, in either direction."""
    write_unit(tmp_path, "pointset", 0, 0.5)
    write_unit(tmp_path, "other", 0, 0.5)
    with np.load(tmp_path / "delaney-0-other.npz") as arrays:
        changed = dict(arrays)
    changed["predicted"][0] += 3.0
    np.savez(tmp_path / "delaney-0-other.npz", **changed)
    units = read_units(tmp_path)["delaney"]
    found = compare("rmse", units["pointset"], units["other"])
    assert found.lower <= 0 < found.upper
    assert found.verdict == "level"


def test_different_rows_are_not_compared(tmp_path: Path) -> None:
    write_unit(tmp_path, "pointset", 0, 0.5)
    write_unit(tmp_path, "forest", 0, 0.5, digest="other")
    with pytest.raises(ValueError, match=r"different rows of delaney, seeds \[0\]"):
        read_units(tmp_path)


def test_totals_are_geometric_means() -> None:
    def one(cpu: float, verdict: str) -> dict[str, object]:
        found = {"verdict": verdict, "training CPU ratio": cpu, "prediction CPU ratio": 0.5, "memory ratio": 1.0}
        return {"pointset against": {"forest": found}}

    total = totals({"a": one(0.5, "win"), "b": one(8.0, "loss"), "c": one(2.0, "level")}, "pointset")["forest"]
    assert [total[key] for key in ("sets", "win", "level", "loss")] == [3, 1, 1, 1]
    assert total["training CPU ratio"] == pytest.approx(2.0)
    assert total["largest training CPU ratio"] == 8.0


def test_a_set_without_ours_is_shown_alone(tmp_path: Path) -> None:
    write_unit(tmp_path, "forest", 0, 0.5)
    figures = figures_of_set(read_units(tmp_path)["delaney"], "pointset")
    assert list(figures["methods"]) == ["forest"]
    assert figures["pointset against"] == {}
