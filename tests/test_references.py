"""Targets that grow with the molecule: contributions of atoms are found, used and kept, and nothing else is touched."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pointset
from pointset import Categories
from pointset.errors import SpecError
from pointset.runs.recipe_files import read_recipe
from pointset.training.data import load_data
from pointset.training.references import _ridge

VALUES = {"C": 40.0, "N": 25.0, "O": 30.0}  # of each atom
ENDS = ("", "O", "N", "OC", "NC", "C(=O)O", "C(=O)N", "C1CC1", "c1ccccc1")


def molecules() -> list[str]:
    return [start + "C" * length + end for start in ("C", "N", "O") for length in range(1, 9) for end in ENDS]


def energy(smiles: str) -> float:
    """A sum over atoms, and a little that only rings have."""
    letters = smiles.upper()
    return sum(value * letters.count(atom) for atom, value in VALUES.items()) + 3.0 * ("1" in smiles) - 500.0


def write_table(path: Path, **columns: Any) -> Path:
    smiles = molecules()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *columns])
        writer.writerows(
            zip(smiles, *([function(one) for one in smiles] for function in columns.values()), strict=True)
        )
    return path


def recipe_of(table: Path, *settings: str) -> Any:
    small = ["model.dim=8", "model.layers=1", "trainer.epochs=2", "trainer.baseline=false", "trainer.threads=1"]
    return read_recipe("molecules", [f"dataset.file={table}", *small, "dataset.options.split=random", *settings])


def test_a_ridge_regression_leaves_rows_out_one_at_a_time() -> None:
    generator = np.random.default_rng(0)
    counts = generator.integers(0, 4, size=(30, 5)).astype(float)
    target = counts @ [1.0, -2.0, 0.0, 3.0, 0.5] + 0.3 * generator.normal(size=30) + 7.0
    found, explained = _ridge(counts, target)
    errors = []
    for row in range(30):
        rest = np.arange(30) != row
        centre, middle = counts[rest].mean(0), target[rest].mean()
        solution = np.linalg.lstsq(counts[rest] - centre, target[rest] - middle, rcond=None)[0]
        errors.append(target[row] - middle - (counts[row] - centre) @ solution)
    by_hand = 1 - np.square(errors).sum() / np.square(target - target.mean()).sum()
    assert explained == pytest.approx(by_hand, abs=0.01)
    assert np.allclose(found, [1.0, -2.0, 0.0, 3.0, 0.5], atol=0.3)


def test_a_target_that_is_a_sum_over_atoms_is_recognised(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    table = write_table(tmp_path / "table.csv", energy=energy, noise=lambda _: generator.normal())
    targets = 'dataset.targets=["energy", "noise"]'
    data = load_data(recipe_of(table, targets))
    assert data.references is not None and data.scale is data.references.scale
    assert data.references.explained[0] > 0.99 and data.references.explained[1] < 0.5
    assert not data.references.weight[1].any()
    plain = load_data(recipe_of(table, targets, "model.atom_references=never"))
    assert plain.references is None and plain.scale is not None and data.scale is not None
    assert data.scale.std[0] < 0.05 * plain.scale.std[0]  # what is left to learn
    assert data.scale.std[1] == plain.scale.std[1] and data.scale.mean[1] == plain.scale.mean[1]
    (note,) = [note for note in data.warnings if "grows with the molecule" in note]
    assert "energy (" in note and "noise" not in note


def test_nothing_is_left_of_a_sum_over_atoms(tmp_path: Path) -> None:
    table = write_table(tmp_path / "table.csv", carbons=lambda one: one.upper().count("C"))
    data = load_data(recipe_of(table))
    assert data.references is not None and float(data.references.explained[0]) > 0.999999
    pointset.train(recipe_of(table), tmp_path / "run", device="cpu", watch="quiet")
    (answer,) = pointset.load(tmp_path / "run").predict(["CCCC"])
    assert float(answer) == pytest.approx(4, abs=0.05)


def test_a_run_learns_the_rest_and_predicts_the_whole(tmp_path: Path) -> None:
    table = write_table(tmp_path / "table.csv", energy=energy)
    result = pointset.train(recipe_of(table), tmp_path / "run", device="cpu", watch="quiet")
    without = recipe_of(table, "model.atom_references=never")
    assert result["test"]["mae"] < 0.2 * pointset.train(without, tmp_path / "plain", watch="quiet")["test"]["mae"]
    model = pointset.load(tmp_path / "run")
    smiles = molecules()
    answers = model.predict(smiles)
    assert np.mean([abs(float(answer) - energy(one)) for answer, one in zip(answers, smiles, strict=True)]) < 5
    long = "C" * 40
    assert float(model.predict([long])[0]) == pytest.approx(energy(long), rel=0.1)  # far outside of the training part
    (why,) = model.explain([long + "O"])
    assert sum(why.atoms) == pytest.approx(why.prediction - why.baseline, rel=0.05)


def test_a_model_adds_what_its_nodes_contribute() -> None:
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset("pst", node=Categories(3, 2), out=2, dim=8, layers=1, references=True)
    graphs = [graph_of([0, 1, 2], [0, 0, 1]), graph_of([2], [1])]
    with torch.no_grad():
        plain = model(graphs)
        assert model.references is not None
        model.references.weight.copy_(torch.arange(10.0).reshape(2, 5))
        added = model(graphs) - plain
        with pointset.torch_path():
            assert torch.allclose(model(graphs) - plain, added, atol=1e-4)
    # categories 0, 1, 2 of the first column are places 0, 1, 2; 0, 1 of the second are places 3, 4
    expected = [[0 + 1 + 2 + 3 + 3 + 4, 5 + 6 + 7 + 8 + 8 + 9], [2 + 4, 7 + 9]]
    assert torch.allclose(added, torch.tensor(expected, dtype=torch.float32), atol=1e-4)


def graph_of(first: list[int], second: list[int]) -> Any:
    from torch_geometric.data import Data

    edges = [[place, place + 1] for place in range(len(first) - 1)]
    pairs = torch.tensor([*edges, *(edge[::-1] for edge in edges)], dtype=torch.long).reshape(-1, 2).T
    return Data(x=torch.tensor([first, second]).T, edge_index=pairs, num_nodes=len(first))


def test_what_has_no_references(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"expected outputs for graphs, and categories of nodes"):
        pointset.PointModel.from_preset("pst", out=1, dim=8, layers=1, references=True)
    table = write_table(tmp_path / "labels.csv", label=lambda one: int("O" in one))
    assert load_data(recipe_of(table)).references is None
    with pytest.raises(SpecError, match=r"expected a regression of whole graphs"):
        load_data(recipe_of(table, "model.atom_references=always"))
