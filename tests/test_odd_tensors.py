"""Tensors that hold no plain numbers, in files of torch.save: refused by name and with the remedy, without a crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import pointset
from pointset.datasets.safe_pickle import read_torch
from pointset.errors import FileFormatError, GraphError
from tests.command_line import invoke

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
ODD: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "meta": (lambda tensor: tensor.to("meta"), "'meta', which holds no numbers"),
    "quantised": (lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8), r"\.dequantize\(\)"),
    "quantised by channel": (
        lambda tensor: torch.quantize_per_channel(
            tensor, torch.ones(len(tensor)), torch.zeros(len(tensor)), 0, torch.qint8
        ),
        r"\.dequantize\(\)",
    ),
    "nested": (lambda tensor: torch.nested.nested_tensor(list(tensor)), r"\.to_padded_tensor\(0\)"),
    "sparse": (lambda tensor: tensor.to_sparse(), r"\.to_dense\(\)"),
    "rows of 8 bits": (lambda tensor: tensor.to(torch.float8_e4m3fn), r"\.float\(\)"),
}
FIELDS = {"x": (3, 2), "pos": (3, 3), "edge_attr": (4, 2), "y": (1, 2), "edge_weight": (4, 1)}


def made(kind: str, size: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about prototypes
        return ODD[kind][0](torch.rand(size))


def saved(path: Path, content: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(content, path)
    return path


@pytest.mark.parametrize("kind", ODD)
def test_a_graph_with_it_is_left_out_and_the_others_stay(tmp_path: Path, kind: str) -> None:
    odd = [Data(edge_index=EDGES, num_nodes=3, **{name: made(kind, size)}) for name, size in FIELDS.items()]
    file = saved(tmp_path / "graphs.pt", [*odd, Data(edge_index=EDGES, num_nodes=3)])
    said, warned = invoke("convert", file, tmp_path / "points.safetensors")
    assert "1 of 6 graphs" in said
    for number, name in enumerate(FIELDS):
        assert f"left out graphs.pt[{number}]: {name} is a" in warned
    _, warned = invoke("inspect", file)
    assert warned.count("left out") == 5
    said, warned = invoke("datasets", "check", file, code=1)
    assert "edge_weight is a" in warned + said and "5 of 6 graphs" in warned + said


@pytest.mark.parametrize("kind", ODD)
def test_edges_and_whole_datasets(tmp_path: Path, kind: str) -> None:
    message = ODD[kind][1].replace("\\", "")
    file = saved(tmp_path / "one.pt", Data(edge_index=made(kind, (2, 4)), num_nodes=3))
    _, warned = invoke("convert", file, tmp_path / "points.safetensors", code=1)
    assert f"left out {file.name}: edge_index is a" in warned and message in warned
    slices = {"edge_index": torch.tensor([0, 4]), "x": torch.tensor([0, 3])}
    whole = Data(edge_index=EDGES, x=made(kind, (3, 2)))
    for content in ((whole, slices), (Data(edge_index=EDGES), slices | {"x": made(kind, (2, 1))})):
        _, warned = invoke("inspect", saved(tmp_path / "dataset.pt", content), code=1)
        assert "Error: dataset.pt: x" in warned and message in warned


@pytest.mark.parametrize("kind", ODD)
def test_readers_of_benchmarks_and_the_library(tmp_path: Path, kind: str) -> None:
    with pytest.raises(FileFormatError, match=ODD[kind][1]):
        read_torch(saved(tmp_path / "file.pt", [{"x": made(kind, (3, 2))}]))
    with pytest.raises(GraphError, match=ODD[kind][1]):
        pointset.to_points(Data(edge_index=EDGES, edge_weight=made(kind, (4, 1)), num_nodes=3))


def test_what_torch_computes_with_is_read(tmp_path: Path) -> None:
    """bfloat16, gradients, views and parameters are numbers like any others."""
    fields = {"x": torch.rand(3, 2).bfloat16(), "pos": torch.rand(6, 6)[::2, ::2].requires_grad_()}
    file = saved(tmp_path / "graphs.pt", [Data(edge_index=EDGES, num_nodes=3, y=torch.ones(1), **fields)] * 12)
    assert "12 graphs" in invoke("datasets", "check", file)[0]
    invoke("convert", file, tmp_path / "points.safetensors")
    invoke("convert", tmp_path / "points.safetensors", tmp_path / "again.pt")
    (first, *_) = torch.load(tmp_path / "again.pt", weights_only=False)
    assert torch.equal(first.x, fields["x"]) and torch.equal(first.pos, fields["pos"])
