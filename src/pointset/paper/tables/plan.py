"""From a table and a budget to the runs that fill it (:func:`plan_table`), each with the command that does it alone."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from pointset.datasets.card import Card
from pointset.datasets.loading import benchmark_named
from pointset.datasets.splits.parts import whole_number
from pointset.errors import SpecError, did_you_mean
from pointset.paper.comparison import count_parameters, matched, with_model
from pointset.paper.tables.fingerprints import fingerprint_recipe
from pointset.paper.tables.result import Budget
from pointset.paper.tables.spec import OwnRow, Settings, TableSpec, Task
from pointset.paper.tables.trials import Trials
from pointset.runs.recipe import Recipe, check_ready
from pointset.runs.recipe_files import changed, flattened, read_recipe
from pointset.training.data import load_data

_MOST_SEEDS = 1000


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One training, measurement or count. What it takes is worked out when it is asked for: a width may be searched."""

    name: str  # of its folder
    row: OwnRow
    task: Task
    seed: int
    fold: int | None
    is_chosen: bool  # the others are not run, but fill the table where they are finished
    make_recipe: Callable[[], Recipe]
    make_command: Callable[[Recipe], str]
    trials: Trials | None = None  # that choose a setting before it is run

    @cached_property
    def recipe(self) -> Recipe:
        """What it is trained by."""
        return self.make_recipe()

    @cached_property
    def command(self) -> str:
        """That does it alone."""
        return self.make_command(self.recipe)

    @property
    def possible(self) -> list[Recipe]:
        """What it may be trained by: by each candidate, where trials choose one."""
        return [self.recipe] if self.trials is None else self.trials.applied_to(self.recipe)


@dataclass(frozen=True)
class TablePlan:
    """All runs of a table at one budget, in the order in which they are run."""

    spec: TableSpec
    budget: Budget
    runs: tuple[PlannedRun, ...]

    @property
    def chosen(self) -> list[PlannedRun]:
        """Those that are to be run."""
        return [run for run in self.runs if run.is_chosen]

    def command(self, runs: Collection[PlannedRun], table: str) -> str:
        """The command for the rows and columns that these of its runs fill, whichever calls made them."""
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
class Selection:
    """What of a table to run; None is all."""

    models: Sequence[str] | None = None  # names of rows
    columns: Sequence[str] | None = None
    seeds: int | None = None  # None: as many as the budget says, or as were begun
    threads: int | None = None
    seeds_begun: int = 0  # by earlier calls

    def includes(self, row: OwnRow, task: Task) -> bool:
        """Whether the row's run of the task is to be run."""
        return (self.models is None or row.name in self.models) and (
            self.columns is None or not set(task.columns).isdisjoint(self.columns)
        )


def plan_table(
    spec: TableSpec, budget: Budget, selection: Selection | None = None, data_dir: str | Path | None = None
) -> TablePlan:
    """The runs of a table: rows × tasks × seeds × folds, all first seeds before the second ones."""
    selection = selection or Selection()
    if budget not in spec.budgets:
        raise SpecError(
            f"the table {spec.name!r} has no budget {budget!r}; expected {', '.join(spec.budgets)}\n"
            "Choose one of these with --budget; pointset reproduce, without a table, says what each does"
        )
    _check_names("model", selection.models, [row.name for row in spec.rows_at(budget)])
    _check_names("column", selection.columns, [column.key for column in spec.printed_columns])
    if selection.seeds is not None:
        whole_number(selection.seeds, "seeds", 1, _MOST_SEEDS)
    recipes = _Recipes(spec, budget, data_dir)
    budget_plan = spec.budgets[budget]
    folds: Sequence[int | None] = [None] if budget_plan.folds is None else range(budget_plan.folds)
    seeds = selection.seeds or max(budget_plan.seeds, selection.seeds_begun)
    runs = [
        recipes.run(row, task, seed, fold, selection)
        for seed, fold in product(range(seeds), folds)
        for row in spec.rows_at(budget)
        for task in spec.tasks_at(budget, row)
    ]
    plan = TablePlan(spec, budget, tuple(runs))
    if not plan.chosen:
        of = " of the models ".join(", ".join(names) for names in (selection.columns, selection.models) if names)
        raise SpecError(
            f"the table {spec.name!r} has no run for {of} at the budget {budget!r}\n"
            "--plan without --columns and --models shows the runs that it has"
        )
    for recipe in (recipe for run in plan.chosen for recipe in run.possible):
        check_ready(recipe)  # what is impossible is said before anything is run
    return plan


