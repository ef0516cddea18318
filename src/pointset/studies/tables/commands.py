"""What is typed to make a table or one of its runs again (:func:`table_command`, :func:`train_command`)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from pointset.training.recipe import Recipe
from pointset.training.recipe_files import read_recipe
from pointset.training.run import flattened

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
