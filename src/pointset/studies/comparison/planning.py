"""Which models are compared, and how wide each is (:func:`plan`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pointset.baselines.catalogue import model_preset
from pointset.errors import SpecError
from pointset.studies.comparison.matching import TOLERANCE, count_parameters, matched
from pointset.training.data import load_data
from pointset.training.metrics import check_metric
from pointset.training.recipe import Recipe
from pointset.training.recipe_overrides import changed
from pointset.training.schedule import check_schedule


@dataclass(frozen=True)
class Planned:
    """A model with the recipe that trains it; none where no width gives it the right number of parameters."""

    model: str
    recipe: Recipe | None
    parameters: int | None = None
    failure: str = ""


@dataclass(frozen=True)
class Plan:
    """A comparison before it begins."""

    recipe: Recipe  # of the data and the loop
    parameters: int  # that every model should have
    tolerance: float
    metric: str
    title: str  # of the data
    models: tuple[Planned, ...]

    @property
    def possible(self) -> list[Recipe]:
        """The recipes of the models that can be made."""
        return [one.recipe for one in self.models if one.recipe is not None]


def plan(
    recipe: Recipe,
    models: Sequence[str],
    *,
    parameters: int | None = None,
    tolerance: float = TOLERANCE,
    data_dir: str | Path | None = None,
    progress: bool | None = None,
) -> Plan:
    """Read the data, and find the width of each model. All compute on one thread, unless the recipe says otherwise.

    Args:
        recipe: data, split, loop and metric of all.
        models: names of :func:`pointset.baselines.catalogue.model_names`, each once.
        parameters: of each model; by default those of the recipe's own.
        tolerance: how far a model may be from it, as a share.
        data_dir: where the data lies.
        progress: whether bars are shown; by default where stderr is a terminal.

    Raises:
        SpecError: there are no models, one is unknown or named twice, or the recipe does not fit its data.
        MissingDataError: the data is nowhere.
    """
    if not models:
        raise SpecError("got no models; expected at least one, such as pst")
    for model in models:
        model_preset(model)
    if len(set(models)) < len(models):
        raise SpecError(f"got the models {', '.join(models)}; expected each once")
    check_schedule(recipe.schedule, recipe.trainer.epochs)
    recipe = changed(recipe, {"trainer.threads": recipe.trainer.threads or 1})
    card = load_data(recipe, data_dir, progress=progress).card
    metric = check_metric(recipe.metric, card)
    wanted = count_parameters(recipe, card) if parameters is None else parameters

    def planned(model: str) -> Planned:
        try:
            fitting = matched(recipe, model, wanted, card, tolerance=tolerance)
        except SpecError as error:
            return Planned(model, None, failure=str(error))
        return Planned(model, fitting, count_parameters(fitting, card))

    return Plan(recipe, wanted, tolerance, metric, card.title, tuple(map(planned, models)))
