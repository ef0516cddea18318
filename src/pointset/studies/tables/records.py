"""What a table's folder holds: runs, measurements, and a note of what failed (:class:`TableFolder`)."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pointset.errors import SpecError
from pointset.studies.tables.plan import PlannedRun
from pointset.training.json_files import read_json, write_json
from pointset.training.recipe import Recipe
from pointset.training.recipe_files import read_recipe
from pointset.training.result import read_result
from pointset.training.run import flattened
from pointset.training.run_folder import RunFolder

_FAILURES = "failures.json"
_COST = "cost.json"
_NO_MATTER = ("name", "title", "trainer.threads", "trainer.checkpoint_minutes")  # and all below `expected`


class TableFolder:
    """A folder with one folder for each run.

    Args:
        path: the folder; it need not be there.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def run(self, run: PlannedRun) -> RunFolder:
        """Where a training goes."""
        return RunFolder(self.path / run.name)

    def taken_up(self, run: PlannedRun) -> PlannedRun:
        """The run with the recipe that it was begun by, if it was: with its threads, and its words.

        Raises:
            SpecError: it was begun with other settings.
        """
        folder = self.run(run)
        if not folder.has_run:
            return run
        begun = read_recipe(folder.recipe)
        if different := _different(begun, run.recipe):
            raise SpecError(
                f"the run in {folder.path} was begun with other settings ({', '.join(different[:5])}).\n"
                "Keep them, or choose another folder with --run-dir"
            )
        return replace(run, recipe=begun)

    def result(self, run: PlannedRun) -> dict[str, Any] | None:
        """Of a finished training."""
        folder = self.run(run)
        return read_result(folder.result) if folder.is_finished else None

    def curve(self, run: PlannedRun, metric: str) -> tuple[tuple[int, float], ...]:
        """(epoch, validation score) of a training, for the epochs that have one."""
        path = self.run(run).metrics
        if not path.exists():
            return ()
        with path.open(newline="", encoding="utf-8") as file:
            rows = [(row["epoch"], row.get(f"val_{metric}") or "nan") for row in csv.DictReader(file)]
        points = [(int(epoch), float(score)) for epoch, score in rows]
        return tuple((epoch, score) for epoch, score in points if math.isfinite(score))

    def cost(self, run: PlannedRun) -> dict[str, Any] | None:
        """Of a measurement."""
        path = self.path / run.name / _COST
        return read_json(path) if path.exists() else None

    def keep_cost(self, run: PlannedRun, cost: Mapping[str, Any]) -> None:
        """Write a measurement."""
        path = self.path / run.name / _COST
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, cost)

    def is_done(self, run: PlannedRun) -> bool:
        """Whether there is nothing left to do for it."""
        return self.run(run).is_finished or self.cost(run) is not None

    def failures(self) -> dict[str, str]:
        """Why runs failed, by their names."""
        path = self.path / _FAILURES
        return read_json(path) if path.exists() else {}

    def note_failure(self, run: PlannedRun, reason: str | None) -> None:
        """Keep why a run failed; None where it did not."""
        known = self.failures()
        if reason is None and run.name not in known:
            return
        known = {name: text for name, text in known.items() if name != run.name}
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / _FAILURES, known if reason is None else known | {run.name: reason})


def _different(begun: Recipe, now: Recipe) -> list[str]:
    """Keys in which two recipes differ, of those that change what is computed."""
    before, after = flattened(begun.as_dict()), flattened(now.as_dict())
    keys = [key for key in {**before, **after} if key not in _NO_MATTER and key.partition(".")[0] != "expected"]
    return [key for key in keys if before.get(key) != after.get(key)]
