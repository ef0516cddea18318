"""Long Range Graph Benchmark: small files in the official formats, read as PyG reads them."""

from __future__ import annotations

import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.datasets import LRGBDataset

from pointset import datasets
from pointset.datasets.benchmarks import long_range as lrgb_files
from pointset.datasets.dataset import Dataset
from pointset.datasets.loading import BENCHMARKS
from pointset.datasets.splits import PARTS
from pointset.errors import FileFormatError

SIZES = {"train": 4, "val": 2, "test": 3}
ZIPS = {
    "pascalvoc-sp": ("pascalvocsp.zip", "voc_superpixels_edge_wt_region_boundary"),
    "peptides-func": ("peptidesfunc.zip", "peptidesfunc"),
    "peptides-struct": ("peptidesstruct.zip", "peptidesstruct"),
}
Graph = tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("POINTSET_CACHE", str(folder))
    monkeypatch.delenv("POINTSET_DATA", raising=False)
    return folder


def random_graph(name: str, rng: np.random.Generator, nodes: int) -> Graph:
    """A ring with both directions of every edge, as the official files list them; x and y of the official types."""
    pairs = [(node, (node + 1) % nodes) for node in range(nodes)] if nodes > 2 else [(0, nodes - 1)]
    attributes = rng.random((len(pairs), 2)) if name == "pascalvoc-sp" else rng.integers(0, 2, (len(pairs), 3))
    both = torch.tensor(pairs + ([(v, u) for u, v in pairs] if nodes > 1 else [])).T.contiguous()
    edge_attr = torch.from_numpy(np.concatenate([attributes, attributes])[: both.shape[1]])
    if name == "pascalvoc-sp":
        x = torch.from_numpy(rng.random((nodes, 14))).half()
        return x, edge_attr, both, rng.integers(0, 21, nodes).astype(np.int32)
    x = torch.from_numpy(rng.integers(0, 2, (nodes, 9)))
    width = 10 if name == "peptides-func" else 11
    y = rng.integers(0, 2, (1, width)) if name == "peptides-func" else rng.standard_normal((1, width))
    return x, edge_attr, both, torch.from_numpy(y).float()


def graphs_of(name: str) -> dict[str, list[Graph]]:
    """Graphs of 1 to 5 nodes; the first of PascalVOC-SP is one node with an edge to itself."""
    rng = np.random.default_rng(3)
    start = 0 if name == "pascalvoc-sp" else 2
    return {part: [random_graph(name, rng, start + 1 + index) for index in range(size)] for part, size in SIZES.items()}


