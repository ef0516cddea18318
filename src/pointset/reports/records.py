"""A run folder, read and checked (:func:`read_run`). Only plain files are read: no model, no dataset."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Annotated, Any, Self, TypeVar

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pointset.errors import FileFormatError

# The form of the JSON files of a run folder, checked on reading. Keys that a report does not use may be anything.


REGRESSION, MULTI_CLASS = "regression", "multi-class classification"  # two of the four tasks of result.json
Scores = dict[str, float | None]
Whole = Annotated[int, Field(ge=0)]


def _plain_name(name: str) -> str:
    if PurePath(name).name != name or name == "..":
        raise ValueError("expected the name of a folder beside this file")
    return name


class Form(BaseModel):
    """A group of keys."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True, protected_namespaces=())


class Expected(Form):
    """The paper's result."""

    metric: str
    value: float
    std: float | None = None
    seeds: int | None = None
    parameters: int | None = None
    table: str = ""
    note: str = ""
    per_target: dict[str, float] | None = None
    others: dict[str, dict[str, float]] | None = None


class DatasetNames(Form):
    """What was learned from."""

    name: str = ""
    title: str = ""


class Result(Form):
    """``result.json`` of one run."""

    recipe: str = ""
    title: str = ""
    dataset: DatasetNames = DatasetNames()
    task: str
    level: str = "graph"
    metric: str
    higher_is_better: bool
    test: Scores
    val: Scores = {}
    per_target: dict[str, Scores] = {}
    best_epoch: int | None = None
    epochs: int | None = None
    stopped_early: bool = False
    parameters: Whole | None = None
    seconds: float | None = None
    graphs_per_second: float | None = None
    peak_memory_bytes: float | None = None
    seed: int | None = None
    fold: int | None = None
    expected: Expected | None = None
    units: dict[str, str | None] = {}
    classes: list[str] = []
    split_sizes: dict[str, Whole] = {}
    test_scored: str = ""


class Spread(Form):
    """One score over several runs."""

    mean: float | None
    std: float | None = None


class SeveralResult(Form):
    """``result.json`` of a folder of seeds or folds."""

    runs: list[Annotated[str, AfterValidator(_plain_name)]] = Field(min_length=1)
    title: str = ""
    recipe: str = ""
    metric: str = ""
    test: dict[str, Spread] = {}
    expected: Expected | None = None


class GraphForm(Form):
    """A graph to be drawn."""

    name: str = ""
    num_nodes: Whole
    edges: list[tuple[Whole, Whole]] = []
    labels: list[str] | None = None
    smiles: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(max(edge) >= self.num_nodes for edge in self.edges):
            raise ValueError(f"an edge leads out of the {self.num_nodes} nodes")
        if self.labels is not None and len(self.labels) != self.num_nodes:
            raise ValueError(f"got {len(self.labels)} labels for {self.num_nodes} nodes")
        return self


class FunctionsForm(Form):
    """Eigenvalue functions f of some channels at the eigenvalues of a graph."""

    matrix: str = ""
    channels: list[int]
    eigenvalues: list[float | None]
    values: list[list[float | None]]  # a row for each eigenvalue, a column for each channel

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.values) != len(self.eigenvalues) or any(len(row) != len(self.channels) for row in self.values):
            raise ValueError("expected a row of values for each eigenvalue, with a number for each channel")
        return self


class AttentionForm(Form):
    """Attention of each layer on one graph."""

    graph: GraphForm
    layers: list[list[list[float | None]]]  # (layers, n, n)
    node: Whole = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        n = self.graph.num_nodes
        if any(len(matrix) != n or any(len(row) != n for row in matrix) for matrix in self.layers):
            raise ValueError(f"expected a matrix of {n} × {n} numbers for each layer")
        if self.node >= n:
            raise ValueError(f"there is no node {self.node} among {n}")
        return self


class ValueForm(Form):
    """A target of a graph."""

    target: str
    true: float | str | None = None
    predicted: float | str | None = None


class WorstForm(Form):
    """A graph that was predicted badly."""

    graph: GraphForm
    position: int | None = None
    error: float | None = None
    values: list[ValueForm] = []