def _check_names(what: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
    for name in names or []:
        if name not in known:
            hint = did_you_mean(name.lower(), list(known))
            raise SpecError(f"the table has no {what} {name!r}; expected some of {', '.join(known)}{hint}")


def default_folder(spec: TableSpec, budget: Budget) -> str:
    """Where the runs go if nothing else is said."""
    return f"runs/reproduce/{spec.name}-{budget}"


def card_of(recipe: Recipe, data_dir: str | Path | None = None) -> Card:
    """What the recipe's data says of itself: known without files for a benchmark."""
    if recipe.dataset.name is None:
        return load_data(recipe, data_dir, progress=False).card
    card = benchmark_named(recipe.dataset.name).card
    return card if recipe.dataset.targets is None else card.with_targets(recipe.dataset.targets)


def parameters_of(recipe: Recipe, data_dir: str | Path | None = None) -> int:
    """Of its model, without making any weights."""
    return count_parameters(recipe, card_of(recipe, data_dir))


class _Recipes:
    """The recipe of each row and task at a budget, made once, when a run asks for it."""

    def __init__(self, spec: TableSpec, budget: Budget, data_dir: str | Path | None):
        self.spec, self.budget, self.data_dir = spec, budget, data_dir
        self._starts: dict[tuple[str, str], Recipe] = {}  # by row and task
        self._made: dict[tuple[str, str], Recipe] = {}

    def run(self, row: OwnRow, task: Task, seed: int, fold: int | None, selection: Selection) -> PlannedRun:
        """Of one seed and fold."""
        seed += self._start(row, task).seed
        changes: Settings = {"seed": seed} | ({} if fold is None else {"dataset.fold": fold})
        changes |= {} if selection.threads is None else {"trainer.threads": selection.threads}
        of_fold = "" if fold is None else f"-fold-{fold}"
        name = f"{row.name}-{task.name}-seed-{seed}{of_fold}"
        best_of = row.best_of_at(self.budget)
        first = self._start(row, task).seed
        trials = None if best_of is None else Trials(best_of, f"{row.name}-{task.name}{of_fold}", first)

        def recipe() -> Recipe:
            return changed(self.of(row, task), changes)

        def command(recipe: Recipe) -> str:
            return self._command(row, task, recipe, name)

        return PlannedRun(name, row, task, seed, fold, selection.includes(row, task), recipe, command, trials)

    def of(self, row: OwnRow, task: Task) -> Recipe:
        """With the row's model, of the size that it is to have."""
        if (row.name, task.name) not in self._made:
            self._made[row.name, task.name] = self._with_model(row, task)
        return self._made[row.name, task.name]

    def _with_model(self, row: OwnRow, task: Task) -> Recipe:
        recipe, change = self._start(row, task), row.budgets.get(self.budget)
        if row.fingerprints is not None:
            return fingerprint_recipe(recipe, row.fingerprints)
        other = (change and change.as_large_as) or row.as_large_as
        model = (change and change.model) or row.model or recipe.model.preset
        if other is None:
            return recipe if model == recipe.model.preset else with_model(recipe, model)
        return matched(recipe, model, self._parameters(self.spec.row(other), task), card_of(recipe, self.data_dir))

    def _start(self, row: OwnRow, task: Task) -> Recipe:
        """The task's recipe with all settings, before the model is chosen."""
        if (row.name, task.name) not in self._starts:
            overrides = as_overrides(self._settings(row, task))
            self._starts[row.name, task.name] = read_recipe(self._base(row, task), overrides)
        return self._starts[row.name, task.name]

    def _base(self, row: OwnRow, task: Task) -> str:
        """The name of the recipe to begin with."""
        of_task, of_row = task.budgets.get(self.budget), row.budgets.get(self.budget)
        name = (of_task and of_task.recipe) or task.recipe
        return ((of_row and of_row.recipe) or row.recipe).format(name)

    def _settings(self, row: OwnRow, task: Task) -> Settings:
        """From the general to the particular: later ones win."""
        settings = dict(self.spec.budgets[self.budget].set)
        for part in (task, row):
            change = part.budgets.get(self.budget)
            settings |= part.set | (change.set if change else {})
        return settings

    def _parameters(self, row: OwnRow, task: Task) -> int:
        return parameters_of(self.of(row, task), self.data_dir)

    def _command(self, row: OwnRow, task: Task, recipe: Recipe, name: str) -> str:
        """What does the run alone: a training, a measurement of an epoch, or nothing, as counting leaves no files."""
        base, budget = self._base(row, task), self.spec.budgets[self.budget]
        if row.fingerprints is not None:  # of all seeds and folds
            columns = task.columns if len(self.spec.tasks_at(self.budget, row)) > 1 else ()
            return table_command(self.spec.name, self.budget, [row.name], columns)
        if self.spec.kind == "trained":
            folder = f"{default_folder(self.spec, self.budget)}/{name}"
            return shlex.join(
                ["pointset", "train", base, *_differences(read_recipe(base), recipe), "--run-dir", folder]
            )
        if self.spec.kind == "measured":
            models = ["--models", recipe.model.preset, "--parameters", str(self._parameters(row, task))]
            rounds = ["--batches", str(budget.batches or 0), "--repeats", str(budget.rounds)]
            return shlex.join(["pointset", "compare", base, *models, "--cost-only", *rounds])
        return ""


def table_command(
    table: str, budget: str, models: Sequence[str] = (), columns: Sequence[str] = (), seeds: int | None = None
) -> str:
    """The command that makes a table of these rows and columns; empty is all."""
    command = ["pointset", "reproduce", table, "--budget", budget]
    command += ["--models", ",".join(models)] if models else []
    command += ["--columns", ",".join(columns)] if columns else []
    return shlex.join(command + ([] if seeds is None else ["--seeds", str(seeds)]))


def _differences(base: Recipe, recipe: Recipe) -> list[str]:
    """The overrides that turn the one into the other, names and titles aside."""
    settable = []
    for one in (base, recipe):
        values = {key: value for key, value in one.as_dict().items() if key not in ("name", "title")}
        if values["expected"] is not None:  # the paper's result can only be removed by a command
            del values["expected"]
        settable.append(flattened(values))
    before, after = settable
    return as_overrides({key: value for key, value in after.items() if key not in before or before[key] != value})


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """``{"model.dim": 32}`` → ``["model.dim=32"]``."""
    return [f"{key}={_as_text(value)}" for key, value in settings.items()]


def _as_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{','.join(map(_as_text, value))}]"
    return str(value)
