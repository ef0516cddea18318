"""Which graphs of a dataset are drawn, what is written above them, and what colours their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.cli.dataset_words import category_names, number, short_name
from pointset.cli.messages import counted, printable
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import Dataset
from pointset.datasets.statistics import as_columns
from pointset.points.graphs import Graph
from pointset.reports.gallery import draw_gallery
from pointset.reports.portraits import Legend, Portrait
from pointset.specs import Categories

_SHOWN_TARGETS = 2  # of a regression


def chosen_graphs(num_nodes: NDArray[np.int64], count: int, seed: int) -> list[int]:
    """Some of the smaller half of the graphs, drawn with the seed, in order."""
    by_size = np.argsort(num_nodes, kind="stable")
    smaller = by_size[: max(count, (len(by_size) + 1) // 2)]
    return sorted(np.random.default_rng(seed).choice(smaller, min(count, len(smaller)), replace=False).tolist())


def portraits_of(dataset: Dataset, numbers: Sequence[int]) -> list[Portrait]:
    """These graphs with their targets."""
    portraits = []
    for index in numbers:
        graph = dataset.arrays[index]
        edge_columns = as_columns(graph.features.edge_attr) if isinstance(dataset.card.edge, Categories) else []
        portraits.append(
            Portrait(
                graph,
                f"graph {index}",
                printable(caption_of(dataset.card, graph)),
                node_values(dataset.card, graph),
                edge_columns[0] if edge_columns else None,
            )
        )
    return portraits


def draw_picture(dataset: Dataset, numbers: Sequence[int], path: Path) -> None:
    """Save a picture of these graphs."""
    heading = f"{printable(dataset.card.title)}: {len(numbers):,} of {counted(len(dataset), 'graph')}"
    draw_gallery(portraits_of(dataset, numbers), path, heading=heading, legend=legend_of(dataset))


def legend_of(dataset: Dataset) -> Legend:
    """What :func:`node_values` and the widths of edges mean."""
    card = dataset.card
    names: dict[int, str] = {}
    if isinstance(card.node, Categories):
        nodes = _short(card.node_columns)
        names = category_names(card.node_columns, card.node_labels)
    elif card.level is Level.NODE and dataset.targets is not None:
        nodes = card.targets[0].label
        names = dict(enumerate(map(printable, card.classes)))
    else:
        nodes = "degree" if card.node is None else _short(card.node_columns)
    edge_names = category_names(card.edge_columns, card.edge_labels)
    return Legend(f"nodes: {printable(nodes)}", f"edges: {_short(card.edge_columns)}", names, edge_names)


def node_values(card: Card, graph: Graph) -> Any:
    """(n,) the first category of each node; without categories its target, its first feature, or its degree."""
    x, y = as_columns(graph.features.x), as_columns(graph.features.y)
    if isinstance(card.node, Categories) and x:
        return x[0]
    if card.level is Level.NODE and y:
        return y[0] if card.task is not Task.REGRESSION else y[0].astype(np.float64)
    if x:
        return x[0].astype(np.float64)
    return np.bincount(graph.edges.ravel(), minlength=graph.num_nodes).astype(np.float64)


def caption_of(card: Card, graph: Graph) -> str:
    """What is to be predicted for a graph; its size where that is something for each node."""
    columns = as_columns(graph.features.y)
    if card.level is Level.NODE or not columns or not len(columns[0]):
        return f"{graph.num_nodes:,} nodes, {graph.edges.shape[1]:,} edges"
    values = [float(column[0]) for column in columns]
    if card.task is Task.MULTI_LABEL:
        positive = [target.name for target, value in zip(card.targets, values, strict=False) if value == 1]
        return ", ".join(positive) or "no label"
    if card.task is not Task.REGRESSION:
        return f"{card.targets[0].name}: {_class_name(card, values[0])}"
    shown = [
        f"{target.name} {_value(value)} {target.unit if target.unit not in target.name else ''}".strip()
        for target, value in zip(card.targets[:_SHOWN_TARGETS], values, strict=False)
    ]
    return ", ".join(shown) + (", …" if len(values) > _SHOWN_TARGETS else "")


def _class_name(card: Card, value: float) -> str:
    named = value.is_integer() and 0 <= value < len(card.classes)
    return card.classes[int(value)] if named else _value(value)


def _value(value: float) -> str:
    return "missing" if np.isnan(value) else number(value)


def _short(columns: Sequence[str]) -> str:
    return short_name(columns[0]) if columns else "first feature"