def write_raw(name: str, folder: Path, parts: dict[str, Any]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for part, graphs in parts.items():
        if name == "pascalvoc-sp":
            files.append(folder / f"{part}.pickle")
            files[-1].write_bytes(pickle.dumps(graphs))
        else:
            files.append(folder / f"{part}.pt")
            torch.save(graphs, files[-1])
    return files


def read_by_pyg(name: str, root: Path) -> dict[str, list[Any]]:
    """PyG's own processing of the raw files; it writes ``processed`` beside ``raw``."""
    parts = {part: [data.sort() for data in LRGBDataset(str(root), name, split=part)] for part in PARTS}
    for data in (data for graphs in parts.values() for data in graphs):
        if data.num_nodes == 1:  # the loop that stands for no edge
            data.edge_index, data.edge_attr = data.edge_index[:, :0], data.edge_attr[:0]
    return parts


def assert_same_graphs(dataset: Dataset, expected: dict[str, list[Any]]) -> None:
    assert {part: len(indices) for part, indices in dataset.split.items()} == SIZES
    for part, graphs in expected.items():
        for index, data in zip(dataset.split[part], graphs, strict=True):
            ours = dataset.graphs[int(index)]
            for field in ("x", "edge_index", "edge_attr", "y"):
                assert torch.equal(ours[field], data[field]), (part, index, field)
                assert ours[field].dtype == data[field].dtype


@pytest.mark.filterwarnings("ignore:Weights only load failed")  # PyG, of the file that it wrote itself
@pytest.mark.parametrize("name", list(ZIPS))
def test_raw_processed_and_zipped_files_give_the_graphs_that_pyg_gives(name: str, tmp_path: Path) -> None:
    root = tmp_path / "pyg"
    files = write_raw(name, root / name / "raw", graphs_of(name))
    expected = read_by_pyg(name, root)
    raw = datasets.load(name, root)
    assert raw.provenance.source.endswith("raw")
    assert_same_graphs(raw, expected)

    zipped, inside = ZIPS[name]
    (tmp_path / "zip").mkdir()
    with zipfile.ZipFile(tmp_path / "zip" / zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, f"{inside}/{file.name}")
            file.unlink()
    assert_same_graphs(datasets.load(name, tmp_path / "zip"), expected)
    processed = datasets.load(name, root)
    assert processed.provenance.source.endswith("processed")
    assert_same_graphs(processed, expected)


def test_an_image_of_one_superpixel_has_points(tmp_path: Path) -> None:
    write_raw("pascalvoc-sp", tmp_path / "pascalvoc-sp" / "raw", graphs_of("pascalvoc-sp"))
    dataset = datasets.load("pascalvoc-sp", tmp_path)
    assert dataset.graphs[0].num_edges == 0  # the file has a loop
    assert dataset.points()[0].num_nodes == 1


def test_classes_of_superpixels_belong_to_nodes(tmp_path: Path) -> None:
    write_raw("pascalvoc-sp", tmp_path / "pascalvoc-sp" / "raw", graphs_of("pascalvoc-sp"))
    dataset = datasets.load("pascalvoc-sp", tmp_path)
    assert dataset.targets is not None and len(dataset.targets) == int(dataset.arrays.num_nodes.sum())
    assert {part: len(indices) for part, indices in dataset.split.items()} == SIZES


def test_cards_say_what_the_benchmark_says() -> None:
    voc, func, struct = (BENCHMARKS[name].card for name in ZIPS)
    assert sum(voc.split_sizes.values()) == 11_355
    assert (voc.outputs, voc.level, voc.classes[0], voc.classes[15]) == (21, "node", "background", "person")
    assert len(voc.node_columns) == 14 and len(voc.edge_columns) == 2
    assert sum(func.split_sizes.values()) == sum(struct.split_sizes.values()) == 15_535
    assert (func.outputs, struct.outputs) == (10, 11)
    assert struct.target_names[0] == "Inertia_mass_a" and struct.target_names[8:] == (
        "length_c",
        "Spherocity",
        "Plane_best_fit",
    )


def changed(graph: Graph, **fields: Any) -> Graph:
    names = ("x", "edge_attr", "edge_index", "y")
    return tuple(fields.get(name, value) for name, value in zip(names, graph, strict=True))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": torch.zeros(3, 13)}, r"val.pickle, graph 1: x has shape \(3, 13\); expected \(3, 14\)"),
        ({"edge_attr": torch.zeros(6, 1)}, r"graph 1: edge_attr has shape \(6, 1\); expected \(6, 2\)"),
        ({"edge_index": torch.zeros(6, 2)}, r"graph 1: edge_index has shape \(6, 2\)"),
        ({"edge_index": torch.full((2, 6), 3)}, "names a node outside"),
        ({"edge_index": torch.zeros(2, 6)}, "edge_index is of type float"),
        ({"y": [0, 1]}, r"graph 1: y has shape \(2,\); expected \(3,\)"),
        ({"y": [0, 1, 21]}, "y, row 5: column 1 holds 21; expected a category from 0 to 20"),
        ({"y": [0, 1, 255]}, "y, row 5: column 1 holds 255"),
        ({"y": [0.5, 1, 2]}, "y is of type float64; expected whole numbers"),
        ({"y": ["a", "b", "c"]}, "graph 1, y: got list of 3; expected numbers"),
        ({"y": [[0], [1, 2], 3]}, "graph 1, y: got lists inside a list of 3; expected numbers"),
        ({"x": torch.full((3, 14), torch.nan)}, "x, row 3 holds NaN or infinity"),
        ({"edge_attr": torch.arange(12.0).reshape(6, 2)}, "different edge features"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_graphs_of_another_form_are_refused(tmp_path: Path, cache: Path, fields: dict[str, Any], message: str) -> None:
    rng = np.random.default_rng(0)
    parts = graphs_of("pascalvoc-sp") | {"val": [random_graph("pascalvoc-sp", rng, 2) for _ in range(2)]}
    parts["val"][1] = changed(random_graph("pascalvoc-sp", rng, 3), **fields)
    write_raw("pascalvoc-sp", tmp_path / "pascalvoc-sp" / "raw", parts)
    with pytest.raises(FileFormatError, match=message):
        datasets.load("pascalvoc-sp", tmp_path)
    assert not (cache / "prepared").exists()


class Opens:
    """Pickled, it is a program that writes a file when it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.path, "run")


@pytest.mark.parametrize("name", ["pascalvoc-sp", "peptides-func"])
def test_damaged_and_malicious_files_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name / "raw"
    _, file, _ = write_raw(name, folder, graphs_of(name))
    whole = file.read_bytes()
    for content in (
        b"",
        whole[: len(whole) // 2],
        b"text",
        pickle.dumps({"a": 1}),
        pickle.dumps([]),
        pickle.dumps([1]),
    ):
        file.write_bytes(content)
        with pytest.raises(FileFormatError, match=file.name):
            datasets.load(name, tmp_path)
    write_raw(name, folder, graphs_of(name) | {"val": [Opens(tmp_path / "trace")]})
    with pytest.raises(FileFormatError, match="Nothing was run"):
        datasets.load(name, tmp_path)
    assert not (tmp_path / "trace").exists()


def test_a_damaged_zip_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_raw("pascalvoc-sp", tmp_path / "raw", graphs_of("pascalvoc-sp"))
    path = tmp_path / "pascalvocsp.zip"

    def refused(message: str) -> None:
        with pytest.raises(FileFormatError, match=message) as caught:
            datasets.load("pascalvoc-sp", tmp_path)
        assert "pascalvocsp.zip" in str(caught.value)

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
    whole = path.read_bytes()
    middle = len(whole) // 3
    monkeypatch.setattr(lrgb_files, "_LARGEST", 100)
    refused("holds more than 100 bytes")
    monkeypatch.undo()
    for content, message in (
        (whole[:middle], "not a whole zip"),
        (b"\0\0\0\0" + whole[4:], "train.pickle.* cannot be read"),
        (whole[:middle] + bytes(50) + whole[middle + 50 :], "pickle"),
    ):
        path.write_bytes(content)
        refused(message)
    number = struct.pack("<d", float(graphs_of("pascalvoc-sp")["val"][0][1][0, 0]))
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            archive.write(file, file.name)
    path.write_bytes(path.read_bytes().replace(number, struct.pack("<d", 0.5), 1))  # still a good pickle
    refused("val.pickle.*CRC")
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(files[0], files[0].name)
    refused("holds no val.pickle")


@pytest.mark.filterwarnings("ignore:Weights only load failed")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data, slices: data.pop("y"), "val.pt has no y; expected x, edge_index, edge_attr, y with slices"),
        (lambda data, slices: slices.pop("x"), "val.pt has no x"),
        (lambda data, slices: slices["x"].sub_(1), "slices of x: got Tensor .* rise from 0"),
        (lambda data, slices: slices["y"].mul_(2), "y and its slices do not fit the others"),
        (lambda data, slices: slices["x"].mul_(2), "x and its slices do not fit the others"),
        (lambda data, slices: data.update(x=data["x"][:, :4]), "x has shape"),
        (
            lambda data, slices: data.update(x=torch.ones(1).expand(10**12, 9)),
            "claims more numbers than the file holds",
        ),
        (lambda data, slices: data.update(y=data["y"].double() * 1e300), "y, row 1 holds NaN or infinity"),
    ],
    ids=["no y", "no slices", "negative", "y of more graphs", "more nodes", "columns", "bomb", "too large"],
)
def test_damaged_processed_files_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    files = write_raw("peptides-func", tmp_path / "peptides-func" / "raw", graphs_of("peptides-func"))
    read_by_pyg("peptides-func", tmp_path)
    for file in files:
        file.unlink()
    path = tmp_path / "peptides-func" / "processed" / "val.pt"
    data, slices, kind = torch.load(path, weights_only=False)
    change(data, slices)
    torch.save((data, slices, kind), path)
    with pytest.raises(FileFormatError, match=message):
        datasets.load("peptides-func", tmp_path)
