"""What comes out of a model, as people want it: numbers in the targets' units, probabilities, representations."""

from __future__ import annotations

import torch
from torch import Tensor

from pointset.datasets.card import Task
from pointset.datasets.scale import TargetScale
from pointset.encoders.batch import PointBatch
from pointset.encoders.model import PointModel
from pointset.encoders.readout import Level, pooled
from pointset.training.prediction.engine import Answer


def answers(outputs: Tensor, task: Task) -> Tensor:
    """(rows, k) → (rows, k): numbers stay, logits become probabilities."""
    if task is Task.REGRESSION:
        return outputs
    return torch.softmax(outputs, 1) if task is Task.MULTI_CLASS else torch.sigmoid(outputs)


def predictions(model: PointModel, task: Task, scale: TargetScale | None) -> Answer:
    """(rows, k) float64: regression in the targets' own units, classification as probabilities."""

    def rows(batch: PointBatch) -> Tensor:
        with torch.inference_mode():
            outputs: Tensor = model(batch).to("cpu", torch.float64)
        return answers(outputs if scale is None else scale.restore(outputs), task)

    return Answer(rows, model.readout.level == "node", torch.float64)


def representations(model: PointModel, level: Level) -> Answer:
    """(rows, d) of the model's own type: what the last linear map sees, of each graph or each node.

    At the model's own level this is :meth:`pointset.PointModel.embed`. A model of graphs has scalars of nodes too,
    before they are pooled, and those of a model of nodes can be pooled.
    """

    def rows(batch: PointBatch) -> Tensor:
        with torch.inference_mode():
            points = model.read(batch)
            scalars = [model.encode(group) for group in points.groups]  # (d, B, n)
            if level == "graph":
                return torch.cat([pooled(s, model.readout.pooling).mT for s in scalars])[points.graph_order].cpu()
            return torch.cat([s.flatten(1).mT for s in scalars])[points.node_order].cpu()

    return Answer(rows, level == "node", next(model.parameters()).dtype)
