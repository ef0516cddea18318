"""What a run will need, known before it begins: memory of the largest batch, room on the disk."""

from __future__ import annotations

import numpy as np

from pointset.points.memory import check_fits, training_bytes
from pointset.training.data import TrainingData
from pointset.training.recipe import Recipe

_ROOM_FOR_RECORDS = 20_000_000  # bytes of metrics, predictions, report
_ONE_LAYER_AT_A_TIME = 2  # layers whose activations are alive with checkpointing, besides the coordinates of the rest


def check_memory(recipe: Recipe, data: TrainingData) -> None:
    """Refuse a run whose largest possible batch would not fit into this machine's memory.

    Raises:
        MemoryForecastError: it would not.
    """
    if recipe.trainer.memory_budget is not None:
        return  # batches are planned by it, and a graph beyond it is refused by name
    graphs = data.part("train")
    layers = min(recipe.model.layers, _ONE_LAYER_AT_A_TIME) if recipe.trainer.checkpointing else recipe.model.layers
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


def run_bytes(parameters: int, precision: str) -> int:
    """Room on the disk: weights, their average, two moments and the best ones, in two checkpoints and a bundle."""
    return (8 if precision == "64" else 4) * parameters * 14 + _ROOM_FOR_RECORDS
