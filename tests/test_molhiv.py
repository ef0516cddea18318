"""ogbg-molhiv: SMILES and OGB's own files give the same graphs; the real counts; files that are damaged."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pointset import datasets
from pointset.datasets.dataset import Dataset
from pointset.datasets.loading import BENCHMARKS
from pointset.errors import FileFormatError, MissingExtraError

HEADER = ("smiles", "HIV_active", "split")
ROWS = (("CC(=O)O", "0", "train"), ("c1ccccc1", "1", "train"), ("[Na+].[Cl-]", "0", "val"), ("C", "1", "test"))
SAMPLE = 2_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("POINTSET_CACHE", str(folder))
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    return folder


def write_csv(folder: Path, rows: Sequence[Sequence[str]], header: Sequence[str] = HEADER) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    path = folder / "molhiv" / "molhiv.csv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.getvalue().encode()))
    return path


def official_texts(dataset: Dataset, rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """The files of OGB: each bond once, no headers but in mol.csv."""

    def lines(values: Any) -> str:
        return "".join(",".join(map(str, np.atleast_1d(row).tolist())) + "\n" for row in np.asarray(values))

    features = dataset.features
    return {
        "raw/num-node-list.csv.gz": lines(dataset.arrays.num_nodes),
        "raw/num-edge-list.csv.gz": lines(dataset.arrays.num_edges),
        "raw/edge.csv.gz": lines(dataset.arrays.edges.T),
        "raw/node-feat.csv.gz": lines(features.x),
        "raw/edge-feat.csv.gz": lines(features.edge_attr),
        "raw/graph-label.csv.gz": lines([int(row[1]) for row in rows]),
        "mapping/mol.csv.gz": "HIV_active,smiles,mol_id\n" + "".join(f"{row[1]},{row[0]},id\n" for row in rows),
        "split/scaffold/train.csv.gz": lines(dataset.split["train"]),
        "split/scaffold/valid.csv.gz": lines(dataset.split["val"]),
        "split/scaffold/test.csv.gz": lines(dataset.split["test"]),
    }


def write_zip(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "hiv.zip", "w") as archive:
        for name, text in texts.items():
            archive.writestr(f"hiv/{name}", gzip.compress(text.encode()))
    return folder / "hiv.zip"


def assert_same(first: Dataset, second: Dataset) -> None:
    assert np.array_equal(first.arrays.num_nodes, second.arrays.num_nodes)
    assert np.array_equal(first.arrays.edges, second.arrays.edges)
    for name in ("x", "edge_attr", "y"):
        assert torch.equal(getattr(first.features, name), getattr(second.features, name))
        assert getattr(first.features, name).dtype == getattr(second.features, name).dtype
    assert {part: indices.tolist() for part, indices in first.split.items()} == {
        part: indices.tolist() for part, indices in second.split.items()
    }
    assert list(first.smiles or ()) == list(second.smiles or ())


@pytest.fixture(scope="session")
def sample(shared_data: Path) -> list[list[str]]:
    """The first real rows, with some of every part."""
    with gzip.open(shared_data / "molhiv" / "molhiv.csv.gz", "rt") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(HEADER)
    return [*rows[1 : SAMPLE + 1], *(row for row in rows[SAMPLE + 1 :] if row[2] == "valid")][: SAMPLE + 20]


def test_a_tiny_file_gives_the_molecules_it_describes(tmp_path: Path) -> None:
    write_csv(tmp_path, ROWS)
    dataset = datasets.load("ogbg-molhiv", tmp_path)
    assert dataset.arrays.num_nodes.tolist() == [4, 6, 2, 1]
    assert dataset.arrays.num_edges.tolist() == [3, 6, 0, 0]  # salts have no bond between their parts
    assert dataset.targets is not None and dataset.targets.tolist() == [[0.0], [1.0], [0.0], [1.0]]
    assert dataset.targets.dtype == torch.float32
    assert {part: indices.tolist() for part, indices in dataset.split.items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3],
    }
    assert dataset.smiles is not None and list(dataset.smiles) == [row[0] for row in ROWS]
    assert dataset.graphs[0].x[:, 0].tolist() == [5, 5, 7, 7]  # C C O O, as atomic number − 1
    assert dataset.graphs[0].edge_attr[:, 0].tolist().count(1) == 2  # the double bond, in both directions


def test_ogb_s_own_files_give_the_same_as_smiles(tmp_path: Path, sample: list[list[str]]) -> None:
    """Real molecules, written in OGB's format: as a zip and unpacked."""
    write_csv(tmp_path / "csv", sample)
    from_smiles = datasets.load("ogbg-molhiv", tmp_path / "csv")
    texts = official_texts(from_smiles, sample)
    path = write_zip(tmp_path / "zip", texts)
    from_zip = datasets.load("ogbg-molhiv", tmp_path / "zip")
    assert from_zip.provenance.files == (path,)
    assert_same(from_smiles, from_zip)
    for name, text in texts.items():
        target = tmp_path / "unpacked" / "ogbg_molhiv" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(text.encode()))
    assert_same(from_smiles, datasets.load("ogbg-molhiv", tmp_path / "unpacked"))


def test_the_same_file_gives_the_same_bytes(tmp_path: Path, cache: Path) -> None:
    write_csv(tmp_path, ROWS)
    datasets.load("ogbg-molhiv", tmp_path)
    (kept,) = (cache / "prepared").iterdir()
    before = kept.read_bytes()
    kept.unlink()
    datasets.load("ogbg-molhiv", tmp_path)
    assert kept.read_bytes() == before


