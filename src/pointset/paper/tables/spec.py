"""What a table is made of (:class:`TableSpec`): columns, the paper's rows, ours, budgets; and reading it from YAML.

Tables of the paper are shipped in ``specs/`` (:func:`table_names`); :func:`table_named` also reads a file of your own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from pointset.baselines.fingerprints import Learner
from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean
from pointset.files import read_text
from pointset.paper.tables.result import Budget, Cell, Column
from pointset.runs.recipe import Count, Keys, MetricName, Positive, PresetName, Text
from pointset.runs.recipe_files import from_yaml

Kind = Literal["trained", "measured", "counted"]  # by training; time and memory of an epoch; numbers of parameters
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]  # of folders and of the command line
_NOT_PRINTED = "–"
_PRINTED = re.compile(r"^(-?\d+(?:\.\d+)?)(?:±(\d+(?:\.\d+)?))?$")


def _check_printed(text: str) -> str:
    if not _PRINTED.match(text):
        raise ValueError(f"got {text!r}; expected a number as it is printed, such as 0.063 or 0.063±0.003")
    return text


def _split(values: object) -> object:
    """``0.063±0.003 –`` → ``["0.063±0.003", None]``."""
    return [None if part == _NOT_PRINTED else part for part in values.split()] if isinstance(values, str) else values


Printed = Annotated[str, AfterValidator(_check_printed)]
Settings = dict[str, Any]  # of a recipe, by dotted key: {"model.dim": 32}


class TableColumn(Column):
    """A column; ``ratio_of`` another one is that value divided by the one of the table's first row of the same kind."""

    ratio_of: str | None = None


class PrintedRow(Keys):
    """A line of the paper, or of another one that ``note`` names; values as printed, for each column that is."""

    title: Text
    values: Annotated[list[Printed | None], BeforeValidator(_split)]  # in one line, with a dash for what is not there
    source: Literal["paper", "published"] = "paper"
    note: str = ""


def _best_of(values: object) -> object:
    """``{optimizer.lr: [0.001, 0.003], share: 0.1}`` → key, values and share."""
    if not isinstance(values, Mapping) or "key" in values:
        return values
    named = [key for key in values if key != "share"]
    if len(named) != 1:
        raise ValueError(
            f"got best_of of {', '.join(map(str, named)) or 'no key'}; expected one key of a recipe with its "
            "candidates, and share, as in {optimizer.lr: [0.001, 0.003], share: 0.1}"
        )
    return {"key": named[0], "values": values[named[0]]} | {key: values[key] for key in values if key == "share"}


class BestOf(Keys):
    """Candidates for a key of the recipe: each is trained for a share of the epochs, the best on validation is taken.

    In YAML the key stands by its name: ``{optimizer.lr: [0.001, 0.003, 0.01], share: 0.1}``.
    """

    key: Text
    values: Annotated[list[Any], Field(min_length=2)]
    share: Annotated[float, Field(gt=0, le=1)] = 0.1


class Changes(Keys):
    """What a budget changes of a row or a task; a key that is not set stays as it is there."""

    set: Settings = Field(default_factory=dict)
    recipe: Text | None = None
    model: PresetName | None = None  # of a row
    as_large_as: Slug | None = None  # of a row
    best_of: Annotated[BestOf, BeforeValidator(_best_of)] | None = None  # of a row


class Task(Keys):
    """What is trained once for each row, seed and fold: a recipe, and the columns that its test scores fill.

    A column is the ``metric`` over all targets, or ``by_target`` that of the target with the column's key.
    """

    name: Slug
    recipe: Text
    columns: Annotated[list[Text], Field(min_length=1)]
    metric: MetricName | None = None
    by_target: bool = False
    set: Settings = Field(default_factory=dict)
    only: list[Budget] | None = None  # the budgets that have it; None: all
    budgets: dict[Budget, Changes] = Field(default_factory=dict)


