"""What a study found (:class:`TuningResult`, :class:`TrialRecord`), and the files it is written to.

Light to import (neither torch nor optuna).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pointset.files import replacing, write_csv, write_json
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed
from pointset.tuning.ranges import Space

# In the folder of a study.
DATABASE, TRIALS, WORKERS = "study.db", "trials", "workers"
BEST, TABLE, CONTENT = "best.yaml", "trials.csv", "tuning.json"
_MOST_BEST = 5
_COLUMNS = ("state", "value", "epochs", "best_epoch", "parameters", "seconds", "error", "folder")


@dataclass(frozen=True)
class TrialRecord:
    """One trial, in plain values."""

    number: int
    state: str  # complete, pruned, failed, running, waiting; retried: another trial has taken its place
    value: float | None  # the best validation score, so far where it was pruned
    values: dict[str, float | int]  # by key of the recipe
    epochs: int | None  # the last one that was validated
    best_epoch: int | None
    parameters: int | None
    seconds: float | None
    error: str | None  # why it failed
    folder: str  # below the study's


@dataclass(frozen=True)
class TuningResult:
    """What a study found so far."""

    folder: Path
    study: str
    storage: str  # without a password
    space: Space
    metric: str
    higher_is_better: bool
    trials: list[TrialRecord]  # by number, those of other processes too
    importance: dict[str, float] | None  # of each key, together 1; None where there are too few trials to say

    @property
    def best(self) -> list[TrialRecord]:
        """At most five complete trials, the best first, of equals the first one."""
        done = [(one.value, one) for one in self.trials if one.state == "complete" and one.value is not None]
        sign = -1 if self.higher_is_better else 1
        return [one for _, one in sorted(done, key=lambda pair: (sign * pair[0], pair[1].number))][:_MOST_BEST]

    @property
    def best_recipe(self) -> Recipe | None:
        """The recipe with the values of the best trial; None as long as no trial is complete."""
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
            "trials": [dataclasses.asdict(one) for one in self.trials],
            "best": [one.number for one in self.best],
            "importance": self.importance,
            "test_scored": "never",
        }

    def write(self) -> None:
        """Write tuning.json, trials.csv and, once there is one, the best recipe; each whole or not at all."""
        write_json(self.folder / CONTENT, self.as_dict())
        self._write_table()
        recipe = self.best_recipe
        if recipe is not None:
            best = self.best[0]
            about = f"# The best of {len(self.trials)} trials of `pointset tune`: number {best.number}, "
            about += f"validation {self.metric} {best.value:.6g}. The test part was not used.\n"
            with replacing(self.folder / BEST) as temporary:
                temporary.write_text(about + recipe.as_yaml(), encoding="utf-8")

    def _write_table(self) -> None:
        keys = list(self.space.ranges)
        rows: list[list[Any]] = [["number", *_COLUMNS, *keys]]
        for one in self.trials:  # None is an empty cell
            scores = [getattr(one, name) for name in _COLUMNS]
            rows.append([one.number, *scores, *(one.values.get(key) for key in keys)])
        write_csv(self.folder / TABLE, rows)
