"""ZINC: the official files in all their forms give the same graphs, and the shared ones the published numbers."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.datasets import ZINC

from pointset.datasets import Dataset, load
from pointset.errors import FileFormatError

PARTS = ("train", "val", "test")
SIZES = {"train": 9, "val": 4, "test": 3}
CHOSEN = {"train": [7, 0, 3, 8], "val": [1, 3], "test": [2, 0]}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POINTSET_DATA", raising=False)


def molecule(generator: torch.Generator) -> dict[str, Any]:
    """One molecule as the official files have it."""
    count = int(torch.randint(1, 9, (), generator=generator))
    half = torch.randint(0, 4, (count, count), generator=generator).triu(1)
    return {
        "num_atom": count,
        "atom_type": torch.randint(0, 28, (count,), generator=generator),
        "bond_type": half + half.T,
        "logP_SA_cycle_normalized": torch.randn(1, generator=generator),
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root folder of PyG's ZINC with raw files only, of molecules made up here."""
    raw = tmp_path / "root" / "raw"
    raw.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    for part, size in SIZES.items():
        (raw / f"{part}.pickle").write_bytes(pickle.dumps([molecule(generator) for _ in range(size)]))
        (raw / f"{part}.index").write_text(",".join(map(str, CHOSEN[part])) + "\n")
    return raw.parent


def by_pyg(root: Path, *, subset: bool) -> Iterator[tuple[str, Any]]:
    """What PyG makes of the files, part after part."""
    for part in PARTS:
        yield from ((part, data) for data in ZINC(str(root), subset=subset, split=part))


def assert_same_graphs(dataset: Dataset, root: Path, *, subset: bool) -> None:
    expected = list(by_pyg(root, subset=subset))
    assert len(dataset) == len(expected)
    for index, ((part, data), graph) in enumerate(zip(expected, dataset.graphs, strict=True)):
        assert index in dataset.split[part]
        assert torch.equal(graph.x, data.x)
        assert torch.equal(graph.edge_index, data.edge_index)
        assert torch.equal(graph.edge_attr[:, 0], data.edge_attr)
        assert torch.equal(graph.y, data.y.view(1, 1))


@pytest.mark.parametrize(("name", "subset"), [("zinc", True), ("zinc-full", False)])
def test_raw_and_processed_files_give_the_graphs_that_pyg_gives(
    name: str, subset: bool, root: Path, tmp_path: Path
) -> None:
    raw = load(name, root, download=False)
    assert raw.provenance.source == "official files"
    assert {part: len(chosen) for part, chosen in raw.split.items()} == (
        {part: len(chosen) for part, chosen in CHOSEN.items()} if subset else SIZES
    )
    assert_same_graphs(raw, root, subset=subset)  # PyG writes its processed files
    processed = load(name, root, download=False)
    assert processed.provenance.source == "PyG's processed files"
    assert_same_graphs(processed, root, subset=subset)
    (tmp_path / "data").mkdir()
    root.rename(tmp_path / "data" / "ZINC")
    assert_same_graphs(load(name, tmp_path / "data", download=False), tmp_path / "data" / "ZINC", subset=subset)


