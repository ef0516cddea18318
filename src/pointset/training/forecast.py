"""What a run will need, known before it begins: memory of the largest batch, room on the disk."""

from __future__ import annotations

import numpy as np
import torch

from pointset.datasets.card import Card
from pointset.points.memory import check_fits, training_bytes
from pointset.training.data import TrainingData, build_model
from pointset.training.recipe import Recipe
from pointset.training.recipe_overrides import changed

_ROOM_FOR_RECORDS = 20_000_000  # bytes of metrics, predictions, report
_LIVE_LAYERS = 2  # with checkpointing: one layer's activations, and the coordinates of the rest


def check_memory(recipe: Recipe, data: TrainingData) -> None:
    """Refuse a run whose largest possible batch would not fit into this machine's memory.

    Raises:
        MemoryForecastError: it would not.
    """
    if recipe.trainer.memory_budget is None:  # else batches are planned by it, and a graph beyond it is refused by name
        _check_batch(recipe, data)
    _check_weights(recipe, data.card)


def _check_batch(recipe: Recipe, data: TrainingData) -> None:
    graphs = data.part("train")
    layers = min(recipe.model.layers, _LIVE_LAYERS) if recipe.trainer.checkpointing else recipe.model.layers
    sizes = training_bytes(
        data.points.num_nodes[graphs], data.points.ranks[graphs], dim=recipe.model.dim, layers=layers
    )
    batch = min(recipe.trainer.batch_size, len(sizes))
    largest = np.partition(sizes, len(sizes) - batch)[len(sizes) - batch :]
    check_fits(
        float(largest.sum()),
        f"training on the {batch} largest of {len(sizes):,} graphs in one batch needs",
        "Lower trainer.batch_size, set trainer.memory_budget=4GB (as many graphs as fit make a batch), or "
        "trainer.checkpointing=true",
    )


def _check_weights(recipe: Recipe, card: Card) -> None:
    """Weights, gradients, two moments, the average and the best ones, counted without making any (device meta)."""
    one_layer, two_layers = (
        _parameters(changed(recipe, {"model.layers": layers}), card) for layers in (1, 2)
    )  # all layers from the second on are alike
    parameters = one_layer + (recipe.model.layers - 1) * (two_layers - one_layer)
    check_fits(
        float(6 * (8 if recipe.trainer.precision == "64" else 4) * parameters),
        f"a model of {recipe.model.layers:,} layers of width {recipe.model.dim:,}, {parameters:,} parameters, needs",
        "Lower model.dim or model.layers",
    )


def _parameters(recipe: Recipe, card: Card) -> int:
    with torch.device("meta"):
        return build_model(recipe, card).num_parameters


def run_bytes(parameters: int, precision: str) -> int:
    """Room on the disk: weights, their average, two moments and the best ones, in two checkpoints and a bundle."""
    return (8 if precision == "64" else 4) * parameters * 14 + _ROOM_FOR_RECORDS
