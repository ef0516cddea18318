"""A model's predictions for a part of the data, in order, also when several processes share the work."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.encoders.model import PointModel
from pointset.points.graphs import Integers
from pointset.training.batches import evaluation_loader
from pointset.training.data import TrainingData


def outputs_for(
    model: PointModel, data: TrainingData, graphs: Integers, *, dtype: torch.dtype, rank: int = 0, processes: int = 1
) -> Tensor:
    """What the model gives for these graphs: (rows, out) float64 on the CPU, in their order, in the loss's units.

    Each process computes a block of consecutive graphs, and all processes get the whole.
    """
    blocks = np.array_split(graphs, processes)
    rows = _outputs(model, data, blocks[rank], dtype)
    if processes == 1:
        return rows
    gathered: list[Any] = [None] * processes
    torch.distributed.all_gather_object(gathered, rows)
    return torch.cat(gathered)


def _outputs(model: PointModel, data: TrainingData, graphs: Integers, dtype: torch.dtype) -> Tensor:
    if not len(graphs):
        return torch.empty(0, data.card.outputs, dtype=torch.float64)
    dim = 64 if model.settings is None else model.settings.dim
    loader = evaluation_loader(data.points, graphs, dim=dim, dtype=dtype)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return torch.cat([model(batch).to("cpu", torch.float64) for batch in loader])
    finally:
        model.train(was_training)
