"""What a graph carries, and what would be lost where a format cannot hold it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch

from pointset.datasets.graph_formats import Content
from pointset.points.graphs import Graph, WeightKind


def content_of(graph: Graph) -> frozenset[Content]:
    """What this graph carries. Weights that are all 1 say nothing and do not count."""
    has = {
        Content.WEIGHTS: graph.weights is not None and bool((graph.weights != 1).any()),
        Content.LOOPS: bool((graph.edges[0] == graph.edges[1]).any()),
        Content.X: graph.features.x is not None,
        Content.EDGE_ATTR: graph.features.edge_attr is not None,
        Content.POS: graph.features.pos is not None,
        Content.Y: graph.features.y is not None,
    }
    return frozenset(content for content, there in has.items() if there)


def losses(graphs: Iterable[Graph], held: frozenset[Content]) -> Counter[Content]:
    """In how many graphs each content would be lost."""
    lost: Counter[Content] = Counter()
    for graph in graphs:
        lost.update(content_of(graph) - held)
    return lost


def reduced(graph: Graph, held: frozenset[Content]) -> Graph:
    """The graph with only what a format holds."""
    features = graph.features
    kept = np.ones(graph.edges.shape[1], dtype=bool)
    if Content.LOOPS not in held:
        kept = graph.edges[0] != graph.edges[1]
    edge_attr = features.edge_attr if Content.EDGE_ATTR in held else None
    weighted = Content.WEIGHTS in held and graph.weights is not None
    return dataclasses.replace(
        graph,
        edges=graph.edges[:, kept],
        weights=graph.weights[kept] if weighted and graph.weights is not None else None,
        weight_kind=graph.weight_kind if weighted else WeightKind.NONE,
        features=features._replace(
            x=features.x if Content.X in held else None,
            edge_attr=None if edge_attr is None else edge_attr[torch.from_numpy(kept)],
            pos=features.pos if Content.POS in held else None,
            y=features.y if Content.Y in held else None,
        ),
    )
