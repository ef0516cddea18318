"""All runs of a table, one after the other; what is finished stays (:class:`TableRuns`). What they will take is
forecast from a few of their own steps (:class:`Forecaster`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pointset.datasets.loading import benchmark_named
from pointset.datasets.molecules.descriptors import MORGAN_BITS
from pointset.datasets.sources import find
from pointset.errors import MissingDataError, PointsetError, TrainingStopped
from pointset.paper.cost import measure_cost
from pointset.paper.tables.collect import FAILURES, NO_DATA, TableFolder, collect_table, environment_here
from pointset.paper.tables.fingerprints import run_fingerprints
from pointset.paper.tables.formats import write_table
from pointset.paper.tables.plan import PlannedRun, TablePlan, card_of
from pointset.paper.tables.result import TableResult
from pointset.paper.tables.trials import train_trial
from pointset.registry import model_matrix
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.text import counted, duration
from pointset.training.data import TrainingData, load_data
from pointset.training.devices import threads_for
from pointset.training.run import train
from pointset.training.timing import RunForecast, forecast_run

_LONGEST_REASON = 200  # letters
_FAILING = (PointsetError, ArithmeticError, MemoryError, OSError, RuntimeError, ValueError)  # of a run, not of them all


@dataclass(frozen=True)
class Forecast:
    """Of one training on this machine's CPU, with the recipe's threads."""

    seconds: float  # of all epochs, with their validation; early stopping may end it sooner
    memory_bytes: int  # of the process at its largest batch


class TableRuns:
    """A table being made.

    ``table`` is its name, or its file, as it is to be printed in the command that makes it; ``tell`` is told what
    happens, a line at a time; ``watch`` is how the progress of a training is shown.
    """

    def __init__(
        self,
        plan: TablePlan,
        folder: TableFolder,
        table: str,
        tell: Callable[[str], None],
        *,
        data_dir: Path | None = None,
        device: str = "cpu",
        watch: str = "quiet",
    ):
        self.folder, self.table, self.tell = folder, table, tell
        self.data_dir, self.device, self.watch = data_dir, device, watch
        self.plan = replace(plan, runs=tuple(folder.as_begun(run) for run in plan.runs))
        names = dict.fromkeys(run.recipe.dataset.name for run in self._not_done())
        self.missing = [name for name in names if name and find(benchmark_named(name), data_dir) is None]
        self.failed: list[str] = []
        self.files: list[Path] = []

    @property
    def left(self) -> list[PlannedRun]:
        """What is still to be run here."""
        return [run for run in self._not_done() if run.recipe.dataset.name not in self.missing]

    def _not_done(self) -> list[PlannedRun]:
        """Of those that are chosen; nothing is to be done to count."""
        return [run for run in self.plan.chosen if self.plan.spec.kind != "counted" and not self.folder.is_done(run)]

    def forecasts(self, forecaster: Callable[[Recipe], Forecast] | None = None) -> dict[str, Forecast | None]:
        """Of the runs that are left, by name; None where it cannot be said: the run will say why."""
        ask = forecaster or Forecaster(self.data_dir)
        found: dict[str, Forecast | None] = {}
        forecast: set[str] = set()  # trials are made once for all seeds of a row
        for run in self.left if self.plan.spec.kind == "trained" else []:
            try:
                found[run.name] = self._limit(run) if run.row.fingerprints else ask(run.recipe)
            except (PointsetError, MemoryError, RuntimeError):
                found[run.name] = None
            if (one := found[run.name]) is not None:
                trials = {name: recipe for name, recipe in self._trials_left(run).items() if name not in forecast}
                forecast |= set(trials)
                more = sum(ask(recipe).seconds for recipe in trials.values())
                found[run.name] = replace(one, seconds=one.seconds + more)
        return found

    def _limit(self, run: PlannedRun) -> Forecast | None:
        """Of fingerprints: the time that they may take, and their counts as numbers of eight bytes, twice."""
        if run.row.minutes is None:
            return None
        molecules = sum(card_of(run.recipe, self.data_dir).split_sizes.values())
        return Forecast(60 * run.row.minutes, 2 * 8 * MORGAN_BITS * molecules)

    def _trials_left(self, run: PlannedRun) -> dict[str, Recipe]:
        """Those without which the run cannot begin."""
        if run.trials is None or self.folder.run(run).has_run or self.folder.trials_are_over(run.trials):
            return {}
        recipes = run.trials.recipes(run.recipe).items()
        return {name: recipe for name, recipe in recipes if not RunFolder(self.folder.path / name).is_finished}

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
            self.tell(f"run {number} of {len(left)}: {run.name}{clock.time_left(run)}")
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
        with self.folder.locked():
            result = collect_table(self.plan, self.folder, self.table, missing=self.missing)
            self.files = write_table(result, self.folder.path)
        return result

    def _train(self, run: PlannedRun) -> None:
        self._choose(run)
        if run.trials is not None and self._trials_left(run):
            self.tell(f"{run.name} is left to another process, which chooses its {run.trials.best_of.key}")
            return
        with self._failure_noted(run):
            path = self.folder.run(run).path
            if run.trials is not None and not self.folder.run(run).has_run and self.folder.choice(run) is None:
                raise PointsetError(
                    f"no candidate of {run.trials.best_of.key} has a validation score; {FAILURES} says why. Delete it, "
                    "to try them again"
                )
            path.mkdir(parents=True, exist_ok=True)  # of two that begin it at once none removes it
            recipe = self.folder.as_begun(run).recipe  # another process may have begun it meanwhile
            if run.row.fingerprints is not None:
                limit, data_dir = run.row.minutes, self.data_dir
                run_fingerprints(recipe, run.row.fingerprints, path, minutes=limit, data_dir=data_dir, tell=self.tell)
                return
            train(recipe, path, resume=True, data_dir=self.data_dir, device=self.device, watch=self.watch)

    def _choose(self, run: PlannedRun) -> None:
        """Make the trials that are left; one that fails is not chosen."""
        for name, recipe in self._trials_left(run).items():
            self.tell(f"{name}: {counted(recipe.trainer.epochs, 'epoch')}, to choose by validation")
            path = self.folder.path / name
            path.mkdir(parents=True, exist_ok=True)
            try:
                train_trial(recipe, path, data_dir=self.data_dir, device=self.device)
            except TrainingStopped:
                raise
            except _FAILING as error:
                if self.folder.is_running(name) or RunFolder(path).is_finished:
                    self.tell(f"{name} is left to another process, which trains it")
                    continue
                self.folder.note_failure(name, self._reason(error))
                self.tell(f"{name} failed: {self._reason(error)}")
            else:
                self.folder.note_failure(name, None)

    def _measure(self, runs: Sequence[PlannedRun]) -> None:
        threads, budget = threads_for(runs[0].recipe, 1), self.plan.spec.budgets[self.plan.budget]
        self.tell(
            f"{len(runs)} models side by side: {budget.rounds} × {budget.batches or 'all'} batches each, "
            f"threads: {threads}"
        )
        costs = measure_cost(
            [run.recipe for run in runs],
            batches=budget.batches,
            repeats=budget.rounds,
            data_dir=self.data_dir,
            threads=threads,
        )
        for run, cost in zip(runs, costs, strict=True):
            with self._failure_noted(run):
                if cost.failure:
                    raise PointsetError(cost.failure)
                self.folder.write_cost(run, cost.as_dict() | {"environment": environment_here(threads, "cpu")})

    @contextmanager
    def _failure_noted(self, run: PlannedRun) -> Iterator[None]:
        """What fails is noted in its row, and the other runs continue."""
        try:
            yield
        except TrainingStopped:
            raise
        except _FAILING as error:
            if self.folder.is_running(run.name) or self.folder.is_done(run):
                self.tell(f"{run.name} is left to another process, which trains it")
                return
            reason = self._reason(error)
            self.folder.note_failure(run.name, reason)
            self.failed.append(run.name)
            self.tell(f"{run.name} failed: {reason}")
        else:
            self.folder.note_failure(run.name, None)

    def _reason(self, error: Exception) -> str:
        """The first line, without paths of this machine: it goes into the table."""
        if isinstance(error, MissingDataError):
            return NO_DATA
        text = str(error).partition("\n")[0] or type(error).__name__
        paths = [self.folder.path.resolve(), self.folder.path, self.data_dir]
        with suppress(RuntimeError):  # there is no home folder
            paths.append(Path.home())
        for path in paths:
            if path is not None and str(path) not in (".", "/"):
                text = text.replace(str(path), "…")
        return text[:_LONGEST_REASON]


class _Clock:
    """How much time is left: by the forecasts, corrected by what the runs really took."""

    def __init__(self, runs: Sequence[PlannedRun], forecasts: Mapping[str, Forecast | None]):
        self.expected = {run.name: one.seconds for run in runs if (one := forecasts.get(run.name)) is not None}
        self.done_expected = self.done_real = 0.0

    def took(self, run: PlannedRun, seconds: float | None) -> None:
        """None: it was not done here."""
        expected = self.expected.pop(run.name, None)
        if expected is not None and seconds is not None:
            self.done_expected += expected
            self.done_real += seconds

    def time_left(self, run: PlannedRun) -> str:
        """`` (about 5 min; all that is left: 1 h 20 min)``; empty where nothing is known."""
        if run.name not in self.expected:
            return ""
        factor = self.done_real / self.done_expected if self.done_expected else 1.0
        left = sum(self.expected.values()) * factor
        return f" (about {duration(self.expected[run.name] * factor)}; all that is left: {duration(left)})"


class Forecaster:
    """Forecasts recipes; those of the same data and model are measured once."""

    def __init__(self, data_dir: str | Path | None = None):
        self.data_dir = data_dir
        self._measured: dict[str, RunForecast] = {}
        self._data: tuple[str, TrainingData] | None = None  # only the last: they are large

    def __call__(self, recipe: Recipe) -> Forecast:
        """Time some steps, where no like recipe was timed; it raises what the run itself would raise at its start."""
        key = _same_cost(recipe)
        if key not in self._measured:
            self._measured[key] = forecast_run(recipe, self._loaded(recipe), threads_for(recipe, 1))
        forecast = self._measured[key]
        return Forecast(forecast.seconds(recipe.trainer.epochs), forecast.memory_bytes)

    def _loaded(self, recipe: Recipe) -> TrainingData:
        data = recipe.dataset.model_dump(mode="json") | {"fold": None}
        matrix = model_matrix(recipe.model.preset, recipe.model.matrix)
        key = f"{data} {matrix} {recipe.model.rank} {recipe.scale_targets}"
        if self._data is None or self._data[0] != key:
            self._data = None  # before the next is read
            self._data = key, load_data(recipe, self.data_dir)
        return self._data[1]


def _same_cost(recipe: Recipe) -> str:
    """The same for recipes whose epochs take about equally long: other seeds, folds, epochs, options of a dataset, one
    target or another.
    """
    dataset = recipe.dataset.model_dump(mode="json") | {"fold": None}
    if recipe.dataset.name is not None:
        dataset["options"] = {}
    if recipe.dataset.targets is not None:
        dataset["targets"] = len(recipe.dataset.targets)
    trainer = recipe.trainer.model_dump(mode="json") | {"epochs": 0, "patience": None, "checkpoint_minutes": 0}
    return f"{dataset} {recipe.model.model_dump(mode='json')} {recipe.loss} {trainer}"
