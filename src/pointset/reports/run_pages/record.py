"""A run folder, read and checked (:func:`read_run`). Only plain files are read: no model, no dataset."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from pointset.errors import FileFormatError
from pointset.reports.run_pages.forms import MULTI_CLASS, Examples, Form, Result, SeveralResult
from pointset.reports.run_pages.predictions import Predictions, read_predictions
from pointset.reports.run_pages.recipe_form import RecipeForm
from pointset.reports.run_pages.tables import Columns, read_columns

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
