"""Node tasks, one large graph each: the citation networks of Planetoid with their public split, and heterophilous
graphs with ten official splits (``fold``).

Not in the paper, which learns on small graphs; here for encoders of linear cost beside message passing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pointset.arrays import Array
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.sources import Benchmark, Download, Source
from pointset.datasets.splits.parts import whole_number
from pointset.datasets.table import GraphTable
from pointset.errors import FileFormatError, SpecError
from pointset.specs import Reals

FOLDS = 10
_HETEROPHILOUS = "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data"
_TEN_SPLITS = f"{FOLDS} official splits of the nodes, 50 / 25 / 25 %"


@dataclass(frozen=True)
class NodeFile:
    """Reads one ``.npz`` of a graph (:mod:`pointset.datasets.graph_files.npz`)."""

    columns: int
    binary: bool = False  # whether the two classes are a label, scored by ROC-AUC
    fold: int = 0  # of the official splits
    normalise: bool = False  # whether each node's features are divided by their sum

    def __call__(self, files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        """The graph of the one file."""
        from pointset.datasets.graph_files.npz import read_graph_arrays

        (path,) = files
        found = read_graph_arrays(path)
        x, y = found.x, found.y
        if x is None or y is None or x.shape != (found.num_nodes, self.columns) or y.shape != (found.num_nodes,):
            raise FileFormatError(
                f"{path}: features of shape {None if x is None else x.shape} and labels of shape "
                f"{None if y is None else y.shape}; expected ({found.num_nodes:,}, {self.columns:,}) and one label each"
            )
        if not found.masks or self.fold >= found.masks["train"].shape[1]:
            raise FileFormatError(f"{path} has no split {self.fold} of its nodes; expected the official ones")
        edges = found.edges[
            :, found.edges[0] != found.edges[1]
        ]  # the Laplacian sees no loops, and few of these have any
        return GraphTable(
            num_nodes=np.array([found.num_nodes]),
            num_edges=np.array([edges.shape[1]]),
            edges=edges,
            x=_rows_of_sum_1(x) if self.normalise else x.astype(np.float32),
            y=y.astype(np.float32) if self.binary else y.astype(np.int64),
            y_of_nodes=True,
            split={part: np.flatnonzero(mask[:, self.fold]) for part, mask in found.masks.items()},
            split_of_nodes=True,
        )


def _rows_of_sum_1(x: Array) -> Array:
    sums = x.sum(axis=1, keepdims=True, dtype=np.float64)
    rows: Array = (x / np.where(sums == 0, 1, sums)).astype(np.float32)
    return rows


def _sources(file: str, reader: NodeFile, url: str, **options: Any) -> tuple[Source, ...]:
    fold, normalise = options.get("fold", 0), options.get("normalise", reader.normalise)
    fold = whole_number(fold, "fold", most=FOLDS - 1)
    if not isinstance(normalise, bool):
        raise SpecError(f"got normalise={normalise!r}; expected true or false")
    chosen = NodeFile(reader.columns, reader.binary, fold, normalise)
    title = f"flat arrays{f', split {fold}' if url else ''}{', rows of sum 1' if normalise else ''}"
    downloads = (Download(f"{url}/{file}", file),) if url else ()
    return (Source(title, chosen, places=((f"nodes/{file}",), (file,)), downloads=downloads),)


def _benchmark(file: str, reader: NodeFile, *, url: str = "", **about: Any) -> Benchmark:
    task = {"task": Task.BINARY, "metric": Metric.ROC_AUC} if reader.binary else {}
    card = Card(**{
        "level": Level.NODE, "task": Task.MULTI_CLASS, "metric": Metric.ACCURACY, "node": Reals(reader.columns), **task,
        **about,
    })  # fmt: skip
    options = {"fold": f"which of the {FOLDS} official splits, from 0"} if url else {}
    if not url:
        options["normalise"] = "whether each node's features are divided by their sum (default true)"
    choose = partial(_sources, file, reader, url)
    return Benchmark(card, choose(), choose=choose, options=options)


def _planetoid(name: str, title: str, words: str, columns: int, classes: tuple[str, ...], **about: Any) -> Benchmark:
    return _benchmark(
        f"{name}.npz",
        NodeFile(columns, normalise=True),
        name=name,
        title=title,
        description=f"Publications and the citations between them; predict the topic of each from {words}.",
        targets=(Target("topic"),),
        classes=classes,
        split="public: 20 nodes of each class to train, 500 to validate, 1,000 to test",
        licence="unclear; do not redistribute",
        source="Planetoid, https://github.com/kimiyoung/planetoid, as one .npz (its own files are pickles)",
        reference="Sen et al. 2008; Yang et al. 2016, arXiv:1603.08861",
        **about,
    )


CORA = _planetoid(
    "cora", "Cora", "its words", 1_433,
    ("theory", "reinforcement learning", "genetic algorithms", "neural networks", "probabilistic methods",
     "case-based", "rule learning"),
    split_sizes={"train": 140, "val": 500, "test": 1_000},
)  # fmt: skip
CITESEER = _planetoid(
    "citeseer", "CiteSeer", "its words", 3_703, tuple(f"topic {number}" for number in range(6)),
    split_sizes={"train": 120, "val": 500, "test": 1_000},
    notes=("15 nodes without edges have no known topic.",),
)  # fmt: skip
PUBMED = _planetoid(
    "pubmed", "PubMed", "its words' tf-idf", 500, tuple(f"diabetes topic {number}" for number in range(3)),
    split_sizes={"train": 60, "val": 500, "test": 1_000},
)  # fmt: skip


def _heterophilous(file: str, reader: NodeFile, **about: Any) -> Benchmark:
    return _benchmark(
        file,
        reader,
        url=_HETEROPHILOUS,
        licence="unclear; do not redistribute",
        source="heterophilous-graphs, https://github.com/yandex-research/heterophilous-graphs",
        reference="Platonov et al. 2023, arXiv:2302.11640",
        **about,
    )


TOLOKERS = _heterophilous(
    "tolokers.npz",
    NodeFile(10, binary=True),
    name="tolokers",
    title="Tolokers",
    description="Workers of a crowdsourcing platform, joined where they worked on the same task; predict which of them "
    "were banned from a project.",
    targets=(Target("banned"),),
    split=_TEN_SPLITS,
    split_sizes={"train": 5_879, "val": 2_939, "test": 2_940},
)
MINESWEEPER = _heterophilous(
    "minesweeper.npz",
    NodeFile(7, binary=True),
    name="minesweeper",
    title="Minesweeper",
    description="A grid of 100 × 100 cells, a fifth of them mines; predict which, from the number of mines beside half "
    "of the cells.",
    targets=(Target("mine"),),
    node_columns=(*(f"mines beside it: {number}" for number in range(6)), "number not known"),
    split=_TEN_SPLITS,
    split_sizes={"train": 5_000, "val": 2_500, "test": 2_500},
)
ACTOR = _heterophilous(
    "actor.npz",
    NodeFile(932),
    name="actor",
    title="Actor",
    description="Actors, joined where they stand on the same page of Wikipedia; predict the kind of each from the "
    "words of its own page.",
    targets=(Target("kind"),),
    classes=tuple(f"kind {number}" for number in range(5)),
    split=f"{FOLDS} official splits of the nodes, 48 / 32 / 20 %",
    split_sizes={"train": 3_648, "val": 2_432, "test": 1_520},
)
SQUIRREL = _heterophilous(
    "squirrel_filtered.npz",
    NodeFile(2_089),
    name="squirrel-filtered",
    title="Squirrel, filtered",
    description="Pages of Wikipedia on squirrels and their links, without those that stand there twice; predict how "
    "much each is read.",
    targets=(Target("traffic"),),
    classes=tuple(f"fifth {number}" for number in range(1, 6)),
    split=f"{FOLDS} official splits of the nodes, 48 / 32 / 20 %",
)
