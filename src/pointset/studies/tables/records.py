"""What a table's folder holds: runs, measurements, and a note of what failed (:class:`TableFolder`)."""

from __future__ import annotations

import csv
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pointset.errors import FileFormatError, PointsetError, SpecError
from pointset.files import try_lock
from pointset.studies.tables.plan import PlannedRun
from pointset.training.json_files import read_json, write_json
from pointset.training.recipe import Recipe
from pointset.training.recipe_files import read_recipe
from pointset.training.result import read_result
from pointset.training.run import flattened
from pointset.training.run_folder import RunFolder

_FAILURES = "failures.json"
_COST = "cost.json"
_LOCK = ".table.lock"
_WAIT = 0.05  # seconds between two looks at the lock
_NO_MATTER = ("name", "title", "trainer.threads", "trainer.checkpoint_minutes")  # and all below `expected`


class TableFolder:
    """A folder with one folder for each run.

    Args:
        path: the folder; it need not be there.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, no other process reads the runs to write the table of them: what one finishes, the next one sees.

        Raises:
            SpecError: the folder is a file, or in one.
            OSError: it cannot be written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise SpecError(f"{self.path} is not a folder; expected one for the runs. Choose it by --run-dir") from None
        with (self.path / _LOCK).open("a") as file:
            while not try_lock(file):
                time.sleep(_WAIT)
            yield

    def seeds_begun(self) -> int:
        """How many different seeds the runs in the folder have."""
        names = [item.name for item in self.path.iterdir()] if self.path.is_dir() else []
        return len({found[1] for name in names if (found := re.search(r"-seed-(\d+)(?:-fold-\d+)?$", name))})

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
                "Delete its folder to run it anew, or choose another one for all runs with --run-dir"
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
            rows = list(csv.DictReader(file))
        try:
            points = [(int(row["epoch"]), float(row.get(f"val_{metric}") or "nan")) for row in rows]
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path} is damaged ({error}). Delete the folder, to run it again") from None
        return tuple((epoch, score) for epoch, score in points if math.isfinite(score))

    def environment(self, run: PlannedRun) -> dict[str, Any] | None:
        """What a training or measurement was made with; None where it is not known."""
        path = self.run(run).environment
        return read_json(path) if path.exists() else (self.cost(run) or {}).get("environment")

    def cost(self, run: PlannedRun) -> dict[str, Any] | None:
        """Of a measurement."""
        path = self.path / run.name / _COST
        return read_json(path) if path.exists() else None

    def keep_cost(self, run: PlannedRun, cost: Mapping[str, Any]) -> None:
        """Write a measurement."""
        path = self.path / run.name / _COST
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, cost)

    def is_taken(self, run: PlannedRun) -> bool:
        """Whether another process trains it now."""
        try:
            with self.run(run).claim(resume=True):
                return False
        except (SpecError, OSError):
            return False
        except PointsetError:
            return True

    def is_done(self, run: PlannedRun) -> bool:
        """Whether there is nothing left to do for it."""
        return self.run(run).is_finished or self.cost(run) is not None

    def failures(self) -> dict[str, str]:
        """Why runs failed, by their names."""
        path = self.path / _FAILURES
        try:
            return read_json(path) if path.exists() else {}
        except FileFormatError as error:
            raise FileFormatError(f"{error}. Delete it: it only says why runs failed") from None

    def note_failure(self, run: PlannedRun, reason: str | None) -> None:
        """Keep why a run failed; None where it did not."""
        with self.alone():
            known = self.failures()
            if reason is None and run.name not in known:
                return
            known = {name: text for name, text in known.items() if name != run.name}
            write_json(self.path / _FAILURES, known if reason is None else known | {run.name: reason})


def _different(begun: Recipe, now: Recipe) -> list[str]:
    """Keys in which two recipes differ, of those that change what is computed."""
    before, after = flattened(begun.as_dict()), flattened(now.as_dict())
    keys = [key for key in {**before, **after} if key not in _NO_MATTER and key.partition(".")[0] != "expected"]
    return [key for key in keys if before.get(key) != after.get(key)]