class Examples(Form):
    """``examples.json``."""

    functions: FunctionsForm | None = None
    attention: AttentionForm | None = None
    worst: list[WorstForm] = []


# Columns of numbers from a CSV file (:func:`read_columns`), and of text beside them (:func:`csv_rows`).


Floats = NDArray[np.float64]
Columns = dict[str, Floats]


def csv_rows(path: Path) -> Iterator[list[str]]:
    """The header, then every row, all as long as the header.

    Raises:
        FileFormatError: the file is empty, not text, or a row has another length.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, None)
            if not header:
                raise FileFormatError(f"{path} is damaged: it is empty; expected a line with the names of the columns")
            if len(set(header)) < len(header):
                raise FileFormatError(f"{path} is damaged: two columns have the same name")
            yield header
            for row in rows:
                if len(row) != len(header):
                    message = f"line {rows.line_num} has {len(row)} values; expected {len(header)}"
                    raise FileFormatError(f"{path} is damaged: {message}")
                yield row
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path} is damaged: it is not a CSV file in UTF-8 ({error})") from None


def read_columns(path: Path) -> Columns:
    """A file of numbers only; an empty cell is NaN."""
    rows = csv_rows(path)
    header = next(rows)
    cells = list(rows)
    return {name: as_numbers([row[index] for row in cells], path, name) for index, name in enumerate(header)}


def as_numbers(cells: list[str], path: Path, column: str) -> Floats:
    """(rows,) numbers; an empty cell is NaN."""
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float64)
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged: column {column!r}: {error}") from None


# ``predictions.csv``: what was true and what was predicted, target by target (:func:`read_predictions`).


_PREFIX = "predicted_"


@dataclass(frozen=True)
class Predictions:
    """The test split, in the order of the file."""

    rows: int
    has_smiles: bool
    numbers: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)  # target → (rows,) true, predicted
    classes: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)  # the same for names of classes


def read_predictions(path: Path, *, of_classes: bool) -> Predictions:
    """Read the columns ``<target>`` and ``predicted_<target>``; others, such as probabilities of classes, are skipped.

    Args:
        path: the file.
        of_classes: whether the columns hold names of classes; otherwise numbers, NaN where the cell is empty.

    Raises:
        FileFormatError: there is no such pair of columns, or the file is damaged.
    """
    rows = csv_rows(path)
    header = next(rows)
    targets = [name for name in header if _PREFIX + name in header]
    if not targets:
        raise FileFormatError(f"{path} is damaged: expected columns such as 'y' and 'predicted_y', got {header[:6]}")
    wanted = [header.index(name) for target in targets for name in (target, _PREFIX + target)]
    cells: list[list[str]] = [[] for _ in wanted]
    for row in rows:
        for column, index in zip(cells, wanted, strict=True):
            column.append(row[index])
    pairs = dict(zip(targets, zip(cells[::2], cells[1::2], strict=True), strict=True))
    found = Predictions(len(cells[0]), "smiles" in header)
    for target, (true, predicted) in pairs.items():
        if of_classes:
            found.classes[target] = (true, predicted)
        else:
            found.numbers[target] = (as_numbers(true, path, target), as_numbers(predicted, path, _PREFIX + target))
    return found


# The keys of ``recipe.yaml`` that a report puts into words.


class DatasetForm(Form):
    """What to learn from."""

    name: str | None = None
    file: str | None = None
    targets: list[str] | None = None
    options: dict[str, Any] | None = None
    weighted_edges: int | None = None
    fold: int | None = None
    folds: int = 10


class ModelForm(Form):
    """The network."""

    preset: str = "pst"
    dim: int = 64
    layers: int = 4
    pooling: str = "mean"
    noise: float = 0.0


class OptimizerForm(Form):
    """What changes the weights."""

    method: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    clip: float | None = 1.0


class ScheduleForm(Form):
    """The learning rate over the epochs."""

    shape: str = "anneal"
    warmup: float = 0.0
    cosine: float = 0.0


class TrainerForm(Form):
    """The loop."""

    epochs: int | None = None
    batch_size: int | None = None
    ema: float | None = None
    patience: int | None = None
    precision: str = "32"


class RecipeForm(Form):
    """``recipe.yaml``."""

    name: str = ""
    title: str = ""
    dataset: DatasetForm = DatasetForm()
    model: ModelForm = ModelForm()
    loss: str | None = None
    optimizer: OptimizerForm = OptimizerForm()
    schedule: ScheduleForm = ScheduleForm()
    trainer: TrainerForm = TrainerForm()
    metric: str | None = None
    scale_targets: bool = True
    seed: int | None = None
    expected: Expected | None = None


Checked = TypeVar("Checked", bound=Form)


@dataclass(frozen=True)
class RunRecord:
    """All that a run left behind. A run that has not finished has no result."""

    folder: Path
    recipe: RecipeForm
    recipe_values: dict[str, Any]  # the whole recipe as plain values
    recipe_text: str
    result: Result | None
    epochs: Columns  # of metrics.csv; empty before the first epoch has ended
    examples: Examples
    environment: dict[str, Any]

    @cached_property
    def predictions(self) -> Predictions | None:
        """Of the test split; read when asked for, as a comparison does not need them."""
        path = self.folder / "predictions.csv"
        if self.result is None or not path.is_file():
            return None
        return read_predictions(path, of_classes=self.result.task == MULTI_CLASS)

    @property
    def title(self) -> str:
        """For people."""
        return (self.result and self.result.title) or self.recipe.title or self.recipe.name or self.folder.name

    @property
    def metric(self) -> str | None:
        """The score that chose the best epoch."""
        if self.result is not None:
            return self.result.metric
        found = [name.removeprefix("val_") for name in self.epochs if name.startswith("val_")]
        return self.recipe.metric if self.recipe.metric in found else found[0] if found else None


def run_folders(folder: Path) -> list[Path]:
    """The folders of the runs: the folder itself, or those in it where it holds several seeds, folds or other runs."""
    several = several_in(folder)
    if several is not None:
        return [folder / name for name in several.runs if _is_run(folder / name)]
    if _is_run(folder) or not folder.is_dir():
        return [folder]
    inside = sorted((child for child in folder.iterdir() if _is_run(child)), key=_natural)
    return inside or [folder]


def several_in(folder: Path) -> SeveralResult | None:
    """What a folder of seeds or folds says of them; None for the folder of one run."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    values = _json(path)
    return _checked(SeveralResult, values, path) if isinstance(values, dict) and "runs" in values else None


