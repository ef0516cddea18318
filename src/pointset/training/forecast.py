"""What a run will need, known before it begins: memory of the largest batch, room on the disk."""

from __future__ import annotations

import numpy as np
import torch

from pointset.datasets.card import Card
from pointset.encoders.layers import BatchEncoder
from pointset.encoders.model import PointModel
from pointset.points.graphs import Integers
from pointset.points.memory import check_fits, training_bytes
from pointset.training.data import TrainingData, build_model
from pointset.training.recipe import Recipe
from pointset.training.recipe_overrides import changed

_ROOM_FOR_RECORDS = 20_000_000  # bytes of metrics, predictions, report
_LIVE_LAYERS = 2  # with checkpointing: one layer's activations, and the coordinates of the rest

# Numbers of four bytes that message passing and attention keep in each layer: of a node and channel, of an edge and
# channel, of a pair of nodes. Measured are up to 18 (Graphormer), 12 (GatedGCN, both directions), 8 (Graphormer).
_OF_NODE, _OF_EDGE, _OF_PAIR = 20, 16, 16


def check_memory(recipe: Recipe, data: TrainingData) -> None:
    """Refuse a run whose largest possible batch would not fit into this machine's memory.

    Raises:
        MemoryForecastError: it would not.
    """
    if recipe.trainer.memory_budget is None:  # else batches are planned by it, and a graph beyond it is refused by name
        _check_batch(recipe, data)
    _check_weights(recipe, data.card)


def _check_batch(recipe: Recipe, data: TrainingData) -> None:
    sizes = graph_bytes(recipe, data)
    batch = min(recipe.trainer.batch_size, len(sizes))
    largest = np.partition(sizes, len(sizes) - batch)[len(sizes) - batch :]
    check_fits(
        float(largest.sum()),
        f"training on the {batch} largest of {len(sizes):,} graphs in one batch needs",
        "Lower trainer.batch_size, set trainer.memory_budget=4GB (as many graphs as fit make a batch), or, where the "
        "model computes on pairs of nodes, trainer.checkpointing=true",
    )


def graph_bytes(recipe: Recipe, data: TrainingData) -> Integers:
    """About how much memory each graph of the training part takes in training, (G,)."""
    graphs, dim, layers = data.part("train"), recipe.model.dim, recipe.model.layers
    nodes = data.points.num_nodes[graphs]
    if isinstance(_without_weights(recipe, data.card, layers=1).encoder, BatchEncoder):  # no pairs by channels
        edges = data.points.graphs.num_edges[graphs]
        return 4 * layers * (dim * (_OF_NODE * nodes + _OF_EDGE * edges) + _OF_PAIR * nodes**2)
    layers = min(layers, _LIVE_LAYERS) if recipe.trainer.checkpointing else layers
    return training_bytes(nodes, data.points.ranks[graphs], dim=dim, layers=layers)


def _check_weights(recipe: Recipe, card: Card) -> None:
    """Weights, gradients, two moments, the average and the best ones, counted without making any (device meta)."""
    one_layer, two_layers = (
        _without_weights(recipe, card, layers=layers).num_parameters for layers in (1, 2)
    )  # all layers from the second on are alike
    parameters = one_layer + (recipe.model.layers - 1) * (two_layers - one_layer)
    check_fits(
        float(6 * (8 if recipe.trainer.precision == "64" else 4) * parameters),
        f"a model of {recipe.model.layers:,} layers of width {recipe.model.dim:,}, {parameters:,} parameters, needs",
        "Lower model.dim or model.layers",
    )


def _without_weights(recipe: Recipe, card: Card, *, layers: int) -> PointModel:
    with torch.device("meta"):
        return build_model(changed(recipe, {"model.layers": layers}), card)


def run_bytes(parameters: int, precision: str) -> int:
    """Room on the disk: weights, their average, two moments and the best ones, in two checkpoints and a bundle."""
    return (8 if precision == "64" else 4) * parameters * 14 + _ROOM_FOR_RECORDS