@pytest.mark.parametrize(("name", "subset"), [("zinc", True), ("zinc-full", False)])
def test_the_official_zip_is_read_without_unpacking(name: str, subset: bool, root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "downloads" / name  # where a download puts it
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "molecules.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in PARTS:
            archive.write(root / "raw" / f"{part}.pickle", f"molecules/{part}.pickle")
            if subset:
                (folder / f"{part}.index").write_bytes((root / "raw" / f"{part}.index").read_bytes())
    dataset = load(name, download=False)
    assert dataset.provenance.origin == "cache"
    assert_same_graphs(dataset, root, subset=subset)
    assert len(list(folder.iterdir())) == (4 if subset else 1)  # nothing was unpacked


def test_whole_numbers_may_be_stored_as_real_ones(root: Path) -> None:
    expected = load("zinc", root, download=False)
    for part in PARTS:
        path = root / "raw" / f"{part}.pickle"
        molecules = pickle.loads(path.read_bytes())
        for one in molecules:
            one.update(atom_type=one["atom_type"].float(), bond_type=one["bond_type"].to(torch.uint8))
        path.write_bytes(pickle.dumps(molecules, 2))
    got = load("zinc", root, download=False)
    assert got.features.x is not None and expected.features.x is not None
    assert torch.equal(got.features.x, expected.features.x)
    assert np.array_equal(got.arrays.edges, expected.arrays.edges)


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").rglob("*")) if (tmp_path / "cache").exists() else []


def assert_refused(tmp_path: Path, root: Path, *words: str, name: str = "zinc") -> None:
    with pytest.raises(FileFormatError) as caught:
        load(name, root, download=False)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not [path for path in kept(tmp_path) if path.is_file()]  # nothing half written


def broken(**changes: Any) -> dict[str, Any]:
    """A molecule of which something is wrong."""
    whole = molecule(torch.Generator().manual_seed(1)) | changes
    return {key: value for key, value in whole.items() if value is not None}


BROKEN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no target": (broken(logP_SA_cycle_normalized=None), ("molecule 1", "logP_SA_cycle_normalized")),
    "no atoms": (broken(atom_type=None), ("molecule 1", "atom_type")),
    "a list": ([1, 2], ("molecule 1", "expected a dict")),
    "matrix that is not square": (broken(bond_type=torch.ones(2, 3)), ("molecule 1", "(n, n)")),
    "text": (broken(atom_type="CCO"), ("molecule 1", "atom_type", "expected numbers")),
    "half a bond": (
        broken(atom_type=torch.zeros(2), bond_type=torch.tensor([[0, 0.5], [0.5, 0]])),
        ("molecule 1", "bond_type", "whole"),
    ),
    "NaN for an atom": (
        broken(atom_type=torch.tensor([torch.nan]), bond_type=torch.zeros(1, 1)),
        ("molecule 1", "atom_type"),
    ),
    "NaN": (broken(logP_SA_cycle_normalized=torch.tensor([torch.nan])), ("logP_SA_cycle_normalized", "NaN")),
    "two targets": (broken(logP_SA_cycle_normalized=torch.ones(2)), ("molecule 1", "one number")),
    "atom that does not exist": (
        broken(atom_type=torch.tensor([28]), bond_type=torch.zeros(1, 1)),
        ("atom_type", "28"),
    ),
    "bond that does not exist": (
        broken(atom_type=torch.zeros(2, dtype=torch.long), bond_type=torch.tensor([[0, 4], [4, 0]])),
        ("bond_type", "4"),
    ),
    "directed": (
        broken(atom_type=torch.zeros(2, dtype=torch.long), bond_type=torch.tensor([[0, 1], [2, 0]])),
        ("graph 10", "different edge features"),
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_molecules_that_are_wrong_are_named(case: str, root: Path, tmp_path: Path) -> None:
    wrong, words = BROKEN[case]
    good = molecule(torch.Generator().manual_seed(2))
    (root / "raw" / "val.pickle").write_bytes(pickle.dumps([good, wrong, good, good]))
    assert_refused(tmp_path, root, "val.pickle", *words, name="zinc-full")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "whole numbers"),
        (b"0,a,1\n", "'0,a,1'"),
        (b"0,1,99\n", "molecule 99"),
        (b"-1\n", "-1"),
        (b"\xff\xfe", "whole"),
    ],
)
def test_index_files_that_are_wrong_are_named(content: bytes, word: str, root: Path, tmp_path: Path) -> None:
    (root / "raw" / "test.index").write_bytes(content)
    assert_refused(tmp_path, root, "test.index", word)


@pytest.mark.parametrize("keep", [0, 1, 50, 99])  # percent
def test_files_cut_short_are_named(keep: int, root: Path, tmp_path: Path) -> None:
    list(by_pyg(root, subset=True))
    for path in (root / "subset" / "processed" / "val.pt", root / "raw" / "val.pickle"):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) * keep // 100])
    assert_refused(tmp_path, root, "val.pt")
    (root / "subset").rename(tmp_path / "away")
    assert_refused(tmp_path, root, "val.pickle")


