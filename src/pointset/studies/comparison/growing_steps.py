"""What runs in the process of a model whose training step is timed on ever larger graphs."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import networkx as nx
import torch

from pointset.datasets.card import Card
from pointset.encoders.batch import PointBatch, collate
from pointset.encoders.model import PointModel
from pointset.points.convert import to_points_many
from pointset.studies.comparison.stopwatch import Stopwatch, Timed
from pointset.training.data import build_model
from pointset.training.recipe import Recipe

_EDGES_PER_NODE = 1.5  # a mean degree of 3, somewhat above that of molecules


class _OnGraphs(NamedTuple):
    stopwatch: Stopwatch
    model: PointModel


_here: dict[str, _OnGraphs] = {}  # the one model of this process


def make_step_ready(recipe: Recipe, card: Card, threads: int) -> None:
    """Make the model of this process."""
    model = build_model(recipe, card)
    _here["model"] = _OnGraphs(Stopwatch(recipe, model, card.task, threads), model)


def time_step(nodes: int, graphs: int, seed: int) -> Timed:
    """One training step of the model of this process on so many random graphs of this size."""
    stopwatch, model = _here["model"]
    return stopwatch.time([random_batch(nodes, graphs, seed, model.matrix)])


def random_batch(nodes: int, graphs: int, seed: int, matrix: str) -> PointBatch:
    """Graphs drawn uniformly among those with 3n/2 edges, with targets from a normal distribution."""
    drawn = [nx.gnm_random_graph(nodes, round(_EDGES_PER_NODE * nodes), seed=seed + index) for index in range(graphs)]
    batch = collate(list(to_points_many(drawn, matrix=matrix, dtype=torch.float32, workers=1, progress=False)))
    targets = torch.randn(graphs, 1, generator=torch.Generator().manual_seed(seed))
    return dataclasses.replace(batch, y=targets)
