"""From a table and a budget to the runs that fill it (:func:`planned`)."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pointset.datasets.card import Card
from pointset.datasets.loading import benchmark_named
from pointset.encoders.loader import PointLoader
from pointset.errors import SpecError, did_you_mean
from pointset.machine import resident_bytes, training_bytes
from pointset.paper.comparison import count_parameters, matched, with_model
from pointset.paper.cost import Stopwatch
from pointset.paper.tables.result import Budget
from pointset.paper.tables.spec import OwnRow, Settings, TableSpec, Task
from pointset.registry import preset_named
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, read_recipe
from pointset.training.batches import training_batches
from pointset.training.data import TrainingData, build_model, check_memory, load_data
from pointset.training.devices import DTYPES, thread_count, threads_for
from pointset.training.run import flattened

# What is typed to make a table or one of its runs again (:func:`table_command`, :func:`train_command`).


_WORDS = ("name", "title")  # which change nothing that is computed
_EXPECTED = "expected"


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """``{"model.dim": 32}`` → ``["model.dim=32"]``."""
    return [f"{key}={_text(value)}" for key, value in settings.items()]


def table_command(
    table: str, budget: str, models: Sequence[str] = (), columns: Sequence[str] = (), seeds: int | None = None
) -> str:
    """The command that makes a table of these rows and columns; empty is all."""
    words = ["pointset", "reproduce", table, "--budget", budget]
    words += ["--models", ",".join(models)] if models else []
    words += ["--columns", ",".join(columns)] if columns else []
    return shlex.join(words + ([] if seeds is None else ["--seeds", str(seeds)]))


def train_command(base: str, recipe: Recipe, folder: str) -> str:
    """The command that trains by ``recipe``, as changes of the recipe ``base``."""
    return shlex.join(["pointset", "train", base, *differences(read_recipe(base), recipe), "--run-dir", folder])


def cost_command(base: str, recipe: Recipe, parameters: int, batches: int | None, rounds: int) -> str:
    """The command that measures an epoch of the recipe's model."""
    words = ["pointset", "compare", base, "--models", recipe.model.preset, "--parameters", str(parameters)]
    return shlex.join([*words, "--cost-only", "--batches", str(batches or 0), "--repeats", str(rounds)])


def differences(base: Recipe, recipe: Recipe) -> list[str]:
    """The overrides that make the one of the other, names and titles aside."""
    before, after = (_plain(one) for one in (base, recipe))
    return as_overrides({key: value for key, value in after.items() if key not in before or before[key] != value})


def _plain(recipe: Recipe) -> dict[str, Any]:
    """By dotted key; the paper's result is there or not, as a command cannot make another."""
    values = {key: value for key, value in recipe.as_dict().items() if key not in _WORDS}
    if values[_EXPECTED] is not None:
        del values[_EXPECTED]
    return flattened(values)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{','.join(map(_text, value))}]"
    return str(value)


_MOST_SEEDS = 1000


@dataclass(frozen=True)
class PlannedRun:
    """One training, measurement or count."""

    name: str  # of its folder
    row: OwnRow
    task: Task
    recipe: Recipe
    command: str  # that does it alone
    seed: int
    fold: int | None
    is_chosen: bool  # the others are not run, but fill the table where they are finished


@dataclass(frozen=True)
class TablePlan:
    """All runs of a table at one budget, in the order in which they are run."""

    spec: TableSpec
    budget: Budget
    folder: str  # where they are kept by default: the commands name it
    runs: tuple[PlannedRun, ...]

    @property
    def chosen(self) -> list[PlannedRun]:
        """Those that are to be run."""
        return [run for run in self.runs if run.is_chosen]

    def command(self, runs: Collection[PlannedRun], table: str) -> str:
        """That makes the rows and columns which these runs fill, whatever was asked for in the calls that made them.

        Args:
            runs: some of the plan's.
            table: its name, or its file.
        """
        all_rows, rows = (list(dict.fromkeys(run.row.name for run in some)) for some in (self.runs, runs))
        all_tasks, tasks = ({run.task.name: run.task for run in some} for some in (self.runs, runs))
        columns = dict.fromkeys(column for task in tasks.values() for column in task.columns)
        seeds = len({run.seed for run in self.runs})
        return table_command(
            table,
            self.budget,
            rows if len(rows) < len(all_rows) else (),
            list(columns) if len(tasks) < len(all_tasks) else (),
            seeds if seeds != self.spec.budgets[self.budget].seeds else None,
        )


