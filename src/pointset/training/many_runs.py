"""Several runs of one recipe: other seeds, or the folds of a cross-validation, and their mean ± deviation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pointset.errors import SpecError
from pointset.training.json_files import write_json
from pointset.training.recipe import Recipe
from pointset.training.recipe_overrides import changed

_SHARED = ("recipe", "title", "dataset", "model", "task", "level", "metric", "higher_is_better")  # by all runs


class Part(NamedTuple):
    """One of the runs."""

    name: str  # of its folder: ``seed-3``, ``fold-0``, ``fold-0-seed-3``
    recipe: Recipe


def parts_of(recipe: Recipe, seeds: int | None, folds: int | None) -> list[Part]:
    """The runs that are asked for; seeds count from the recipe's own.

    Raises:
        SpecError: the numbers are impossible.
    """
    for name, number, least in (("seeds", seeds, 1), ("folds", folds, 2)):
        if number is not None and number < least:
            raise SpecError(f"got {name}={number}; expected a whole number, at least {least}")
    parts = [Part("", recipe)]
    if folds is not None:
        parts = [
            Part(f"fold-{fold}", changed(recipe, {"dataset.fold": fold, "dataset.folds": folds}))
            for fold in range(folds)
        ]
    if seeds is not None:
        numbers = range(recipe.seed, recipe.seed + seeds)
        parts = [
            Part("-".join(filter(None, (part.name, f"seed-{seed}"))), changed(part.recipe, {"seed": seed}))
            for part in parts
            for seed in numbers
        ]
    return parts


def train_many(parts: Sequence[Part], folder: Path, train_one: Callable[[Part], Mapping[str, Any]]) -> dict[str, Any]:
    """Train the parts one after the other, and write their summary into ``folder/result.json``.

    Args:
        parts: what :func:`parts_of` gave.
        folder: holds a folder for each part.
        train_one: trains a part, or gives the result of one that is finished.
    """
    results = [train_one(part) for part in parts]
    summary = summarised([part.name for part in parts], results)
    write_json(folder / "result.json", summary)
    return summary


def summarised(names: Sequence[str], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations (division by the number of runs minus one) over runs of one recipe."""
    first = results[0]
    per_target = {
        target: {metric: _spread([result["per_target"][target][metric] for result in results]) for metric in scores}
        for target, scores in first["per_target"].items()
    }
    return {
        "runs": list(names),
        **{key: first[key] for key in _SHARED},
        "test": {metric: _spread([result["test"][metric] for result in results]) for metric in first["test"]},
        "per_target": per_target,
        "parameters": first["parameters"],
        "seconds": round(sum(result["seconds"] for result in results), 3),
        "expected": first["expected"],
        "test_scored": first["test_scored"],
    }


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return {
        "mean": statistics.fmean(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
        "values": list(values),
    }
