"""All runs of a table, one after the other; what is finished stays (:class:`TableRuns`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pointset.datasets.loading import benchmark_named
from pointset.datasets.sources import find
from pointset.errors import MissingDataError, PointsetError
from pointset.paper.tables.collecting import MISSING, TableFolder, collected, made_here
from pointset.paper.tables.formats import written
from pointset.paper.tables.plan import Forecast, Forecaster, PlannedRun, TablePlan
from pointset.paper.tables.result import TableResult
from pointset.training.devices import threads_for
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
        table: its name, or its file, as it is to be printed in the command that makes it.
        tell: is told what happens, a line at a time.
    """

    def __init__(self, plan: TablePlan, where: Surroundings, table: str, tell: Callable[[str], None]):
        self.where, self.table, self.tell = where, table, tell
        self.folder = TableFolder(where.folder)
        self.plan = replace(plan, runs=tuple(self.folder.taken_up(run) for run in plan.runs))
        self.missing = _missing_datasets(self._not_done(), where.data_dir)
        self.failed: list[str] = []
        self.files: list[Path] = []

    @property
    def left(self) -> list[PlannedRun]:
        """What is still to be run here."""
        return [run for run in self._not_done() if run.recipe.dataset.name not in self.missing]

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
            if self.folder.is_done(run):  # meanwhile, by another process
                clock.took(run, None)
                continue
            self.tell(f"run {number} of {len(left)}: {run.name}{clock.words(run)}")
            start = time.monotonic()
            self._train(run)
            clock.took(run, time.monotonic() - start if self.folder.is_done(run) else None)
            self.write()
        return self.write()

    def collect(self) -> TableResult:
        """Write the table without running anything: what is not there is not run yet, with or without its data."""
        self.missing = []
        return self.write()

    def write(self) -> TableResult:
        """Write the table's files as it stands, by all processes that work on it."""
        with self.folder.alone():
            result = collected(self.plan, self.folder, self.table, missing=self.missing)
            self.files = written(result, self.where.folder)
        return result

    def _train(self, run: PlannedRun) -> None:
        with self._noted(run):
            self.folder.run(run).path.mkdir(parents=True, exist_ok=True)  # of two that begin it at once none removes it
            train(
                self.folder.taken_up(run).recipe,  # another process may have begun it meanwhile
                self.folder.run(run).path,
                resume=True,
                data_dir=self.where.data_dir,
                device=self.where.device,
                watch=self.where.watch,
            )

    def _measure(self, runs: Sequence[PlannedRun]) -> None:
        from pointset.paper.cost import measure_cost

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
                self.folder.keep_cost(run, cost.as_dict() | {"environment": made_here(threads, "cpu")})

    @contextmanager
    def _noted(self, run: PlannedRun) -> Iterator[None]:
        """What fails is noted in its row, and the rest goes on."""
        try:
            yield
        except TrainingStopped:
            raise
        except (PointsetError, ArithmeticError, MemoryError, OSError, RuntimeError, ValueError) as error:
            if self.folder.is_taken(run) or self.folder.is_done(run):
                self.tell(f"{run.name} is left to another process, which trains it")
                return
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

    def _not_done(self) -> list[PlannedRun]:
        """Of those that are chosen; nothing is to be done to count."""
        return [run for run in self.plan.chosen if self.plan.spec.kind != "counted" and not self.folder.is_done(run)]


def _missing_datasets(runs: Sequence[PlannedRun], data_dir: Path | None) -> list[str]:
    """Names of datasets whose files are nowhere here."""
    names = dict.fromkeys(run.recipe.dataset.name for run in runs if run.recipe.dataset.name is not None)
    return [name for name in names if find(benchmark_named(name), data_dir) is None]


class _Clock:
    """How much time is left: by the forecasts, put right by what the runs really took."""

    def __init__(self, runs: Sequence[PlannedRun], forecasts: Mapping[str, Forecast | None]):
        self.expected = {run.name: one.seconds for run in runs if (one := forecasts.get(run.name)) is not None}
        self.done_expected = self.done_real = 0.0

    def took(self, run: PlannedRun, seconds: float | None) -> None:
        """None: it was not done here."""
        expected = self.expected.pop(run.name, None)
        if expected is not None and seconds is not None:
            self.done_expected += expected
            self.done_real += seconds

    def words(self, run: PlannedRun) -> str:
        """`` (about 5 min; all that is left: 1 h 20 min)``; empty where nothing is known."""
        from pointset.text import duration

        if run.name not in self.expected:
            return ""
        factor = self.done_real / self.done_expected if self.done_expected else 1.0
        left = sum(self.expected.values()) * factor
        return f" (about {duration(self.expected[run.name] * factor)}; all that is left: {duration(left)})"