@dataclass(frozen=True)
class Choice:
    """What of a table to run; None is all."""

    models: Sequence[str] | None = None  # names of rows
    columns: Sequence[str] | None = None
    seeds: int | None = None  # None: as many as the budget says, or as were begun
    threads: int | None = None
    seeds_begun: int = 0  # by earlier calls


def planned(
    spec: TableSpec, budget: Budget, choice: Choice | None = None, data_dir: str | Path | None = None
) -> TablePlan:
    """The runs of a table: rows × tasks × seeds × folds, all first seeds before the second ones.

    Raises:
        SpecError: the table has no such budget, row or column, or a recipe or setting in it is impossible.
    """
    choice = choice or Choice()
    if budget not in spec.budgets:
        raise SpecError(f"the table {spec.name!r} has no budget {budget!r}; expected {', '.join(spec.budgets)}")
    _check_names("model", choice.models, [row.name for row in rows_of(spec, budget)])
    _check_names("column", choice.columns, [column.key for column in spec.printed_columns])
    if choice.seeds is not None and not 1 <= choice.seeds <= _MOST_SEEDS:
        raise SpecError(f"got seeds={choice.seeds}; expected a whole number from 1 to {_MOST_SEEDS}")
    recipes = _Recipes(spec, budget, data_dir)
    budget_plan = spec.budgets[budget]
    folds: Sequence[int | None] = [None] if budget_plan.folds is None else range(budget_plan.folds)
    seeds = choice.seeds or max(budget_plan.seeds, choice.seeds_begun)
    folder = default_folder(spec, budget)
    runs = [
        _run(recipes, row, task, seed, fold, choice, folder)
        for seed, fold in product(range(seeds), folds)
        for row in rows_of(spec, budget)
        for task in tasks_of(spec, row, budget)
    ]
    if not any(run.is_chosen for run in runs):
        of = " of the models ".join(", ".join(names) for names in (choice.columns, choice.models) if names)
        raise SpecError(
            f"the table {spec.name!r} has no run for {of} at the budget {budget!r}\n"
            "--plan without --columns and --models shows the runs that it has"
        )
    return TablePlan(spec, budget, folder, tuple(runs))


def default_folder(spec: TableSpec, budget: Budget) -> str:
    """Where runs are kept if nothing else is said."""
    return f"runs/reproduce/{spec.name}-{budget}"


def rows_of(spec: TableSpec, budget: Budget) -> list[OwnRow]:
    """Rows of ours that the budget has."""
    return [row for row in spec.ours if row.only is None or budget in row.only]


def tasks_of(spec: TableSpec, row: OwnRow, budget: Budget) -> list[Task]:
    """What is trained for the row."""
    left_out = {*row.without, *spec.budgets[budget].without}
    return [task for task in spec.tasks if (task.only is None or budget in task.only) and task.name not in left_out]


def card_of(recipe: Recipe, data_dir: str | Path | None = None) -> Card:
    """What the recipe's data says of itself: known without files for a dataset of the catalogue."""
    if recipe.dataset.name is None:
        return load_data(recipe, data_dir, progress=False).card
    card = benchmark_named(recipe.dataset.name).card
    return card if recipe.dataset.targets is None else card.with_targets(recipe.dataset.targets)


