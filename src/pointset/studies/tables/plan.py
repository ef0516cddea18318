"""From a table and a budget to the runs that fill it (:func:`planned`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from pointset.datasets.card import Card
from pointset.datasets.catalogue import benchmark_named
from pointset.errors import SpecError, did_you_mean
from pointset.studies.comparison.matching import count_parameters, matched, with_model
from pointset.studies.tables.commands import as_overrides, cost_command, table_command, train_command
from pointset.studies.tables.result import Budget
from pointset.studies.tables.spec import OwnRow, Settings, TableSpec, Task
from pointset.training.data import load_data
from pointset.training.recipe import Recipe
from pointset.training.recipe_files import read_recipe
from pointset.training.recipe_overrides import changed

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