def read_run(folder: str | Path) -> RunRecord:
    """Read the folder of one run.

    Raises:
        FileFormatError: it is no run folder, or one of its files is damaged; the message names the file.
    """
    folder = Path(folder)
    path = folder / "recipe.yaml"
    if not _is_run(folder):
        raise FileFormatError(
            f"{folder} is no run folder: there is no recipe.yaml in it. Expected a folder that `pointset train` made"
        )
    text = _text(path)
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged: not YAML ({_first_line(error)})") from None
    optional = {name: _json(folder / name) for name in ("result.json", "examples.json", "environment.json")}
    environment = optional["environment.json"] or {}
    if not isinstance(environment, dict):
        raise FileFormatError(f"{folder / 'environment.json'} is damaged: expected an object")
    recipe = _checked(RecipeForm, values, path)
    result = optional["result.json"]
    return RunRecord(
        folder=folder,
        recipe=recipe,
        recipe_values=values,
        recipe_text=text,
        result=None if result is None else _checked(Result, result, folder / "result.json"),
        epochs=read_columns(folder / "metrics.csv") if (folder / "metrics.csv").is_file() else {},
        examples=_checked(Examples, optional["examples.json"] or {}, folder / "examples.json"),
        environment=environment,
    )


def _is_run(folder: Path) -> bool:
    return (folder / "recipe.yaml").is_file()


def _natural(path: Path) -> list[tuple[int, str]]:
    """seed-2 comes before seed-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is damaged: it is not text in UTF-8") from None


def _json(path: Path) -> Any:
    """The values in the file; None where there is none."""
    if not path.is_file():
        return None
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is damaged: not JSON ({_first_line(error)})") from None


def _checked(form: type[Checked], values: Any, path: Path) -> Checked:
    try:
        return form.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise FileFormatError(f"{path} is damaged: {where}: {first['msg']}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
