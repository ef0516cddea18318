"""The width at which a model has a given number of parameters (:func:`matched`)."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice

import torch

from pointset.baselines.catalogue import PEERS, model_preset
from pointset.datasets.card import Card
from pointset.errors import SpecError
from pointset.training.data import build_model
from pointset.training.recipe import Recipe
from pointset.training.recipe_overrides import changed

TOLERANCE = 0.15  # of the parameters: what still counts as the same size
_WIDEST = 4096
_LOOK_AHEAD = 32  # widths: models with heads take only multiples of a small number


def matched(recipe: Recipe, model: str, parameters: int, card: Card, *, tolerance: float = TOLERANCE) -> Recipe:
    """The recipe with another model, as wide as it takes to have nearest to ``parameters`` parameters.

    All else stays: data, split, loop, loss, metric, number of layers, seed. Where the model is not the recipe's own,
    the paper's result is left out, as it is not this model's. A peer gets no noise on coordinates, which it has not,
    and the features of edges as features, not as the weights of a matrix that it does not decompose.

    Args:
        recipe: whose data and loop to use.
        model: a name of :func:`pointset.baselines.catalogue.model_names`.
        parameters: how many it should have.
        card: of the recipe's data.
        tolerance: how far from it the nearest width may be, as a share of ``parameters``.

    Raises:
        SpecError: there is no such model, or no width is near enough; the message names the nearest.
    """
    model_preset(model)
    if isinstance(parameters, bool) or not isinstance(parameters, int) or parameters < 1:
        raise SpecError(f"got parameters={parameters!r}; expected a whole number, at least 1")
    other = with_model(recipe, model)
    widths = _Widths(other, card)
    width = min(widths.around(parameters), key=lambda width: abs(widths.at(width) - parameters))
    found = widths.at(width)
    if abs(found - parameters) > tolerance * parameters:
        raise SpecError(
            f"{model} of {recipe.model.layers} layers has {found:,} parameters at width {width}, the nearest to the "
            f"{parameters:,} asked for; expected one within {tolerance:.0%}. Ask for another number of parameters, or "
            "set model.layers"
        )
    return changed(other, {"model.dim": width})


def with_model(recipe: Recipe, model: str) -> Recipe:
    """The recipe with another model of the same width; see :func:`matched` on what else that changes."""
    changes: dict[str, object] = {"model.preset": model}
    if model != recipe.model.preset:
        changes |= {"name": f"{recipe.name}-{model}", "title": "", "expected": None}
    if model in PEERS:
        changes |= {"model.noise": 0.0, "dataset.weighted_edges": None}
    return changed(recipe, changes)


def count_parameters(recipe: Recipe, card: Card) -> int:
    """Of the recipe's model, without making any weights (device meta)."""
    with torch.device("meta"):
        return build_model(recipe, card).num_parameters


class _Widths:
    """Parameters by width; they grow with it."""

    def __init__(self, recipe: Recipe, card: Card):
        self.recipe, self.card = recipe, card
        self.known: dict[int, int | None] = {}  # None: the model cannot be so wide
        self.refusal = SpecError(f"{recipe.model.preset} cannot be of any width")

    def around(self, parameters: int) -> list[int]:
        """The first possible width with at least so many parameters, or the widest, and the one before."""
        place = bisect_left(range(1, _WIDEST + 1), parameters, key=lambda width: self.at(self._from(width)))
        above = self._from(min(place + 1, _WIDEST))
        narrower = (width for width in range(above - 1, max(above - _LOOK_AHEAD, 0), -1) if self._has(width))
        return [*islice(narrower, 1), above]

    def at(self, width: int) -> int:
        """Parameters at a possible width."""
        if not self._has(width):
            raise self.refusal
        return self.known[width] or 0

    def _from(self, width: int) -> int:
        """The first possible width from here on."""
        return next((wider for wider in range(width, width + _LOOK_AHEAD) if self._has(wider)), width)

    def _has(self, width: int) -> bool:
        if width not in self.known:
            try:
                self.known[width] = count_parameters(changed(self.recipe, {"model.dim": width}), self.card)
            except SpecError as refusal:
                self.known[width], self.refusal = None, refusal
        return self.known[width] is not None
