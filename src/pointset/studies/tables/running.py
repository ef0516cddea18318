"""All runs of a table, one after the other; what is finished stays (:class:`TableRuns`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pointset.datasets.catalogue import benchmark_named
from pointset.datasets.locate import find
from pointset.errors import MissingDataError, PointsetError
from pointset.studies.tables.collecting import MISSING, collected
from pointset.studies.tables.forecasting import Forecast, Forecaster
from pointset.studies.tables.plan import PlannedRun, TablePlan
from pointset.studies.tables.records import TableFolder
from pointset.studies.tables.rendering import written
from pointset.studies.tables.result import TableResult
from pointset.training.devices import check_device, threads_for
from pointset.training.interruption import TrainingStopped
from pointset.training.run import train

_LONGEST_REASON = 200  # letters


@dataclass(frozen=True)
class Surroundings:
    """Where and how runs are made."""

    folder: Path
    data_dir: Path | None = None
    device: str = "cpu"
    watch: str = "quiet"


class TableRuns:
    """A table being made.

    Args:
        plan: what to run.
        where: folder, data, device.
        command: that makes the table, as it is to be printed beside it.
        tell: is told what happens, a line at a time.
    """

    def __init__(self, plan: TablePlan, where: Surroundings, command: str, tell: Callable[[str], None]):
        self.where, self.command, self.tell = where, command, tell
        self.folder = TableFolder(where.folder)
        self.plan = replace(plan, runs=tuple(self.folder.taken_up(run) for run in plan.runs))
        needing = [] if plan.spec.kind == "counted" else self.plan.chosen
        self.missing = _missing_datasets(needing, where.data_dir)
        self.failed: list[str] = []

    @property
    def left(self) -> list[PlannedRun]:
        """What is still to be run here."""
        if self.plan.spec.kind == "counted":
            return []
        return [run for run in self.plan.chosen if not self.folder.is_done(run) and not self._lacks_data(run)]

    def forecasts(self, forecaster: Forecaster | None = None) -> dict[str, Forecast | None]:
        """Of the runs that are left, by name; None where it cannot be said: the run will say why."""
        ask = forecaster or Forecaster(self.where.data_dir)
        found: dict[str, Forecast | None] = {}
        for run in self.left if self.plan.spec.kind == "trained" else []:
            try:
                found[run.name] = ask(run.recipe)
            except (PointsetError, MemoryError, RuntimeError):
                found[run.name] = None
        return found

    def run(self, forecasts: Mapping[str, Forecast | None] | None = None) -> TableResult:
        """Run what is left; the table's files are written anew after each run.

        Raises:
            TrainingStopped: Ctrl-C or SIGTERM; all is saved.
        """
        left = self.left
        if self.plan.spec.kind == "measured" and left:
            self._measure(self.plan.chosen)  # all again: only what is measured side by side can be compared
            return self.write()
        clock = _Clock(left, forecasts or {})
        for number, run in enumerate(left, 1):
            self.tell(f"run {number} of {len(left)}: {run.name}{clock.words(run)}")
            start = time.monotonic()
            self._train(run)
            clock.took(run, time.monotonic() - start)
            self.write()
        return self.write()

    def collected(self) -> TableResult:
        """The table as it stands."""
        recipe = self.plan.runs[0].recipe
        threads, device = threads_for(recipe, 1), check_device(self.where.device, recipe.trainer.precision)
        return collected(self.plan, self.folder, self.command, threads=threads, device=device, missing=self.missing)

    def write(self) -> TableResult:
        """Write the table's files as it stands."""
        result = self.collected()
        self.where.folder.mkdir(parents=True, exist_ok=True)
        self.files = written(result, self.where.folder)
        return result

    def _train(self, run: PlannedRun) -> None:
        with self._noted(run):
            train(
                run.recipe,
                self.folder.run(run).path,
                resume=True,
                data_dir=self.where.data_dir,
                device=self.where.device,
                watch=self.where.watch,
            )

    def _measure(self, runs: Sequence[PlannedRun]) -> None:
        from pointset.studies.comparison.cost import measure_cost

        threads, budget = threads_for(runs[0].recipe, 1), self.plan.spec.budgets[self.plan.budget]
        self.tell(
            f"{len(runs)} models side by side: {budget.rounds} × {budget.batches or 'all'} batches each, "
            f"threads: {threads}"
        )
        costs = measure_cost(
            [run.recipe for run in runs],
            batches=budget.batches,
            repeats=budget.rounds,
            data_dir=self.where.data_dir,
            threads=threads,
        )
        for run, cost in zip(runs, costs, strict=True):
            with self._noted(run):
                if cost.failure:
                    raise PointsetError(cost.failure)
                self.folder.keep_cost(run, cost.as_dict())

    @contextmanager
    def _noted(self, run: PlannedRun) -> Iterator[None]:
        """What fails is noted in its row, and the rest goes on."""
        try:
            yield
        except TrainingStopped:
            raise
        except (PointsetError, ArithmeticError, MemoryError, OSError, RuntimeError, ValueError) as error:
            reason = self._in_words(error)
            self.folder.note_failure(run, reason)
            self.failed.append(run.name)
            self.tell(f"{run.name} failed: {reason}")
        else:
            self.folder.note_failure(run, None)

    def _in_words(self, error: Exception) -> str:
        """The first line, without paths of this machine: it is kept in the table."""
        if isinstance(error, MissingDataError):
            return MISSING
        text = str(error).partition("\n")[0] or type(error).__name__
        for path in (self.where.folder.resolve(), self.where.folder, self.where.data_dir, Path.home()):
            if path is not None and str(path) not in (".", "/"):
                text = text.replace(str(path), "…")
        return text[:_LONGEST_REASON]

    def _lacks_data(self, run: PlannedRun) -> bool:
        return run.recipe.dataset.name in self.missing


def _missing_datasets(runs: Sequence[PlannedRun], data_dir: Path | None) -> list[str]:
    """Names of datasets whose files are nowhere here."""
    names = dict.fromkeys(run.recipe.dataset.name for run in runs if run.recipe.dataset.name is not None)
    return [name for name in names if find(benchmark_named(name), data_dir) is None]


class _Clock:
    """How much time is left: by the forecasts, put right by what the runs really took."""

    def __init__(self, runs: Sequence[PlannedRun], forecasts: Mapping[str, Forecast | None]):
        self.expected = {run.name: one.seconds for run in runs if (one := forecasts.get(run.name)) is not None}
        self.done_expected = self.done_real = 0.0

    def took(self, run: PlannedRun, seconds: float) -> None:
        if run.name in self.expected:
            self.done_expected += self.expected.pop(run.name)
            self.done_real += seconds

    def words(self, run: PlannedRun) -> str:
        """`` (about 5 min; all that is left: 1 h 20 min)``; empty where nothing is known."""
        from pointset.reports.run_pages.words import duration

        if run.name not in self.expected:
            return ""
        factor = self.done_real / self.done_expected if self.done_expected else 1.0
        left = sum(self.expected.values()) * factor
        return f" (about {duration(self.expected[run.name] * factor)}; all that is left: {duration(left)})"