class OwnRow(Keys):
    """A model of ours. ``recipe`` is made from the task's, which stands for ``{}``.

    With ``fingerprints`` it is a chemists' model on Morgan counts instead, of which the recipe only says the data.
    """

    name: Slug
    title: Text
    model: PresetName | None = None  # None: the recipe's own
    recipe: Annotated[str, StringConstraints(pattern=r"\{\}")] = "{}"
    counterpart: Text | None = None
    as_large_as: Slug | None = None  # a row: the width is chosen to have as many parameters
    without: list[Slug] = Field(default_factory=list)  # tasks that the row does not have
    best_of: Annotated[BestOf, BeforeValidator(_best_of)] | None = None
    fingerprints: Learner | None = None
    minutes: Positive | None = None  # the most that such a run may take
    set: Settings = Field(default_factory=dict)
    only: list[Budget] | None = None
    budgets: dict[Budget, Changes] = Field(default_factory=dict)
    note: str = ""

    def best_of_at(self, budget: Budget) -> BestOf | None:
        """The candidates that the row has at a budget."""
        change = self.budgets.get(budget)
        return (change and change.best_of) or self.best_of

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        of_models = [self.model, self.as_large_as, self.best_of, *(change.best_of for change in self.budgets.values())]
        if self.fingerprints is not None and any(value is not None for value in of_models):
            raise ValueError(
                f"got fingerprints: {self.fingerprints} with model, as_large_as or best_of for the row {self.name!r}; "
                "expected only one of the two kinds: it tunes itself"
            )
        if self.fingerprints is None and self.minutes is not None:
            raise ValueError(f"got minutes for the row {self.name!r}, which is trained by epochs; set trainer.epochs")
        return self


class BudgetPlan(Keys):
    """How much is run: seeds, the first so many folds, settings for all recipes; ``scope`` says what is left out."""

    scope: Text
    seeds: Count = 1
    folds: Count | None = None
    batches: Count | None = None  # of an epoch, in a measurement; None: all
    rounds: Count = 1  # of a measurement
    without: list[Slug] = Field(default_factory=list)  # tasks that do not fit into it
    set: Settings = Field(default_factory=dict)


class TableSpec(Keys):
    """A table of the paper and how its rows are made here. ``uses`` takes columns and tasks from other tables."""

    name: Slug
    title: Text
    paper_table: Annotated[str, StringConstraints(pattern=r"^Tables? \d+")]
    kind: Kind = "trained"
    uses: list[Slug] = Field(default_factory=list)
    columns: Annotated[list[TableColumn], Field(min_length=1)]
    paper: list[PrintedRow]
    tasks: Annotated[list[Task], Field(min_length=1)]
    ours: Annotated[list[OwnRow], Field(min_length=1)]
    budgets: dict[Budget, BudgetPlan]
    notes: list[Text] = Field(default_factory=list)

    @property
    def printed_columns(self) -> list[TableColumn]:
        """Those that the paper's rows have a value for, in their order."""
        return [column for column in self.columns if column.ratio_of is None]

    def row(self, name: str) -> OwnRow:
        """A row of ours by its name."""
        return next(row for row in self.ours if row.name == name)

    def rows_at(self, budget: Budget) -> list[OwnRow]:
        """Rows of ours that the budget has."""
        return [row for row in self.ours if row.only is None or budget in row.only]

    def tasks_at(self, budget: Budget, row: OwnRow) -> list[Task]:
        """What is trained for the row."""
        left_out = {*row.without, *self.budgets[budget].without}
        return [task for task in self.tasks if (task.only is None or budget in task.only) and task.name not in left_out]

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        keys, tasks = [column.key for column in self.columns], [task.name for task in self.tasks]
        rows = [row.name for row in self.ours]
        for kind, names in (("columns", keys), ("tasks", tasks), ("ours", rows)):
            if len(set(names)) < len(names):
                raise ValueError(f"got {kind} with a name twice; expected each once")
        for printed in self.paper:
            if len(printed.values) != len(self.printed_columns):
                raise ValueError(
                    f"the paper's row {printed.title!r} has {len(printed.values)} values; expected "
                    f"{len(self.printed_columns)}, one for each column"
                )
        for task in self.tasks:
            _check_known("tasks.columns", task.columns, keys)
            if self.kind == "trained" and task.metric is None:
                raise ValueError(f"the task {task.name!r} has no metric; expected the one that fills its columns")
            if self.kind == "trained" and len(task.columns) > 1 and not task.by_target:
                raise ValueError(f"the task {task.name!r} has several columns; expected one, or by_target: true")
        for plan in self.budgets.values():
            _check_known("budgets.without", plan.without, tasks)
        for row in self.ours:
            _check_known("ours.without", row.without, tasks)
            _check_known("ours.counterpart", [row.counterpart or ""], ["", *(line.title for line in self.paper)])
            if row.fingerprints is not None and self.kind != "trained":
                raise ValueError(f"got fingerprints for the row {row.name!r}; expected a table of the kind trained")
            models = [row.as_large_as, *(change.as_large_as for change in row.budgets.values())]
            _check_known("ours.as_large_as", [name for name in models if name is not None], rows)
        return self


