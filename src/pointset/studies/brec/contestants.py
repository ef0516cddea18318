"""The models that are tried on pairs of graphs: how each is built, and what it takes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from pointset.baselines.gin import GIN
from pointset.datasets.graph_pairs import EdgeList
from pointset.encoders.batch import collate
from pointset.encoders.inputs import Coordinates
from pointset.encoders.layers import VectorBound
from pointset.encoders.model import PointModel
from pointset.encoders.presets import PRESETS
from pointset.errors import SpecError, did_you_mean
from pointset.points.convert import to_points_many

# Weights begin larger than training elsewhere does, and vectors may be longer: what sets two of these graphs apart are
# terms of high order in the inner products, which else drown in rounding (benchmarks/brec_beginnings.py).
ENCODER_GAIN, FUNCTION_GAIN, REACH = 3.5, 3.0, 10.0


class Embedding(Protocol):
    """A module that gives each graph of a batch a row."""

    def embed(self, batch: Any) -> Tensor:
        """(graphs, channels)."""
        ...


@dataclass(frozen=True)
class Contestant:
    """A kind of model."""

    build: Callable[[int, int], nn.Module]  # (channels, layers) → a module with ``embed``
    prepare: Callable[[Sequence[EdgeList]], Any]  # graphs → what ``embed`` takes


def contestant_named(name: str) -> Contestant:
    """``gin`` or a preset of :class:`PointModel` that needs no positions."""
    if name == "gin":
        return Contestant(GIN, _pyg_batch)
    if name not in trained_names():
        known = trained_names()
        raise SpecError(f"got the model {name!r}; expected one of {', '.join(known)}{did_you_mean(name, known)}")

    def build(channels: int, layers: int) -> PointModel:
        return sharpened(PointModel.from_preset(name, dim=channels, layers=layers))

    return Contestant(build, _PointBatch(PRESETS[name].matrix))


def trained_names() -> list[str]:
    """All models that are trained."""
    return [*(name for name, preset in PRESETS.items() if preset.distances is None), "gin"]


@dataclass(frozen=True)
class _PointBatch:
    """Graphs → a batch of points of one matrix."""

    matrix: str

    def __call__(self, graphs: Sequence[EdgeList]) -> Any:
        return collate(list(to_points_many(graphs, matrix=self.matrix, progress=False)))


def _pyg_batch(graphs: Sequence[EdgeList]) -> Batch:
    """Graphs → a PyG batch, both directions of every edge."""
    return Batch.from_data_list(
        [Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=nodes) for nodes, edges in graphs]
    )


def sharpened(
    model: PointModel, encoder: float = ENCODER_GAIN, function: float = FUNCTION_GAIN, reach: float = REACH
) -> PointModel:
    """The model itself, with the weight matrices of its encoder and all of f multiplied, and vectors bounded later."""
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            if parameter.dim() > 1:
                parameter.mul_(encoder)
        for part in model.modules():
            if isinstance(part, Coordinates):
                for parameter in part.function.parameters():
                    parameter.mul_(function)
            if isinstance(part, VectorBound):
                part.reach = reach
    return model
