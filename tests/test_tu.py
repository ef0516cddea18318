"""TU datasets: facts of the real files, the same graphs as PyG reads, folds, and files that are damaged."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch_geometric.io import read_tu_data
from torch_geometric.utils import one_hot

from pointset import datasets
from pointset.datasets.benchmarks.reading import DataFile
from pointset.datasets.benchmarks.tu import FOLDS, TuFiles
from pointset.datasets.loading import BENCHMARKS
from pointset.errors import FileFormatError, SpecError
from pointset.specs import Categories
from tests.graph_strategies import adjacency_matrices

NAMES = {"mutag": "MUTAG", "ptc-mr": "PTC_MR", "proteins": "PROTEINS", "imdb-binary": "IMDB-BINARY"}
TINY = TuFiles("MUTAG", classes=(-1, 1), node=Categories(7), edge=Categories(4))
TEXTS = {  # a path of 3 nodes, then an edge; the second graph's edge stands first
    "A": "4, 5\n1, 2\n2, 1\n2, 3\n3, 2\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "0\n6\n2\n3\n0\n",
    "edge_labels": "3\n1\n1\n0\n0\n3\n",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("POINTSET_CACHE", str(folder))
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    return folder


def packed(folder: Path, texts: Mapping[str, str | bytes], name: str = "MUTAG") -> Path:
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in texts.items():
            archive.writestr(f"{name}/{name}_{part}.txt", text)
    return path


def test_a_tiny_file_gives_the_graphs_it_describes(tmp_path: Path) -> None:
    table = TINY([packed(tmp_path, TEXTS)], show=False).in_order()
    assert table.num_nodes.tolist() == [3, 2]
    assert table.num_edges.tolist() == [2, 1]
    assert table.edges.tolist() == [[0, 1, 0], [1, 2, 1]]
    assert table.x is not None and table.x.tolist() == [[0], [6], [2], [3], [0]]
    assert table.edge_attr is not None and table.edge_attr.tolist() == [[1], [0], [3]]
    assert table.y is not None and table.y.tolist() == [1, 0]  # labels 1 and −1


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_written_is_read_back(tmp_path: Path, data: st.DataObject) -> None:
    """Any graphs, their edges in any order: isolated nodes, no edges, one graph."""
    matrices = data.draw(st.lists(adjacency_matrices(8, weighted=False, min_nodes=1), min_size=1, max_size=5))
    start = np.cumsum([0, *(len(matrix) for matrix in matrices)])
    edges = [
        (u + first + 1, v + first + 1)
        for matrix, first in zip(matrices, start, strict=False)
        for u, v in np.argwhere(matrix)
    ]
    assume(edges)  # a file without a line is cut short
    shuffled = data.draw(st.permutations(edges))
    texts = {
        "A": "".join(f"{u}, {v}\n" for u, v in shuffled),
        "graph_indicator": "".join(f"{1 + graph}\n" * len(matrix) for graph, matrix in enumerate(matrices)),
        "graph_labels": "1\n" * len(matrices),
    }
    table = TuFiles("MUTAG", classes=(-1, 1))([packed(tmp_path, texts)], show=False)
    arrays = table.arrays()
    assert arrays.num_nodes.tolist() == [len(matrix) for matrix in matrices]
    for graph, matrix in zip(arrays, matrices, strict=True):
        assert graph.edges.T.tolist() == np.argwhere(np.triu(matrix)).tolist()


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "both_directions", "classes"),
    [
        ("mutag", 188, 3371, 7442, [63, 125]),
        ("ptc-mr", 344, 4915, 10108, [192, 152]),
        ("proteins", 1113, 43471, 162088, [663, 450]),
        ("imdb-binary", 1000, 19773, 193062, [500, 500]),
    ],
)
def test_real_files_have_the_counts_of_the_paper(
    shared_data: Path, name: str, graphs: int, nodes: int, both_directions: int, classes: list[int]
) -> None:
    dataset = datasets.load(name, shared_data)
    paper = dataset.card.paper
    assert paper is not None
    factor = 2 if paper.both_directions else 1
    assert len(dataset) == graphs == paper.graphs
    assert int(dataset.arrays.num_nodes.sum()) == nodes
    assert 2 * int(dataset.arrays.num_edges.sum()) == both_directions
    assert round(nodes / graphs, 1) == paper.nodes
    assert round(factor * float(dataset.arrays.num_edges.mean()), 1) == paper.edges
    assert np.bincount(np.asarray(dataset.targets)).tolist() == classes
    for spec, values in ((dataset.card.node, dataset.features.x), (dataset.card.edge, dataset.features.edge_attr)):
        assert (spec is None) == (values is None)
        if isinstance(spec, Categories) and values is not None:  # every label occurs: none is missing from the card
            assert np.unique(values).tolist() == list(range(*spec.sizes))


@pytest.mark.parametrize("name", list(NAMES))
def test_the_same_graphs_as_pyg_reads(shared_data: Path, tmp_path: Path, name: str) -> None:
    """PyG's reader, on the unpacked files in PyG's own layout."""
    folder = tmp_path / "data"
    with zipfile.ZipFile(shared_data / "tu" / f"{NAMES[name]}.zip") as archive:
        archive.extractall(folder)
    (folder / NAMES[name]).rename(folder / "raw")
    (folder / NAMES[name]).mkdir()
    (folder / "raw").rename(folder / NAMES[name] / "raw")
    dataset = datasets.load(name, folder)
    assert dataset.provenance.origin == "data folder"
    data, slices, sizes = read_tu_data(str(folder / NAMES[name] / "raw"), NAMES[name])
    assert np.array_equal(np.asarray(dataset.targets), data.y)
    for index in range(0, len(dataset), 7):
        graph = dataset.graphs[index]
        edges = slice(int(slices["edge_index"][index]), int(slices["edge_index"][index + 1]))
        assert torch.equal(graph.edge_index, data.edge_index[:, edges])
        if "x" in slices:
            nodes = slice(int(slices["x"][index]), int(slices["x"][index + 1]))
            labels = data.x[nodes, sizes["num_node_attributes"] :]
            assert torch.equal(one_hot(graph.x[:, 0], sizes["num_node_labels"]), labels)
        if "edge_attr" in slices:
            assert torch.equal(one_hot(graph.edge_attr[:, 0], sizes["num_edge_labels"]), data.edge_attr[edges])


def test_the_zip_and_its_files_are_read_alike_and_always_the_same(
    shared_data: Path, tmp_path: Path, cache: Path
) -> None:
    first = datasets.load("mutag", shared_data)
    (kept,) = (cache / "prepared").iterdir()
    before = kept.read_bytes()
    kept.unlink()
    again = datasets.load("mutag", shared_data)
    assert kept.read_bytes() == before
    with zipfile.ZipFile(shared_data / "tu" / "MUTAG.zip") as archive:
        archive.extractall(tmp_path / "data")
    unpacked = datasets.load("mutag", tmp_path / "data")
    for other in (again, unpacked):
        assert np.array_equal(first.arrays.edges, other.arrays.edges)
        for name in ("x", "edge_attr", "y"):
            assert torch.equal(getattr(first.features, name), getattr(other.features, name))
        assert {part: indices.tolist() for part, indices in first.split.items()} == {
            part: indices.tolist() for part, indices in other.split.items()
        }


def test_every_graph_is_tested_once_and_classes_are_dealt_out_evenly(shared_data: Path) -> None:
    folds = [datasets.load("mutag", shared_data, fold=fold) for fold in range(FOLDS)]
    y = np.asarray(folds[0].targets)
    assert sorted(np.concatenate([one.split["test"] for one in folds]).tolist()) == list(range(188))
    for one in folds:
        parts = np.concatenate(list(one.split.values()))
        assert sorted(parts.tolist()) == list(range(188))  # no graph in two parts, none left out
        assert [len(one.split[part]) in (18, 19) for part in ("val", "test")] == [True, True]
        assert int(y[one.split["test"]].sum()) in (12, 13)  # 125 in ten folds
    assert "fold 3" in folds[3].card.split
    assert [indices.tolist() for indices in datasets.load("mutag", shared_data).split.values()] == [
        indices.tolist() for indices in folds[0].split.values()
    ]


def test_the_papers_protocol_has_nine_folds_for_training(shared_data: Path) -> None:
    inner, paper = (datasets.load("mutag", shared_data, fold=9, validation=way) for way in ("inner", "test"))
    assert paper.split["val"].tolist() == paper.split["test"].tolist() == inner.split["test"].tolist()
    assert len(paper.split["train"]) + len(paper.split["test"]) == 188


@pytest.mark.parametrize(
    "options",
    [{"fold": 10}, {"fold": -1}, {"fold": "1"}, {"fold": True}, {"validation": "none"}, {"folds": 1}],
    ids=str,
)
def test_options_that_do_not_exist_are_refused(shared_data: Path, options: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="expected"):
        datasets.load("mutag", shared_data, **options)


def test_cards_name_every_column() -> None:
    for name in NAMES:
        card = BENCHMARKS[name].card
        assert len(card.node_columns) == (0 if card.node is None else 1)
        assert len(card.edge_columns) == (0 if card.edge is None else 1)
        assert card.outputs == 2


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("A", "", "MUTAG_A.txt.* is empty"),
        ("A", "\n\n", "holds no numbers; expected 2 whole numbers"),
        ("A", TEXTS["A"][:-5], "line 1: got the edge 4, 5; expected the other direction"),
        ("A", TEXTS["A"][:-2], "line 6: got '5, '; expected 2 whole numbers"),
        ("A", TEXTS["A"].replace("2, 3", "2, three"), "line 4: got '2, three'"),
        ("A", TEXTS["A"].replace("2, 3", "2, 3.5"), "line 4: got '2, 3.5'"),
        ("A", TEXTS["A"].replace("2, 3", "2, 3, 4"), "line 4: got '2, 3, 4'"),
        ("A", TEXTS["A"].replace("2, 3", "2, 99999999999999999999"), "line 4: got"),
        ("A", TEXTS["A"].replace("2, 3", "2, 6"), "line 4: got the edge 2, 6; expected node numbers from 1 to 5"),
        ("A", TEXTS["A"].replace("2, 3", "0, 3"), "line 4: got the edge 0, 3; expected node numbers from 1"),
        ("A", TEXTS["A"].replace("2, 3", "2, 4"), "line 4: got the edge 2, 4; expected both nodes in the same graph"),
        ("A", b"\xff\xfe4\x00,\x005\x00", "line 1: got"),
        ("graph_indicator", "1\n1\n2\n1\n2\n", "line 4: got graph 1; expected rising numbers"),
        ("graph_indicator", "1\n1\n1\n2\n3\n", "line 5: got graph 3; expected 1 to 2"),
        ("graph_indicator", "0\n1\n1\n2\n2\n", "line 1: got graph 0; expected 1 to 2"),
        ("graph_indicator", "1\n1\n1\n1\n1\n", "names no node of graph 2 of 2"),
        ("graph_labels", "1\n0\n", "line 2: got the class 0; expected -1 or 1"),
        ("graph_labels", "1\n", "line 4: got graph 2; expected 1 to 1"),
        ("graph_labels", "1\n-1\n1\n", "names no node of graph 3 of 3"),
        ("node_labels", "0\n6\n2\n3\n", "has 4 lines; expected 5"),
        ("node_labels", "0\n7\n2\n3\n0\n", "row 2: column 1 holds 7; expected a category from 0 to 6"),
        ("node_labels", "0\n-1\n2\n3\n0\n", "row 2: column 1 holds -1"),
        ("edge_labels", "3\n1\n1\n0\n0\n", "has 5 lines; expected 6"),
        ("edge_labels", "3\n1\n2\n0\n0\n3\n", "different edge features"),
    ],
)
def test_damaged_text_is_refused_with_its_line(
    tmp_path: Path, cache: Path, part: str, text: str | bytes, message: str
) -> None:
    packed(tmp_path, {**TEXTS, part: text})
    with pytest.raises(FileFormatError, match=message) as caught:
        datasets.load("mutag", tmp_path)
    assert "MUTAG.zip" in str(caught.value)
    assert not (cache / "prepared").exists()  # nothing half written


def test_damaged_zips_are_refused(tmp_path: Path) -> None:
    path = packed(tmp_path, TEXTS)
    whole = path.read_bytes()
    for content, message in (
        (b"", "not a whole zip"),
        (whole[: len(whole) // 2], "not a whole zip"),
        (b"no zip", "not a whole zip"),
        (whole.replace(whole[40:60], bytes(20)), "MUTAG.zip"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=message):
            datasets.load("mutag", tmp_path)
    packed(tmp_path, {part: text for part, text in TEXTS.items() if part != "node_labels"})
    with pytest.raises(FileFormatError, match=r"holds no MUTAG_node_labels\.txt; .* got MUTAG/"):
        datasets.load("mutag", tmp_path)


def test_a_zip_that_unpacks_to_absurd_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip of some kilobytes may hold gigabytes of zeros."""
    monkeypatch.setattr(DataFile.read, "__defaults__", (1000,))
    packed(tmp_path, TEXTS | {"A": "1, 2\n" * 300})
    with pytest.raises(FileFormatError, match=r"MUTAG_A\.txt.* holds more than 1,000 bytes"):
        datasets.load("mutag", tmp_path)