def parameters_of(recipe: Recipe, data_dir: str | Path | None = None) -> int:
    """Of its model, without making any weights."""
    return count_parameters(recipe, card_of(recipe, data_dir))


class _Recipes:
    """The recipe of each row and task at a budget, made once."""

    def __init__(self, spec: TableSpec, budget: Budget, data_dir: str | Path | None):
        self.spec, self.budget, self.data_dir = spec, budget, data_dir
        self.made = cache(self._made)

    def base(self, row: OwnRow, task: Task) -> str:
        """The name of the recipe to begin with."""
        of_task, of_row = task.budgets.get(self.budget), row.budgets.get(self.budget)
        name = (of_task and of_task.recipe) or task.recipe
        return ((of_row and of_row.recipe) or row.recipe).format(name)

    def of(self, row: OwnRow, task: Task) -> Recipe:
        return self.made(row.name, task.name)

    def parameters(self, row: OwnRow, task: Task) -> int:
        """Of the row's model for the task."""
        return parameters_of(self.of(row, task), self.data_dir)

    def _made(self, row_name: str, task_name: str) -> Recipe:
        row = self.spec.row(row_name)
        task = next(task for task in self.spec.tasks if task.name == task_name)
        recipe = read_recipe(self.base(row, task), as_overrides(self._settings(row, task)))
        change = row.budgets.get(self.budget)
        other = (change and change.as_large_as) or row.as_large_as
        model = (change and change.model) or row.model or recipe.model.preset
        if other is None:
            return recipe if model == recipe.model.preset else with_model(recipe, model)
        aim = self.parameters(self.spec.row(other), task)
        return matched(recipe, model, aim, card_of(recipe, self.data_dir))

    def _settings(self, row: OwnRow, task: Task) -> Settings:
        """From the general to the particular: later ones win."""
        settings = dict(self.spec.budgets[self.budget].set)
        for part in (task, row):
            change = part.budgets.get(self.budget)
            settings |= part.set | (change.set if change else {})
        return settings


def _run(
    recipes: _Recipes, row: OwnRow, task: Task, seed: int, fold: int | None, choice: Choice, folder: str
) -> PlannedRun:
    recipe = recipes.of(row, task)
    numbers: Settings = {"seed": recipe.seed + seed} | ({} if fold is None else {"dataset.fold": fold})
    recipe = changed(recipe, numbers | ({} if choice.threads is None else {"trainer.threads": choice.threads}))
    name = f"{row.name}-{task.name}-seed-{recipe.seed}" + ("" if fold is None else f"-fold-{fold}")
    is_chosen = (choice.models is None or row.name in choice.models) and (
        choice.columns is None or not set(task.columns).isdisjoint(choice.columns)
    )
    command = _command(recipes, row, task, recipe, f"{folder}/{name}")
    return PlannedRun(name, row, task, recipe, command, recipe.seed, fold, is_chosen)


def _command(recipes: _Recipes, row: OwnRow, task: Task, recipe: Recipe, folder: str) -> str:
    base, budget = recipes.base(row, task), recipes.spec.budgets[recipes.budget]
    if recipes.spec.kind == "trained":
        return train_command(base, recipe, folder)
    if recipes.spec.kind == "measured":
        return cost_command(base, recipe, recipes.parameters(row, task), budget.batches, budget.rounds)
    return ""  # counting leaves no record


