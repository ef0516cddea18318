"""What a model knows of each pair of nodes on the way to its output: :func:`pair_features`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from pointset.encoders.layers import PointState, size_scale
from pointset.encoders.model import PointModel
from pointset.encoders.psds import PSDSLayer
from pointset.encoders.pst import PSTLayer

POINTS = "points"


def pair_features(model: PointModel, graph: Any, first: Tensor, second: Tensor) -> dict[str, Tensor]:
    """For every stage, numbers (P, c) of the pairs i, j that do not change when i and j are exchanged.

    - ``points``: of each channel ⟨v_i, v_j⟩ and ‖v_i − v_j‖², v the coordinates; c = 2d
    - ``layer 1``, …: attention ½(Atten_ij + Atten_ji) without the factor that depends on n; c = d.
      Models without attention (PSDS): the numbers of ``points`` for the vectors that leave the layer; c = 2d.

    Args:
        model: any encoder of a preset.
        graph: what ``model.inspect`` takes.
        first: (P,) i.
        second: (P,) j.
    """
    with _vectors_of_layers(model) as vectors:
        seen = model.inspect(graph)
    stages = {POINTS: _products(seen.coordinates.permute(2, 0, 1), first, second)}
    factor = next((part.sum_factor for part in model.modules() if isinstance(part, PSTLayer)), size_scale)
    for number, attention in enumerate(seen.attention, start=1):
        both = (attention[:, first, second] + attention[:, second, first]) / 2  # (d, P)
        stages[f"layer {number}"] = (both / factor(attention.shape[-1])).T.double()
    for number, v in enumerate(vectors[:-1], start=1):  # the last layer leaves the vectors as they were
        stages[f"layer {number}"] = _products(v, first, second)
    return stages


def _products(v: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """(d, n, r) → (P, 2d): inner products and squared distances."""
    one, other = v[:, first].double(), v[:, second].double()  # (d, P, r)
    return torch.cat([(one * other).sum(-1), (one - other).square().sum(-1)]).T


@contextmanager
def _vectors_of_layers(model: PointModel) -> Iterator[list[Tensor]]:
    """Inside, the list fills with the vectors (d, n, r) that leave each layer of a model without attention."""
    vectors: list[Tensor] = []

    def listen(_module: Any, _arguments: Any, state: PointState) -> None:
        vectors.append(state.v.detach()[:, 0])

    hooks = [part.register_forward_hook(listen) for part in model.modules() if isinstance(part, PSDSLayer)]
    try:
        yield vectors
    finally:
        for hook in hooks:
            hook.remove()