def test_a_damaged_zip_is_named(root: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(root / "molecules.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in PARTS:
            archive.write(root / "raw" / f"{part}.pickle", f"molecules/{part}.pickle")
    whole = (root / "molecules.zip").read_bytes()
    (root / "raw").rename(tmp_path / "away")
    for damage in (whole[:-30], whole[: len(whole) // 2], b"", whole[:60] + b"\0" * 60 + whole[120:]):
        (root / "molecules.zip").write_bytes(damage)
        assert_refused(tmp_path, root, "molecules.zip", name="zinc-full")
    with zipfile.ZipFile(root / "molecules.zip", "w") as archive:
        archive.writestr("molecules/train.pickle", b"")
    assert_refused(tmp_path, root, "molecules.zip", "val.pickle", name="zinc-full")


def test_nothing_in_a_pickle_is_run(root: Path, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "run",)

    (root / "raw" / "train.pickle").write_bytes(pickle.dumps([Hostile()]))
    assert_refused(tmp_path, root, "train.pickle", "Nothing was run")
    assert not (tmp_path / "run").exists()


def change(path: Path, edit: Any) -> None:
    """Save a processed file again with other content."""
    data, slices, kind = torch.load(path, weights_only=True)
    edit(data, slices)
    torch.save((data, slices, kind), path)


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (lambda data, slices: data.pop("x"), "no x"),
        (lambda data, slices: slices.pop("y"), "no y"),
        (lambda data, slices: data.update(x=data["x"][:-1]), "x"),
        (lambda data, slices: data.update(edge_attr=data["edge_attr"][:-1]), "edge_attr"),
        (lambda data, slices: data.update(edge_index=data["edge_index"][0]), "edge_index"),
        (lambda data, slices: data.update(y=data["y"] * torch.nan), "NaN"),
        (lambda data, slices: data.update(x=data["x"] - 100), "x"),
        (lambda data, slices: data.update(x="text"), "expected numbers"),
        (lambda data, slices: slices.update(x=slices["x"].flip(0)), "slices of x"),
        (lambda data, slices: slices.update(x=torch.tensor([0])), "slices of x"),
    ],
    ids=["no x", "no slices", "x short", "edges short", "edges flat", "NaN", "negative", "text", "falling", "empty"],
)
def test_processed_files_that_are_wrong_are_named(edit: Any, word: str, root: Path, tmp_path: Path) -> None:
    list(by_pyg(root, subset=True))
    change(root / "subset" / "processed" / "test.pt", edit)
    assert_refused(tmp_path, root, "test.pt", word)


def flat(**changes: Any) -> dict[str, Any]:
    """The flat arrays of two small molecules."""
    return {
        "num_nodes": np.array([2, 1]),
        "num_edges": np.array([1, 0]),
        "edges": np.array([[0, 1]]),
        "atom_type": np.array([0, 1, 2]),
        "bond_type": np.array([1]),
        "y": np.array([0.5, -1.0], dtype=np.float32),
        "split": np.array([0, 2]),
    } | changes


def test_flat_arrays_are_checked(tmp_path: Path) -> None:
    (tmp_path / "zinc").mkdir()
    path = tmp_path / "zinc" / "zinc12k.npz"
    wrong: dict[str, Any] = {
        "split": np.array([0, 3]),
        "edges": np.array([0, 1]),
        "y": np.array([0.5, np.nan]),
        "atom_type": np.array([0, 1, 28]),
        "bond_type": np.array([1.5]),
        "num_nodes": np.array([2.0, 1.0]),
        "num_edges": np.array([[1, 0]]),
    }
    for name, array in wrong.items():
        np.savez(path, **flat(**{name: array}))
        assert_refused(tmp_path, tmp_path, "zinc12k.npz", name)
    np.savez(path, **flat())
    dataset = load("zinc", tmp_path)
    assert dataset.graphs[0].edge_index.tolist() == [[0, 1], [1, 0]]
    assert dataset.split["test"].tolist() == [1]


@pytest.mark.parametrize(
    "header",
    [
        f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**15},)}}",  # more than any memory
        f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**30},)}}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,",
        "(" * 500,
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    ],
    ids=["huge", "beyond 64 bits", "cut short", "nested", "objects"],
)
def test_a_forged_array_is_refused(header: str, tmp_path: Path) -> None:
    (tmp_path / "zinc").mkdir()
    with zipfile.ZipFile(tmp_path / "zinc" / "zinc12k.npz", "w") as archive:
        for name in flat():
            archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode())
    assert_refused(tmp_path, tmp_path, "zinc12k.npz", "cannot be read as .npz")


# the shared files


def test_statistics_and_split_are_the_published_ones(shared_data: Path) -> None:
    dataset = load("zinc", shared_data)
    sizes = {part: len(indices) for part, indices in dataset.split.items()}
    assert sizes == dict(dataset.card.split_sizes) == {"train": 10_000, "val": 1_000, "test": 1_000}
    assert dataset.arrays.num_nodes.mean() == pytest.approx(23.16, abs=0.005)
    assert dataset.arrays.num_edges.mean() == pytest.approx(24.92, abs=0.005)
    y = dataset.targets
    assert isinstance(y, Tensor) and y.dtype == torch.float32 and y.shape == (12_000, 1)
    assert float(y[dataset.split["test"]].std()) == pytest.approx(1.9, abs=0.3)
    first = dataset.graphs[0]
    assert first.x.shape == (29, 1) and first.edge_index.shape == (2, 64) and first.y.shape == (1, 1)


def test_the_full_dataset_has_the_published_split(shared_data: Path) -> None:
    dataset = load("zinc-full", shared_data)
    sizes = {part: len(indices) for part, indices in dataset.split.items()}
    assert sizes == dict(dataset.card.split_sizes) == {"train": 220_011, "val": 24_445, "test": 5_000}
    assert len(dataset) == 249_456
    assert dataset.arrays.num_nodes.mean() == pytest.approx(23.15, abs=0.005)
    assert dataset.arrays.num_edges.mean() == pytest.approx(24.90, abs=0.005)


def test_loading_twice_gives_identical_bytes(shared_data: Path) -> None:
    first, second = load("zinc", shared_data), load("zinc", shared_data)  # read, then kept
    for name in ("x", "edge_attr", "y"):
        assert getattr(first.features, name).numpy().tobytes() == getattr(second.features, name).numpy().tobytes()
    assert first.arrays.edges.tobytes() == second.arrays.edges.tobytes()