def _check_names(what: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
    for name in names or []:
        if name not in known:
            hint = did_you_mean(name.lower(), list(known))
            raise SpecError(f"the table has no {what} {name!r}; expected some of {', '.join(known)}{hint}")


# What a training will take, from a few of its own steps (:class:`Forecaster`).


_LEAST_STEPS, _MOST_STEPS = 2, 20
_SECONDS = 2.0  # of steps that are timed
_EVALUATED = 1 / 3  # time of a graph without its gradient, as a share of that with it


@dataclass(frozen=True)
class Forecast:
    """Of one training on this machine's CPU, with the recipe's threads."""

    seconds: float  # of all epochs, with their validation; early stopping may end it sooner
    memory_bytes: int  # of the process at its largest batch


class Forecaster:
    """Forecasts recipes; those of the same data and model are measured once."""

    def __init__(self, data_dir: str | Path | None = None, progress: bool | None = None):
        self.data_dir, self.progress = data_dir, progress
        self._measured: dict[str, tuple[float, float, int]] = {}
        self._data: tuple[str, TrainingData] | None = None  # only the last: they are large

    def __call__(self, recipe: Recipe) -> Forecast:
        """Time some steps, where no like recipe was timed.

        Raises:
            PointsetError: what the run itself would raise at its start: data that is missing, memory that does not
                suffice.
        """
        key = _like(recipe)
        if key not in self._measured:
            threads = threads_for(recipe, 1)
            with thread_count(threads):
                self._measured[key] = _measured(recipe, self._loaded(recipe), threads)
        epoch, test, memory = self._measured[key]
        return Forecast(epoch * recipe.trainer.epochs + test, memory)

    def _loaded(self, recipe: Recipe) -> TrainingData:
        data = recipe.dataset.model_dump(mode="json") | {"fold": None}
        key = f"{data} {preset_named(recipe.model.preset).matrix} {recipe.scale_targets}"
        if self._data is None or self._data[0] != key:
            self._data = None  # before the next is read
            self._data = key, load_data(recipe, self.data_dir, progress=self.progress)
        return self._data[1]


def _like(recipe: Recipe) -> str:
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


def _measured(recipe: Recipe, data: TrainingData, threads: int) -> tuple[float, float, int]:
    """Seconds of an epoch, seconds of the test at the end, and the memory at the largest batch."""
    check_memory(recipe, data)
    stopwatch = Stopwatch(recipe, build_model(recipe, data.card), data.card.task, threads)
    largest = stopwatch.time(_loader(recipe, data, [_largest_batch(recipe, data)]))  # also a step to warm up
    seconds, steps, graphs = 0.0, 0, 0
    for batch in _batches(recipe, data):
        seconds += stopwatch.time(_loader(recipe, data, [batch])).seconds
        steps, graphs = steps + 1, graphs + len(batch)
        if steps >= _LEAST_STEPS and seconds >= _SECONDS:
            break
    rate = seconds / graphs
    validated = len(data.part("val")) / recipe.trainer.validate_every
    epoch = rate * (len(data.part("train")) + _EVALUATED * validated)
    return epoch, rate * _EVALUATED * len(data.part("test")), resident_bytes() + largest.peak_bytes


def _batches(recipe: Recipe, data: TrainingData) -> Iterator[list[int]]:
    """Some of the first epoch, as numbers of graphs in the training part."""
    graphs = data.part("train")
    batches = training_batches(data.points.num_nodes[graphs], data.points.ranks[graphs], recipe)
    for _, batch in zip(range(_MOST_STEPS), batches, strict=False):
        yield batch


def _loader(recipe: Recipe, data: TrainingData, batches: list[list[int]]) -> PointLoader:
    unused = torch.Generator()  # without one, torch draws from the global one
    dtype = DTYPES[recipe.trainer.precision]
    return PointLoader(data.points, indices=data.part("train"), dtype=dtype, batch_sampler=batches, generator=unused)


def _largest_batch(recipe: Recipe, data: TrainingData) -> list[int]:
    """The largest graphs together, as chance may have it; with a budget of memory, the largest that fits alone."""
    graphs, model = data.part("train"), recipe.model
    sizes = training_bytes(data.points.num_nodes[graphs], data.points.ranks[graphs], dim=model.dim, layers=model.layers)
    count = 1 if recipe.trainer.memory_budget is not None else recipe.trainer.batch_size
    largest: list[int] = np.argsort(-sizes, kind="stable")[:count].tolist()
    return largest
