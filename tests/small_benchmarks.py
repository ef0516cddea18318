"""Datasets of four graphs made for tests: every task, every kind of feature, read from one small file."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.sources import Benchmark, Source
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError
from pointset.specs import Categories, Reals

FILE, CONTENT = "small/graphs.txt", b"four graphs\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAN = float("nan")

# a triangle; a path of 4; an edge and an isolated node; a node with a self-loop
NUM_NODES, NUM_EDGES = np.array([3, 4, 3, 1]), np.array([3, 3, 1, 1])
EDGES = np.array([[0, 0, 1, 0, 1, 2, 0, 0], [1, 2, 2, 1, 2, 3, 1, 0]])
NODES, EDGE_COUNT = 11, 8
PAPER = PaperRow(4, 2.8, 2.0)  # 11 / 4 = 2.75
SPLIT = {"train": np.array([0, 1]), "val": np.array([2]), "test": np.array([3])}


def small_benchmark(name: str = "small", table: dict[str, Any] | None = None, **about: Any) -> Benchmark:
    """A benchmark whose card and table are those of :data:`KINDS`, changed as asked."""
    content: dict[str, Any] = {
        "num_nodes": NUM_NODES,
        "num_edges": NUM_EDGES,
        "edges": EDGES,
        "split": SPLIT,
        "y": np.array([0.5, -1.5, 2.0, 3.0]),
    }
    graphs = GraphTable(**(content | (table or {})))

    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        if files[0].read_bytes() == b"":
            raise FileFormatError(f"{files[0]} is empty; expected four graphs")
        return graphs

    card: dict[str, Any] = {
        "title": "Small",
        "description": "Four graphs.",
        "level": Level.GRAPH,
        "task": Task.REGRESSION,
        "targets": (Target("energy", "eV", "of the whole"),),
        "metric": Metric.MAE,
        "split": "official",
        "split_sizes": {part: len(indices) for part, indices in SPLIT.items()},
        "paper": PAPER,
    }
    source = Source("text", read, places=((FILE,),), sha256={"graphs.txt": SHA256})
    return Benchmark(Card(name=name, **(card | about)), (source,))


def with_data(folder: Path, content: bytes = CONTENT) -> Path:
    """A data folder with the file of all these benchmarks."""
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_bytes(content)
    return folder


def with_source(benchmark: Benchmark, **changes: Any) -> Benchmark:
    """The same with another source."""
    return dataclasses.replace(benchmark, sources=(dataclasses.replace(benchmark.sources[0], **changes),))


KINDS: dict[str, Benchmark] = {
    "one-number": small_benchmark("one-number"),
    "many-numbers": small_benchmark(
        "many-numbers",
        {
            "y": np.arange(12.0).reshape(4, 3),
            "x": np.arange(2 * NODES).reshape(NODES, 2) % 3,
            "edge_attr": np.arange(EDGE_COUNT)[:, None] % 2 + 1,
            "pos": np.random.default_rng(0).random((NODES, 3)),
        },
        targets=(Target("mu", "D"), Target("alpha"), Target("gap", "eV")),
        node=Categories(3, 3),
        edge=Categories(3),
        node_columns=("element: 0 C, 1 N, 2 O", "charge (whole)"),
        edge_columns=("bond: 1 single, 2 double",),
        positions=True,
    ),
    "numbers-of-nodes": small_benchmark(
        "numbers-of-nodes",
        {"y": np.arange(2.0 * NODES).reshape(NODES, 2), "y_of_nodes": True},
        level=Level.NODE,
        targets=(Target("2-path"), Target("3-cycle")),
    ),
    "classes-of-nodes": small_benchmark(
        "classes-of-nodes",
        {"y": np.arange(NODES) % 3, "y_of_nodes": True, "x": np.random.default_rng(0).random((NODES, 2))},
        level=Level.NODE,
        task=Task.MULTI_CLASS,
        metric=Metric.MACRO_F1,
        targets=(Target("object"),),
        classes=("sky", "cow", "boat"),
        node=Reals(2),
    ),
    "yes-or-no": small_benchmark(
        "yes-or-no",
        {"y": np.array([0, 1, 0, 0])},
        task=Task.BINARY,
        metric=Metric.ROC_AUC,
        targets=(Target("active"),),
    ),
    "labels": small_benchmark(
        "labels",
        {"y": np.array([[0, 1], [1, NAN], [0, 0], [1, 1.0]])},
        task=Task.MULTI_LABEL,
        metric=Metric.AVERAGE_PRECISION,
        targets=(Target("toxic"), Target("antiviral")),
    ),
}
