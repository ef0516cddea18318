"""Small random data in the format of any card: every column of features, 3D positions, targets of its task, a split."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import Dataset, Provenance
from pointset.datasets.table import GraphTable
from pointset.specs import Categories, Spec

SIZES = (4, 5, 5, 6, 3, 4, 6, 5, 4, 5, 6, 4)


def dataset_like(card: Card, *, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> Dataset:
    """Graphs of these sizes; two thirds train, the rest is shared by val and test."""
    generator = np.random.default_rng(seed)
    graphs = [nx.gnp_random_graph(size, 0.6, seed=number) for number, size in enumerate(sizes)]
    num_nodes, num_edges = np.array(sizes), np.array([graph.number_of_edges() for graph in graphs])
    edges = np.concatenate([np.array(graph.edges, dtype=np.int64).reshape(-1, 2) for graph in graphs]).T
    nodes, of_nodes = int(num_nodes.sum()), card.level is Level.NODE
    third = 2 * len(sizes) // 3, 5 * len(sizes) // 6
    order = np.arange(len(sizes))
    table = GraphTable(
        num_nodes=num_nodes,
        num_edges=num_edges,
        edges=edges,
        y=_targets(card, nodes if of_nodes else len(sizes), generator),
        y_of_nodes=of_nodes,
        x=_features(card.node, nodes, generator),
        edge_attr=_features(card.edge, int(num_edges.sum()), generator),
        pos=generator.normal(size=(nodes, 3)).astype(np.float32) if card.positions else None,
        split={"train": order[: third[0]], "val": order[third[0] : third[1]], "test": order[third[1] :]},
        smiles=["C"] * len(sizes) if card.molecules else None,
    )
    return Dataset.from_table(table, card, Provenance("made for a test", "made here"))


def _features(spec: Spec, rows: int, generator: np.random.Generator) -> Any:
    if spec is None:
        return None
    if isinstance(spec, Categories):  # categories may be edge weights, so none is 0 where there is another
        columns = [generator.integers(1 if size > 1 else 0, size, rows) for size in spec.sizes]
        return np.stack(columns, axis=1)
    return generator.normal(size=(rows, spec.width)).astype(np.float32)


def _targets(card: Card, rows: int, generator: np.random.Generator) -> Any:
    if card.task is Task.MULTI_CLASS:
        return np.arange(rows) % len(card.classes)
    if card.task is Task.REGRESSION:
        return generator.normal(size=(rows, len(card.targets)))
    labels = (np.arange(rows)[:, None] + np.arange(len(card.targets))) % 2
    return labels.astype(np.float32)
