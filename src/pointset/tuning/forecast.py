"""How long a study will take, from a few real steps (:func:`forecast_study`), and its budget (:class:`Budget`)."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed
from pointset.text import counted, duration
from pointset.training.data import TrainingData
from pointset.training.timing import forecast_run
from pointset.tuning.ranges import Space


class StudyForecast(NamedTuple):
    """Of trials that are trained to their end, one after the other on this machine's CPU."""

    own_seconds: float  # of the first trial, which has the recipe's own values
    trial_seconds: float  # of one in the middle of all ranges
    epochs: int

    def seconds(self, trials: int) -> float:
        """Of a study with so many trials."""
        return self.own_seconds + self.trial_seconds * (trials - 1) if trials else 0.0

    def text(self, trials: int) -> str:
        """A line for people."""
        own = f"the first, with the recipe's own values, about {duration(self.own_seconds)}"
        each = f"{own}, others about {duration(self.trial_seconds)}" if trials > 1 else own
        return (
            f"{counted(trials, 'trial')} of {counted(self.epochs, 'epoch')}, {each}: about "
            f"{duration(self.seconds(trials))} on this machine; what ends early by pruning or patience is not counted"
        )


def forecast_study(space: Space, data: TrainingData) -> StudyForecast:
    """Time some steps with the recipe's own values, and with values in the middle of their ranges.

    ``data`` has no test part, which trials do not score.
    """
    epochs = space.recipe.trainer.epochs
    middle = {
        key: one.nearest(math.sqrt(one.low * one.high) if one.log else (one.low + one.high) / 2)
        for key, one in space.ranges.items()
    }

    def seconds(values: dict[str, float | int]) -> float:
        recipe = trial_recipe(space, values)
        return forecast_run(recipe, data, recipe.trainer.threads or 1).seconds(epochs)

    return StudyForecast(seconds(space.own_values()), seconds(middle), epochs)


def trial_recipe(space: Space, values: dict[str, float | int]) -> Recipe:
    """The recipe of a trial: without a baseline, as trials are compared with each other, and on one thread where the
    recipe does not say how many, as processes that share the cores of a machine would slow each other down.
    """
    recipe = space.recipe_for(values)
    return changed(recipe, {"trainer.baseline": False, "trainer.threads": recipe.trainer.threads or 1})


class Budget:
    """So many minutes from now on; without any, there is no end."""

    def __init__(self, minutes: float | None):
        self._end = math.inf if minutes is None else time.monotonic() + 60 * minutes

    @property
    def is_limited(self) -> bool:
        """Whether there is an end."""
        return math.isfinite(self._end)

    @property
    def seconds_left(self) -> float:
        """Until the end; below 0 afterwards."""
        return self._end - time.monotonic()