@pytest.mark.slow
def test_all_real_molecules_have_the_counts_of_the_paper(shared_data: Path) -> None:
    dataset = datasets.load("ogbg-molhiv", shared_data)
    paper = dataset.card.paper
    assert paper is not None and len(dataset) == paper.graphs == 41_127
    assert round(float(dataset.arrays.num_nodes.mean()), 2) == 25.51 and paper.nodes == 25.5
    assert round(float(dataset.arrays.num_edges.mean()), 2) == 27.47 and paper.edges == 27.5
    assert {part: len(indices) for part, indices in dataset.split.items()} == dict(dataset.card.split_sizes)
    assert dataset.targets is not None and int(dataset.targets.sum()) == 1_443


def test_the_card_names_ogb_s_columns() -> None:
    card = BENCHMARKS["ogbg-molhiv"].card
    assert repr(card.node) == "Categories(119, 5, 12, 12, 10, 6, 6, 2, 2)"
    assert repr(card.edge) == "Categories(5, 6, 2)"
    assert (len(card.node_columns), len(card.edge_columns)) == (9, 3)
    assert sum(card.split_sizes.values()) == 41_127


def test_without_rdkit_the_extra_is_named(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_csv(tmp_path, ROWS)
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[chem\]'"):
        datasets.load("ogbg-molhiv", tmp_path)
    assert not (cache / "prepared").exists()


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, ("smiles", "HIV", "split"), "has the columns smiles, HIV, split; expected HIV_active"),
        (ROWS, ("smiles", "smiles", "split"), "expected smiles, HIV_active, each once"),
        ([], HEADER, "has a header and no rows"),
        ([*ROWS, ("C", "0")], HEADER, "line 6: got 2 cells; expected 3"),
        ([*ROWS, ("C", "0.5", "train")], HEADER, "row 5: HIV_active is '0.5'; expected 0 or 1"),
        ([*ROWS, ("C", "", "train")], HEADER, "row 5: HIV_active is ''"),
        ([*ROWS, ("C", "nan", "train")], HEADER, "row 5: HIV_active is 'nan'"),
        ([*ROWS, ("C", "0", "trian")], HEADER, "row 5 has 'trian'"),
        ([*ROWS, ("C(C", "0", "train")], HEADER, r"row 5: 'C\(C' is not a SMILES"),
        ([*ROWS, ("", "0", "train")], HEADER, "row 5: got an empty SMILES"),
        ([*ROWS, ("C" * 10**6, "0", "train")], HEADER, "line 6: not valid CSV"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_rows_are_named(
    tmp_path: Path, cache: Path, rows: Sequence[Sequence[str]], header: Sequence[str], message: str
) -> None:
    write_csv(tmp_path, rows, header)
    with pytest.raises(FileFormatError, match=message) as caught:
        datasets.load("ogbg-molhiv", tmp_path)
    assert "molhiv.csv.gz" in str(caught.value)
    assert not (cache / "prepared").exists()  # nothing half written


def test_damaged_compression_and_encoding_are_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path, ROWS)
    whole = path.read_bytes()
    latin = gzip.compress("smiles,HIV_active,split\nC,0,tr\xe4in\n".encode("latin-1"))
    for content, message in (
        (b"", "is empty"),
        (b"smiles,HIV_active,split\n", "cannot be read"),  # not compressed
        (whole[:-10], "cut short"),
        (whole[: len(whole) // 2], "cut short"),
        (gzip.compress(b""), "is empty"),
        (latin, "not UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=message):
            datasets.load("ogbg-molhiv", tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("raw/edge.csv.gz", "0,1\n", "0,x\n", "line 1: got '0,x'"),
        ("raw/edge.csv.gz", "0,1\n", "0,1,2\n", "line 1: got '0,1,2'"),
        ("raw/edge.csv.gz", "0,1\n", "", r"raw/edge.csv.gz\) has 7 lines; expected 9"),
        ("raw/edge.csv.gz", "0,1\n", "0,9\n", "names a node outside"),
        ("raw/num-node-list.csv.gz", "4\n", "-4\n", "line 1: got a count below 0"),
        ("raw/num-node-list.csv.gz", "4\n", "5\n", r"node-feat.csv.gz\) has 13 lines; expected 14"),
        ("raw/num-edge-list.csv.gz", "3\n", "", "has 3 lines; expected 4"),
        ("raw/node-feat.csv.gz", "5,0,", "119,0,", "row 1: column 1 holds 119; expected a category from 0 to 118"),
        ("raw/graph-label.csv.gz", "1\n", "2\n", "row 2: column 1 holds 2"),
        ("raw/graph-label.csv.gz", "1\n", "nan\n", "line 2: got 'nan'"),
        ("split/scaffold/valid.csv.gz", "2\n", "7\n", "'val' holds 7"),
        ("split/scaffold/valid.csv.gz", "2\n", "0\n", "graph 0 is in 'train' and in 'val'"),
        ("mapping/mol.csv.gz", "smiles", "text", "expected smiles"),
        ("mapping/mol.csv.gz", "0,CC(=O)O,id\n", "", "smiles has 3 rows; expected 4"),
    ],
)
def test_damaged_files_of_ogb_are_refused(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    write_csv(tmp_path / "csv", ROWS)
    texts = official_texts(datasets.load("ogbg-molhiv", tmp_path / "csv"), ROWS)
    assert old in texts[name]
    write_zip(tmp_path, texts | {name: texts[name].replace(old, new)})
    with pytest.raises(FileFormatError, match=message):
        datasets.load("ogbg-molhiv", tmp_path)
    write_zip(tmp_path, {key: text for key, text in texts.items() if key != name})
    with pytest.raises(FileFormatError, match="holds no"):
        datasets.load("ogbg-molhiv", tmp_path)
