"""What a model computes for one graph on the way to its output: coordinates and attention, to look at."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pointset.encoders.inputs import Coordinates
from pointset.encoders.layers import AttentionMap, size_scale
from pointset.encoders.pst import PSTLayer
from pointset.errors import SpecError


class Inspection(NamedTuple):
    """One graph as a model sees it."""

    output: Tensor  # (1, out) or (n, out)
    eigenvalues: Tensor  # (r,)
    functions: Tensor  # (r, d) the eigenvalue functions f_i(λ)
    coordinates: Tensor  # (n, r, d) the first vectors
    attention: list[Tensor]  # (d, n, n) for each layer, as it weighs the sums; empty where a model has none


def has_coordinates(model: nn.Module) -> bool:
    """Whether it begins with coordinates of points: the paper's variants do, message passing does not."""
    return any(isinstance(part, Coordinates) for part in model.modules())


def inspect(model: nn.Module, points: Any) -> Inspection:
    """Run the model on one graph and keep what passes by; forward hooks listen only during this call."""
    seen: dict[str, list[Tensor]] = {"coordinates": [], "functions": [], "attention": []}

    def listen(name: str) -> Any:
        return lambda _module, _arguments, output: seen[name].append(output.detach()[:, 0])

    if not has_coordinates(model):
        raise SpecError("the model has no coordinates to look at; expected one of the paper's variants, not a peer")
    hooks = []
    for part in model.modules():
        if isinstance(part, Coordinates):
            hooks += [
                part.register_forward_hook(listen("coordinates")),
                part.function.register_forward_hook(listen("functions")),
            ]
        if isinstance(part, AttentionMap):
            hooks.append(part.register_forward_hook(listen("attention")))
    try:
        with torch.no_grad():
            output = model(points)
    finally:
        for hook in hooks:
            hook.remove()
    factor = next((part.sum_factor for part in model.modules() if isinstance(part, PSTLayer)), size_scale)
    scale = factor(seen["coordinates"][0].shape[1])
    return Inspection(
        output=output,
        eigenvalues=points.groups[0].eigenvalues[0],
        functions=seen["functions"][0].mT,
        coordinates=seen["coordinates"][0].permute(1, 2, 0),
        attention=[weights * scale for weights in seen["attention"]],
    )
