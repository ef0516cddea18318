"""What a study leaves behind (:class:`TuningResult`): tuning.json, trials.csv, and the best recipe in best.yaml.

Light to import (neither torch nor optuna).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.files import replacing, write_json
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed
from pointset.tuning.ranges import Space

if TYPE_CHECKING:
    from pointset.tuning.trials import TrialRecord


BEST, TABLE, CONTENT = "best.yaml", "trials.csv", "tuning.json"
_COLUMNS = ("state", "value", "epochs", "best_epoch", "parameters", "seconds", "error", "folder")


@dataclass(frozen=True)
class TuningResult:
    """What a study found so far."""

    folder: Path
    study: str
    storage: str  # without a password
    space: Space
    metric: str
    higher_is_better: bool
    trials: list[TrialRecord]  # all of them, those of other processes too
    best: list[TrialRecord]  # at most five, the best first
    importance: dict[str, float] | None  # of each key, together 1; None where trials are too few to say

    @property
    def best_recipe(self) -> Recipe | None:
        """The recipe with the values of the best trial; None as long as no trial came to its end."""
        if not self.best:
            return None
        recipe = self.space.recipe_for(self.best[0].values)
        return changed(recipe, {"name": f"{recipe.name}-tuned"})

    def count(self, state: str) -> int:
        """Trials that are complete, pruned, failed, running, waiting or retried."""
        return sum(one.state == state for one in self.trials)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and for reports."""
        recipe = self.space.recipe
        return {
            "recipe": recipe.name,
            "title": recipe.title,
            "study": self.study,
            "storage": self.storage,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "epochs": recipe.trainer.epochs,
            "ranges": {key: one.as_dict() for key, one in self.space.ranges.items()},
            "trials": [one.as_dict() for one in self.trials],
            "best": [one.number for one in self.best],
            "importance": self.importance,
            "test_scored": "never",
        }

    def write(self) -> None:
        """All three files, each whole or not at all."""
        write_json(self.folder / CONTENT, self.as_dict())
        _write_table(self.folder / TABLE, self.trials, list(self.space.ranges))
        recipe = self.best_recipe
        if recipe is not None:
            best = self.best[0]
            about = f"# The best of {len(self.trials)} trials of `pointset tune`: number {best.number}, "
            about += f"validation {self.metric} {best.value:.6g}. The test part was never looked at.\n"
            with replacing(self.folder / BEST) as temporary:
                temporary.write_text(about + recipe.as_yaml(), encoding="utf-8")


def _write_table(path: Path, trials: list[TrialRecord], keys: list[str]) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", *_COLUMNS, *keys])
        for one in trials:
            row = [one.number, *(getattr(one, name) for name in _COLUMNS), *(one.values.get(key) for key in keys)]
            writer.writerow(["" if value is None else value for value in row])
