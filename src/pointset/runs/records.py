"""What a run left in its folder, read and checked (:func:`read_run`). Only plain files: no model, no dataset.

A damaged file gives a :class:`~pointset.errors.FileFormatError` that names it. A run that has not finished has a record
too, with what it has written so far.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from pointset.arrays import Floats
from pointset.errors import FileFormatError
from pointset.files import check_regular, open_text, read_json, read_text
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import from_yaml, read_settings, settings_digest
from pointset.runs.result import Recorded, RunResult, Whole

EDITED = "was edited after the run had started: its settings are not those that the model was trained by"
Columns = dict[str, Floats]  # of a CSV file: name → (rows,), NaN where a cell is empty


def _name_of_folder(name: str) -> str:
    if PurePath(name).name != name or name == "..":
        raise ValueError("expected the name of a folder beside this file")
    return name


class RunGroup(Recorded):
    """``result.json`` of a folder that holds several seeds or folds."""

    runs: list[Annotated[str, AfterValidator(_name_of_folder)]] = Field(min_length=1)
    title: str = ""
    recipe: str = ""


class ExampleGraph(Recorded):
    """A graph to be drawn."""

    name: str = ""
    num_nodes: Whole
    edges: list[tuple[Whole, Whole]] = Field(default_factory=list)
    labels: list[str] | None = None
    smiles: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(max(edge) >= self.num_nodes for edge in self.edges):
            raise ValueError(f"an edge leads out of the {self.num_nodes} nodes")
        if self.labels is not None and len(self.labels) != self.num_nodes:
            raise ValueError(f"got {len(self.labels)} labels for {self.num_nodes} nodes")
        return self


class EigenvalueFunctions(Recorded):
    """The functions f of some channels at the eigenvalues of a graph."""

    matrix: str = ""
    channels: list[int]
    eigenvalues: list[float | None]
    values: list[list[float | None]]  # a row for each eigenvalue, a column for each channel

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.values) != len(self.eigenvalues) or any(len(row) != len(self.channels) for row in self.values):
            raise ValueError("expected a row of values for each eigenvalue, with a number for each channel")
        return self


class Attention(Recorded):
    """Attention of each layer on one graph."""

    graph: ExampleGraph
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


class TargetValue(Recorded):
    """A target of a graph."""

    target: str
    true: float | str | None = None
    predicted: float | str | None = None


class AtomContributions(Recorded):
    """What each atom and bond of a molecule adds to the prediction of one target."""

    target: str = ""
    atoms: list[float | None]
    bonds: list[tuple[Whole, Whole, float | None]] = Field(default_factory=list)
    read_as: str | None = None  # the SMILES whose order of atoms this is
    output: float | None = None  # in the target's unit; of labels and classes, the logit
    baseline: float | None = None  # the same for average atoms and bonds on the same skeleton


class WorstGraph(Recorded):
    """A graph that was predicted badly, or one that is typical."""

    graph: ExampleGraph
    contributions: AtomContributions | None = None
    position: int | None = None
    error: float | None = None
    values: list[TargetValue] = Field(default_factory=list)


class Examples(Recorded):
    """``examples.json``."""

    functions: EigenvalueFunctions | None = None
    attention: Attention | None = None
    worst: list[WorstGraph] = Field(default_factory=list)
    typical: list[WorstGraph] = Field(default_factory=list)  # molecules whose error is about the median


@dataclass(frozen=True)
class Predictions:
    """The test split, in the order of ``predictions.csv``: each target with its true and predicted column."""

    rows: int
    has_smiles: bool
    numbers: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)  # (rows,) each; NaN: unknown
    classes: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)  # the same for names of classes
    sureness: Floats | None = None  # (rows,) the probability of the predicted class
    intervals: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)  # lower and upper end of each target
    std: dict[str, Floats] = field(default_factory=dict)  # of each target's error, as the model expects it
    similarity: Floats | None = None  # (rows,) to the nearest training molecule, 0…1
    in_domain: Floats | None = None  # (rows,) 1 inside the domain, 0 outside
    graphs: Floats = field(default_factory=lambda: np.zeros(0))  # (rows,) positions in the dataset


@dataclass(frozen=True)
class RunRecord:
    """All that a run left behind. A run that has not finished has no result."""

    folder: Path
    recipe: Recipe
    recipe_text: str
    result: RunResult | None
    epochs: Columns  # of metrics.csv; empty before the first epoch has ended
    examples: Examples
    environment: dict[str, Any]
    is_edited: bool = False  # its recipe, after it had started

    @cached_property
    def predictions(self) -> Predictions | None:
        """Of the test split; read when asked for, as a comparison does not need them."""
        path = RunFolder(self.folder).predictions
        if self.result is None or not path.exists():
            return None
        with _remedy_named():
            return read_predictions(path, of_classes=self.result.is_multi_class)

    @property
    def title(self) -> str:
        """For people."""
        return (self.result and self.result.title) or self.recipe.title or self.recipe.name

    @property
    def metric(self) -> str | None:
        """The score that chose the best epoch."""
        if self.result is not None:
            return self.result.metric
        found = [name.removeprefix("val_") for name in self.epochs if name.startswith("val_")]
        return self.recipe.metric if self.recipe.metric in found else found[0] if found else None


def read_run(folder: str | Path) -> RunRecord:
    """Read the folder of one run.

    Raises:
        FileFormatError: it is not a run folder, or one of its files is damaged; the message names the file.
    """
    files = RunFolder(folder)
    check_regular(files.path)
    if not files.recipe.exists():
        raise FileFormatError(
            f"{files.path} is not a run folder: there is no recipe.yaml in it. "
            "Expected a folder that `pointset train` made"
        )
    try:
        text = read_text(files.recipe)
    except UnicodeDecodeError:
        raise FileFormatError(f"{files.recipe} is damaged: it is not text in UTF-8") from None
    recipe = _recipe(text, files.recipe)
    with _remedy_named():
        result, examples = _json(files.result), _json(files.examples)
        return RunRecord(
            folder=files.path,
            recipe=recipe,
            recipe_text=text,
            result=None if result is None else _checked(RunResult, result, files.result),
            epochs=read_columns(files.metrics) if files.metrics.exists() else {},
            examples=_checked(Examples, examples or {}, files.examples),
            environment=_json(files.environment) or {},
            is_edited=warn_if_edited(files),
        )


def is_edited(folder: RunFolder) -> bool:
    """Whether recipe.yaml says something else than what the run began with, as far as the run noted it."""
    noted = (_json(folder.environment) or {}).get("recipe_sha256")
    return noted is not None and noted != settings_digest(read_settings(folder.recipe))


def warn_if_edited(folder: RunFolder) -> bool:
    """The same, with a warning: who looks at a run takes what its recipe says for what its model was trained by."""
    if edited := is_edited(folder):
        warnings.warn(f"{folder.recipe} {EDITED}", stacklevel=3)
    return edited


@contextmanager
def _remedy_named() -> Iterator[None]:
    """What is read of a run can do without any of its files but the recipe."""
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{error}. Put the file back, or remove it: the run is then read without it") from None


def run_folders(folder: Path) -> list[Path]:
    """The folders of the runs: the folder itself, or those in it where it holds several seeds, folds or other runs."""
    group = read_group(folder)
    if group is not None:
        return [folder / name for name in group.runs if RunFolder(folder / name).has_run]
    if RunFolder(folder).has_run or not folder.is_dir():
        return [folder]
    inside = sorted((child for child in folder.iterdir() if RunFolder(child).has_run), key=_numbered)
    return inside or [folder]


def read_group(folder: Path) -> RunGroup | None:
    """What a folder of seeds or folds says of them; None for the folder of one run."""
    path = RunFolder(folder).result
    with _remedy_named():
        values = _json(path)
        return None if values is None or "runs" not in values else _checked(RunGroup, values, path)


def read_columns(path: Path) -> Columns:
    """A CSV file of numbers only, such as ``metrics.csv``."""
    header, *rows = _csv_rows(path)
    return {name: _numbers([row[index] for row in rows], path, name) for index, name in enumerate(header)}


def read_predictions(path: Path, *, of_classes: bool) -> Predictions:
    """Read the columns ``<target>`` and ``predicted_<target>``, and those that say how sure a prediction is.

    Targets hold names where they are ``of_classes``, otherwise numbers, NaN where the cell is empty. A file of an older
    run has no intervals, similarity and domain.
    """
    header, *rows = _csv_rows(path)
    targets = [name for name in header if f"predicted_{name}" in header]
    if not targets:
        raise FileFormatError(f"{path} is damaged: expected columns such as 'y' and 'predicted_y', got {header[:6]}")
    cells = {name: [row[index] for row in rows] for index, name in enumerate(header)}
    extra = {name: cells[name] for name in header if name not in targets}  # a target may be called "similarity"

    def optional(name: str) -> Floats | None:
        return _numbers(extra[name], path, name) if name in extra else None

    names: dict[str, tuple[list[str], list[str]]] = {}
    numbers: dict[str, tuple[Floats, Floats]] = {}
    intervals: dict[str, tuple[Floats, Floats]] = {}
    std: dict[str, Floats] = {}
    for target in targets:
        true, predicted = target, f"predicted_{target}"
        if of_classes:
            names[target] = cells[true], cells[predicted]
            continue
        numbers[target] = _numbers(cells[true], path, true), _numbers(cells[predicted], path, predicted)
        lower, upper, spread = (optional(f"{word}_{target}") for word in ("lower", "upper", "std"))
        if lower is not None and upper is not None:
            intervals[target] = lower, upper
        if spread is not None:
            std[target] = spread
    of_class = [_numbers(extra[name], path, name) for name in extra if of_classes and name.startswith("probability_")]
    graphs = optional("graph")
    return Predictions(
        rows=len(rows),
        has_smiles="smiles" in header,
        numbers=numbers,
        classes=names,
        sureness=np.max(of_class, axis=0) if of_class else None,
        intervals=intervals,
        std=std,
        similarity=optional("similarity"),
        in_domain=None if "in_domain" not in extra else _answers(extra["in_domain"]),
        graphs=np.zeros(0) if graphs is None else graphs,
    )


def _answers(cells: list[str]) -> Floats:
    """1 for yes, 0 for no, NaN where there is no answer."""
    words = {"yes": 1.0, "true": 1.0, "1": 1.0, "no": 0.0, "false": 0.0, "0": 0.0}
    return np.array([words.get(cell.strip().lower(), np.nan) for cell in cells], dtype=np.float64)


def _csv_rows(path: Path) -> Iterator[list[str]]:
    """The header, then every row, all as long as the header."""
    try:
        with open_text(path, newline="") as file:
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


def _numbers(cells: list[str], path: Path, column: str) -> Floats:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float64)
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged: column {column!r}: {error}") from None


Model = TypeVar("Model", bound=BaseModel)


def _recipe(text: str, path: Path) -> Recipe:
    """Without keys that this version does not know, so that a run of another version has a report too."""
    try:
        values = from_yaml(text)
    except FileFormatError as error:
        raise FileFormatError(f"{path} is damaged: not YAML ({error})") from None
    try:
        return Recipe.model_validate(values, context={"recorded": True})
    except ValidationError as error:
        unknown = [one["loc"] for one in error.errors() if one["type"] == "extra_forbidden"]
    for *groups, key in unknown:
        group = values
        for name in groups:
            group = group[name]
        del group[key]
    return _checked(Recipe, values, path)


def _checked(model: type[Model], values: Any, path: Path) -> Model:
    try:
        return model.model_validate(values, context={"recorded": True})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise FileFormatError(f"{path} is damaged: {where}: {first['msg']}") from None


def _json(path: Path) -> dict[str, Any] | None:
    """The values in the file; None where there is none."""
    return read_json(path) if path.exists() else None


def _numbered(path: Path) -> list[tuple[int, str]]:
    """For sorting: seed-2 comes before seed-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]
