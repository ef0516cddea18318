"""LRGB's CSV of peptides: small files in the official format, and the real Peptides-func."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import pickle
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pointset import datasets
from pointset.datasets.loading import BENCHMARKS
from pointset.errors import FileFormatError
from pointset.specs import Categories
from tests.test_long_range import Opens


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("POINTSET_CACHE", str(folder))
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    return folder


PEPTIDES = ("NCC(=O)O", "CC(N)C(=O)NCC(=O)O", "NC(CS)C(=O)O", "NC(Cc1ccccc1)C(=O)O")
LABELS = ("[0, 0, 0, 0, 1, 0, 0, 0, 0, 1]", "[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]", str([0] * 10), str([1] * 10))
SPLIT: dict[str, Any] = {"train": np.array([3, 0]), "val": np.array([1]), "test": np.array([2])}


def write_table(folder: Path, name: str, columns: dict[str, Any]) -> None:
    text = io.StringIO()
    rows = zip(range(len(columns["smiles"])), *columns.values(), strict=True)
    csv.writer(text).writerows([["", *columns], *rows])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(gzip.compress(text.getvalue().encode()))


def function_columns(labels: Any = LABELS) -> dict[str, Any]:
    return {"smiles": PEPTIDES, "peptide_seq": "GACF", "labels": labels, "identifier": "1234"}


def test_the_csv_of_functions_with_either_split_gives_rows_in_order(tmp_path: Path) -> None:
    table, split = "peptide_multi_class_dataset.csv.gz", "splits_random_stratified_peptide.pickle"
    write_table(tmp_path / "a" / "peptides", table, function_columns())
    np.savez(tmp_path / "a" / "peptides" / "split.npz", **SPLIT)
    write_table(tmp_path / "b" / "peptides-functional" / "raw", table, function_columns())
    (tmp_path / "b" / "peptides-functional" / split).write_bytes(pickle.dumps(SPLIT))
    for folder in ("a", "b"):
        dataset = datasets.load("peptides-func", tmp_path / folder)
        assert dataset.arrays.num_nodes.tolist() == [5, 10, 7, 12]
        assert dataset.targets is not None and dataset.targets.tolist() == [json.loads(text) for text in LABELS]
        assert dataset.targets.dtype == torch.float32
        assert {part: indices.tolist() for part, indices in dataset.split.items()} == {
            "train": [3, 0],
            "val": [1],
            "test": [2],
        }
        assert dataset.smiles is not None and list(dataset.smiles) == list(PEPTIDES)


def test_shapes_are_normalised_over_all_rows_as_lrgb_does(tmp_path: Path) -> None:
    """By the formula (x − mean)/std with G − 1; the normalised file is taken as it is."""
    rng = np.random.default_rng(5)
    raw = {
        name: rng.normal(100, 20, len(PEPTIDES)).tolist() for name in BENCHMARKS["peptides-struct"].card.target_names
    }
    scaled = {
        name: [(value - statistics.fmean(values)) / statistics.stdev(values) for value in values]
        for name, values in raw.items()
    }
    for folder, file, columns in (
        ("raw", "peptide_structure_dataset.csv.gz", raw),
        ("scaled", "peptide_structure_normalized_dataset.csv.gz", scaled),
    ):
        shuffled = dict(reversed(columns.items()))  # columns are found by name, not by place
        write_table(tmp_path / folder / "peptides", file, {"smiles": PEPTIDES} | shuffled)
        np.savez(tmp_path / folder / "peptides" / "split.npz", **SPLIT)
        dataset = datasets.load("peptides-struct", tmp_path / folder)
        assert dataset.targets is not None and dataset.targets.dtype == torch.float32
        expected = torch.tensor([scaled[name] for name in dataset.target_names]).T
        torch.testing.assert_close(dataset.targets, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("__import__('os').abort()", r"row 3: got the labels .*; expected a list of 10 times 0 or 1"),
        ("[0, 1]", "row 3"),
        (str([2] * 10), "row 3"),
        ("", "row 3"),
        ("[" * 100_000, "row 3"),
        ("9" * 5_000, "row 3"),
    ],
    ids=["program", "short", "not 0 or 1", "empty", "deep", "long"],
)
def test_labels_are_read_as_data(tmp_path: Path, labels: str, message: str) -> None:
    write_table(
        tmp_path / "peptides", "peptide_multi_class_dataset.csv.gz", function_columns((*LABELS[:2], labels, LABELS[3]))
    )
    np.savez(tmp_path / "peptides" / "split.npz", **SPLIT)
    with pytest.raises(FileFormatError, match=message):
        datasets.load("peptides-func", tmp_path)


@pytest.mark.parametrize("cell", ["", "nan", "inf", "many"])
def test_shapes_that_are_no_numbers_are_named(tmp_path: Path, cell: str) -> None:
    columns: dict[str, Any] = dict.fromkeys(BENCHMARKS["peptides-struct"].card.target_names, (1, 2, 3, 4))
    write_table(
        tmp_path / "peptides",
        "peptide_structure_dataset.csv.gz",
        {"smiles": PEPTIDES} | columns | {"length_b": (1, 2, cell, 4)},
    )
    np.savez(tmp_path / "peptides" / "split.npz", **SPLIT)
    with pytest.raises(FileFormatError, match=rf"length_b, row 3: got '{cell}'; expected a finite number"):
        datasets.load("peptides-struct", tmp_path)


def test_a_shape_that_is_the_same_everywhere_cannot_be_normalised(tmp_path: Path) -> None:
    columns: dict[str, Any] = dict.fromkeys(BENCHMARKS["peptides-struct"].card.target_names, (1, 2, 3, 4))
    write_table(
        tmp_path / "peptides",
        "peptide_structure_dataset.csv.gz",
        {"smiles": PEPTIDES} | columns | {"Spherocity": (2, 2, 2, 2)},
    )
    np.savez(tmp_path / "peptides" / "split.npz", **SPLIT)
    with pytest.raises(FileFormatError, match="Spherocity is 2 in all rows"):
        datasets.load("peptides-struct", tmp_path)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (SPLIT | {"val": np.array([4])}, "'val' holds 4"),
        (SPLIT | {"val": np.array([0])}, "graph 0 is in"),
        ([1, 2, 3], "expected a dictionary"),
        ({"train": [Opens(Path("never"))]}, "Nothing was run"),
    ],
    ids=["outside", "twice", "list", "program"],
)
def test_a_split_of_another_form_is_refused(tmp_path: Path, split: Any, message: str) -> None:
    write_table(tmp_path / "peptides", "peptide_multi_class_dataset.csv.gz", function_columns())
    path = tmp_path / "peptides" / "splits_random_stratified_peptide.pickle"
    path.write_bytes(pickle.dumps(split))
    with pytest.raises(FileFormatError, match=message) as caught:
        datasets.load("peptides-func", tmp_path)
    assert path.name in str(caught.value)


def test_some_real_peptides(shared_data: Path, tmp_path: Path) -> None:
    """The first 30 rows of the real CSV; the whole of it is read in the slow test below."""
    with gzip.open(shared_data / "peptides" / "peptide_multi_class_dataset.csv.gz", "rt") as file:
        rows = list(itertools.islice(csv.reader(file), 31))
    write_table(
        tmp_path / "peptides",
        "peptide_multi_class_dataset.csv.gz",
        {name: [row[place] for row in rows[1:]] for place, name in enumerate(rows[0]) if name},
    )
    np.savez(tmp_path / "peptides" / "split.npz", train=np.arange(20), val=np.arange(20, 25), test=np.arange(25, 30))
    dataset = datasets.load("peptides-func", tmp_path)
    card = dataset.card
    for spec, values in ((card.node, dataset.features.x), (card.edge, dataset.features.edge_attr)):
        assert isinstance(spec, Categories) and values is not None
        assert bool((values.max(0).values < torch.tensor(spec.sizes)).all())
    assert dataset.target_names[:2] == ("antifungal", "cell_cell_communication")


@pytest.mark.slow
def test_all_real_peptides_have_the_counts_of_the_benchmark(shared_data: Path) -> None:
    dataset = datasets.load("peptides-func", shared_data)
    paper = dataset.card.paper
    assert paper is not None and paper.both_directions and len(dataset) == paper.graphs == 15_535
    assert int(dataset.arrays.num_nodes.sum()) == 2_344_859  # LRGB's own table
    assert 2 * int(dataset.arrays.num_edges.sum()) == 4_773_974
    assert round(2 * float(dataset.arrays.num_edges.mean()), 1) == paper.edges
    assert {part: len(indices) for part, indices in dataset.split.items()} == dict(dataset.card.split_sizes)
