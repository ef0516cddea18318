"""Files of points: what goes in comes out bit for bit, and a bad file is named as such."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch_geometric.data import Data

import pointset
from pointset.errors import FileFormatError
from pointset.points import point_files as point_file_writer
from pointset.points.point_files import read_points, write_points
from pointset.points.point_set import PointSet


def assert_same_points(one: PointSet, other: PointSet) -> None:
    for field in dataclasses.fields(PointSet):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Tensor):
            assert isinstance(b, Tensor), field.name
            assert (a.dtype, a.shape) == (b.dtype, b.shape), field.name
            assert torch.equal(a, b), field.name
        else:
            assert a == b, field.name


def triangle(**features: Tensor) -> Data:
    edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    return Data(edge_index=edges, num_nodes=3, **features)


def all_kinds_of_points() -> list[PointSet]:
    weighted = nx.Graph([(0, 1, {"weight": 0.3}), (1, 2, {"weight": 2.5})])
    return [
        pointset.to_points(nx.karate_club_graph()),
        pointset.to_points(nx.empty_graph(0)),
        pointset.to_points(nx.empty_graph(1), dtype=torch.float32),
        pointset.to_points(nx.cycle_graph(9), rank=3),
        pointset.to_points(weighted, matrix="normalized_adjacency"),  # carries degrees
        pointset.to_points(triangle(x=torch.randn(3, 4)), dtype=torch.float32),
        pointset.to_points(triangle(x=torch.arange(3), y=torch.tensor(2.5)), matrix="adjacency"),
        pointset.to_points(triangle(x=torch.randn(3, 2, 2, dtype=torch.float64), y=torch.tensor([[1, 2]]))),
        pointset.to_points(triangle(edge_attr=torch.tensor([1, 1, 2, 2, 3, 3]), pos=torch.randn(3, 3))),
        pointset.to_points(triangle(x=torch.tensor([True, False, True]), y=torch.zeros(0, 2)), matrix="augmented"),
    ]


def test_points_come_back_bit_for_bit(tmp_path: Path) -> None:
    points = all_kinds_of_points()
    names = [f"graph {index} – ü\n" for index in range(len(points))]
    write_points(tmp_path / "points.safetensors", points, names)
    back, back_names = read_points(tmp_path / "points.safetensors")
    assert back_names == names
    assert len(back) == len(points)
    for one, other in zip(points, back, strict=True):
        assert_same_points(one, other)
    assert back.num_nodes.tolist() == [one.num_nodes for one in points]
    assert back.ranks.tolist() == [one.rank for one in points]
    assert back.matrices == ["adjacency", "augmented", "laplacian", "normalized_adjacency"]
    assert_same_points(back[-1], points[-1])
    assert [one.num_nodes for one in back[1:3]] == [0, 1]


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 8), max_size=6),
    widths=st.lists(st.sampled_from([None, 1, 3]), min_size=6, max_size=6),
    seed=st.integers(0, 999),
)
def test_any_mixture_of_features_comes_back(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], widths: list[int | None], seed: int
) -> None:
    torch.manual_seed(seed)
    points = []
    for size, width in zip(sizes, widths, strict=False):
        graph = nx.gnp_random_graph(size, 0.4, seed=seed)
        one = pointset.to_points(graph)
        points.append(one if width is None else dataclasses.replace(one, x=torch.randn(size, width)))
    path = tmp_path_factory.mktemp("points") / "points.safetensors"
    write_points(path, points)
    back, names = read_points(path)
    assert names == [str(index) for index in range(len(points))]
    for one, other in zip(points, back, strict=True):
        assert_same_points(one, other)


def test_many_points_at_once_and_the_graph_behind_them(tmp_path: Path) -> None:
    graphs = [nx.gnp_random_graph(5 + index % 4, 0.5, seed=index) for index in range(30)]
    write_points(tmp_path / "points.safetensors", pointset.to_points_many(graphs))
    back, _ = read_points(tmp_path / "points.safetensors")
    for graph, points in zip(graphs, back, strict=True):
        assert pointset.to_graph(points).edge_index.shape[1] == 2 * graph.number_of_edges()


def test_no_points_at_all(tmp_path: Path) -> None:
    write_points(tmp_path / "none.safetensors", [])
    back, names = read_points(tmp_path / "none.safetensors")
    assert len(back) == 0
    assert names == []


def test_names_must_be_as_many_as_points(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="got 2 names for 1 point sets"):
        write_points(tmp_path / "points.safetensors", [pointset.to_points(nx.path_graph(2))], ["a", "b"])


def test_a_failing_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "points.safetensors"
    good = pointset.to_points(nx.path_graph(3))
    write_points(path, [good])
    before = path.read_bytes()
    bad = dataclasses.replace(good, x=torch.eye(3).to_sparse())
    with pytest.raises(FileFormatError, match="to_dense"):
        write_points(path, [bad])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "points.safetensors"
    write_points(path, all_kinds_of_points())
    return path


def test_a_file_cut_short_at_any_place_is_refused(stored: Path) -> None:
    whole = stored.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        stored.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="not a readable safetensors file"):
            read_points(stored)


def test_a_flipped_bit_anywhere_is_noticed(stored: Path) -> None:
    whole = bytearray(stored.read_bytes())
    start = 8 + int.from_bytes(whole[:8], "little")
    for at in [*range(start, len(whole), 997), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        stored.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="checksum"):
            read_points(stored)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, tmp_path / "model.safetensors")
    with pytest.raises(FileFormatError, match="not one of points"):
        read_points(tmp_path / "model.safetensors")
    (tmp_path / "text.safetensors").write_text("hello, this is no file of arrays")
    with pytest.raises(FileFormatError, match="not a readable safetensors file"):
        read_points(tmp_path / "text.safetensors")


def test_a_newer_version_asks_for_an_update(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_file_writer, "VERSION", 2)
    write_points(stored, [pointset.to_points(nx.path_graph(2))])
    monkeypatch.undo()
    with pytest.raises(FileFormatError, match=r"version '2'.*Update pointset"):
        read_points(stored)


def forge(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change arrays and make the checksums fit again, as an attacker would."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata())
    change(tensors)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    checksums = {name: point_file_writer.checksum_of(tensor) for name, tensor in tensors.items()}
    metadata["checksums"] = json.dumps(checksums)
    save_file(tensors, path, metadata=metadata)


HOSTILE: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "negative number of nodes": lambda t: t["num_nodes"].__setitem__(0, -1),
    "more nodes than points": lambda t: t["num_nodes"].__setitem__(0, 35),
    "nodes that overflow": lambda t: t["num_nodes"].fill_(2**62),
    "ranks that overflow in a product": lambda t: (t["num_nodes"].fill_(2**31 - 1), t["ranks"].fill_(2**31 - 1)),
    "rank above the nodes": lambda t: t["ranks"].__setitem__(1, 1),
    "unknown kind of weight": lambda t: t["weight_kind"].fill_(7),
    "matrix out of range": lambda t: t["matrix"].fill_(9),
    "unknown matrix": lambda t: t.update(matrix_names=point_file_writer._as_bytes(["a", "b", "c", "d"])),
    "counts of another type": lambda t: t.update(num_nodes=t["num_nodes"].double()),
    "counts of another length": lambda t: t.update(num_edges=t["num_edges"][:-1]),
    "counts with two axes": lambda t: t.update(num_edges=t["num_edges"].reshape(-1, 1)),
    "block out of range": lambda t: t["x.block"].fill_(99),
    "block below -1": lambda t: t["x.block"].fill_(-2),
    "no eigenpairs": lambda t: t["eigenvalues.block"].fill_(-1),
    "eigenpairs of whole numbers": lambda t: t.update({"eigenvalues.0": t["eigenvalues.0"].long()}),
    "eigenpairs with two axes": lambda t: t.update({"eigenvalues.0": t["eigenvalues.0"].reshape(-1, 1)}),
    "too few eigenvectors": lambda t: t.update({"eigenvectors.0": t["eigenvectors.0"][:-1]}),
    "a scalar as a block": lambda t: t.update({"x.0": torch.tensor(1.0)}),
    "edges to nowhere": lambda t: t["edge_index.0"].fill_(3),
    "negative edges": lambda t: t["edge_index.0"].fill_(-1),
    "edges of another type": lambda t: t.update({"edge_index.0": t["edge_index.0"].float()}),
    "edges without features": lambda t: (t["edge_attr.block"].fill_(-1), t.pop("edge_attr.0")),
    "degrees of whole numbers": lambda t: t.update({"degrees.0": t["degrees.0"].long()}),
    "truncation of another shape": lambda t: t.update(truncation=t["truncation"][:, :2]),
    "an array is missing": lambda t: t.pop("ranks"),
    "names that are no JSON": lambda t: t.update(names=torch.zeros(5, dtype=torch.uint8)),
    "names that are numbers": lambda t: t.update(names=point_file_writer._as_bytes([1] * 10)),  # type: ignore[list-item]
    "names as numbers": lambda t: t.update(names=torch.zeros(5)),
    "too few names": lambda t: t.update(names=point_file_writer._as_bytes(["a"])),
    "targets out of range": lambda t: t["y_rows"].fill_(-5),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_forged_file_is_refused_with_its_name(stored: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    forge(stored, change)
    with pytest.raises(FileFormatError, match=r"points\.safetensors"):
        read_points(stored)


def test_an_unforged_copy_is_read(stored: Path) -> None:
    """The forger itself must not be what is refused above."""
    forge(stored, lambda tensors: None)
    assert len(read_points(stored)[0]) == len(all_kinds_of_points())
