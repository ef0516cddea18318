"""Short trainings that choose a setting for a row, by the validation part alone (:class:`Trials`)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pointset.metrics import metric_named
from pointset.paper.tables.spec import BestOf
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed
from pointset.text import counted
from pointset.training.data import load_data
from pointset.training.run import train

_LABELS = {
    "optimizer.lr": "learning rate",
    "trainer.batch_size": "batch size",
    "optimizer.weight_decay": "weight decay",
}


@dataclass(frozen=True)
class Trials:
    """The candidates for one row and task, and the folders of their runs: one for each, whatever seeds follow."""

    best_of: BestOf
    prefix: str  # ROW-TASK of the folders
    seed: int  # of all of them

    @property
    def names(self) -> list[str]:
        """``gps-zinc-trial-lr-0.003``, …: of the folders, in the order of the candidates."""
        key = self.best_of.key.rpartition(".")[2]
        return [f"{self.prefix}-trial-{key}-{_shown(value)}" for value in self.best_of.values]

    def applied_to(self, recipe: Recipe) -> list[Recipe]:
        """The recipe by each candidate."""
        return [changed(recipe, {self.best_of.key: value}) for value in self.best_of.values]

    def recipes(self, recipe: Recipe) -> dict[str, Recipe]:
        """What each is trained by, by the names of their folders: a share of the epochs, with a shorter schedule."""
        trainer, schedule = recipe.trainer, recipe.schedule
        epochs = self.epochs(recipe)
        share = epochs / trainer.epochs
        changes = {
            "seed": self.seed,
            "trainer.epochs": epochs,
            "trainer.min_steps": int(trainer.min_steps * share),
            "trainer.snapshots": None,
            "trainer.baseline": False,
            "trainer.tensorboard": False,
            "schedule.warmup": round(schedule.warmup * share, 6),
            "schedule.cosine": round(schedule.cosine * share, 6),
        }
        return dict(zip(self.names, (changed(one, changes) for one in self.applied_to(recipe)), strict=True))

    def epochs(self, recipe: Recipe) -> int:
        """Of each of them."""
        return math.ceil(recipe.trainer.epochs * self.best_of.share - 1e-9)

    def best(self, results: Mapping[str, Mapping[str, Any]]) -> Any | None:
        """The candidate with the best validation score, the first of equal ones; None where none has a score.

        ``results`` are those of the trials that came to their end, by the names of their folders.
        """
        found: list[tuple[float, Any]] = []
        for name, value in zip(self.names, self.best_of.values, strict=True):
            result = results.get(name, {})
            metric = str(result.get("metric"))
            score = result.get("val", {}).get(metric)
            if score is not None and math.isfinite(score):
                found.append((-score if metric_named(metric).higher_is_better else score, value))
        return min(found, key=lambda one: one[0])[1] if found else None

    def note(self, recipe: Recipe) -> str:
        """Of the chosen recipe: ``learning rate 0.003, the best of 0.001, 0.003 on validation after 5 epochs``."""
        group, _, key = self.best_of.key.rpartition(".")
        value = getattr(getattr(recipe, group) if group else recipe, key)
        tried = ", ".join(map(_shown, self.best_of.values))
        label = _LABELS.get(self.best_of.key, self.best_of.key)
        return (
            f"{label} {_shown(value)}, the best of {tried} on validation after {counted(self.epochs(recipe), 'epoch')}"
        )


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def train_trial(recipe: Recipe, folder: Path, *, data_dir: Path | None, device: str) -> None:
    """Train one of them, or resume it, quietly. It never gets the test part."""
    data = load_data(recipe, data_dir, progress=False)
    without_test = {part: graphs for part, graphs in data.dataset.split.items() if part != "test"}
    seen = dataclasses.replace(data, dataset=data.dataset.with_split(without_test))
    train(recipe, folder, resume=True, data_dir=data_dir, device=device, watch="quiet", data=seen)