def _check_known(key: str, names: list[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"got {key}: {name!r}; expected one of {', '.join(known)}{did_you_mean(name, known)}")


def printed_cell(text: str, column: Column) -> Cell:
    """``0.7±0.1`` with a factor of 1000 → 0.0007 and 0.0001: in decimals, so that nothing is rounded twice."""
    found = _PRINTED.match(text)
    if found is None:
        raise ValueError(_check_printed(text))
    mean, std = (
        None if part is None else float(Decimal(part) / Decimal(str(column.factor))) for part in found.groups()
    )
    return Cell(mean=mean, std=std)


def table_names() -> list[str]:
    """In the paper's order."""
    return list(_shipped())


def table_named(name_or_path: str | Path) -> TableSpec:
    """A table by its name, or from a YAML file of one's own."""
    text = str(name_or_path)
    if text in _shipped():
        return _validated(_shipped()[text], f"the table {text!r}")
    path = Path(name_or_path)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise SpecError(
            f"there is no table {text!r}{did_you_mean(text.lower(), table_names())}\n"
            f"expected one of {', '.join(table_names())}, or a YAML file of your own"
        )
    if not path.exists():
        raise MissingDataError(f"there is no file {path}; expected a table: {', '.join(table_names())}, or a YAML file")
    return _validated(_read_mapping(path), str(path))


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    files = [file for file in (resources.files("pointset.paper.tables") / "specs").iterdir() if file.name[0] != "."]
    tables = [_read_mapping(file) for file in files]
    return {table["name"]: table for table in sorted(tables, key=_place_in_paper)}


def _place_in_paper(table: Mapping[str, Any]) -> tuple[int, str]:
    number = re.search(r"\d+", table["paper_table"])
    return int(number.group()) if number else 0, table["name"]


def _read_mapping(file: Any) -> dict[str, Any]:
    try:
        values = from_yaml(read_text(file))
    except (UnicodeDecodeError, FileFormatError) as error:
        raise FileFormatError(f"{file} cannot be read as YAML: {error}") from None
    if not isinstance(values, dict):
        raise FileFormatError(f"{file} is not a table; expected keys such as `columns:` and `ours:`")
    return values


def _validated(values: Mapping[str, Any], place: str) -> TableSpec:
    """With the columns and tasks of the tables that it ``uses`` before its own."""
    used = values["uses"] if isinstance(values.get("uses"), list) else []
    for name in used:
        if name not in _shipped():
            raise SpecError(f"{place}: got uses: {name!r}; expected one of {', '.join(table_names())}")
    shared = {
        key: [item for name in used for item in _shipped()[name][key]] + list(values.get(key) or [])
        for key in ("columns", "tasks")
    }
    try:
        return TableSpec.model_validate({**values, **shared})
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, entry['loc'])) or 'table'}: {entry['msg']}" for entry in error.errors()]
        raise SpecError(f"{place}: " + "\n".join(lines[:5])) from None
