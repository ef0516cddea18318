"""Which runs belong together: those whose recipes differ only in seed or fold (:func:`experiments_of`)."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pointset.reports.run_pages.forms import Expected
from pointset.reports.run_pages.headline import main_metric
from pointset.reports.run_pages.record import RunRecord

_NOT_SETTINGS = ("name", "title", "expected")  # of the recipe: what it is called, and what the paper says
_OF_ONE_RUN = ("seed", "dataset.fold")  # keys in which the runs of one experiment differ
_OF_THE_SPLIT = ("dataset.name", "dataset.file", "dataset.folds", "dataset.options.split", "dataset.options.seed")
_STYLES = 8  # colours of the style sheet


class Experiment(NamedTuple):
    """Runs that differ only in their seed or fold."""

    name: str
    style: str
    runs: list[RunRecord]

    def values(self, metric: str) -> list[float]:
        """The test scores of the runs that have finished."""
        found = [run.result.test.get(metric) for run in self.runs if run.result is not None]
        return [value for value in found if value is not None and math.isfinite(value)]

    def target_values(self, target: str, metric: str) -> list[float]:
        """The same for one target."""
        found = [run.result.per_target.get(target, {}).get(metric) for run in self.runs if run.result is not None]
        return [value for value in found if value is not None and math.isfinite(value)]

    @property
    def expected(self) -> Expected | None:
        """The paper's result."""
        found = (run.result.expected for run in self.runs if run.result is not None)
        return next((expected for expected in found if expected is not None), None)


class Comparison(NamedTuple):
    """Runs to be compared."""

    experiments: list[Experiment]
    changed: list[str]  # keys of recipes whose values are not the same in all runs
    metric: str | None  # that all runs are scored by; None where they differ

    @property
    def other_graphs(self) -> list[str]:
        """The changed keys with which other graphs are in the test split: its scores say nothing about an order."""
        return [key for key in self.changed if key in _OF_THE_SPLIT]

    @property
    def runs(self) -> list[RunRecord]:
        """All of them, experiment by experiment."""
        return [run for one in self.experiments for run in one.runs]


def experiments_of(runs: Sequence[RunRecord]) -> Comparison:
    """Group the runs, in their order."""
    settings = [flat(run.recipe_values) for run in runs]
    changed = changed_keys(settings)
    telling = [key for key in changed if key not in _OF_ONE_RUN]
    groups: dict[str, list[RunRecord]] = {}
    names: dict[str, str] = {}
    for run, values in zip(runs, settings, strict=True):
        chosen = {key: values.get(key) for key in telling}
        key = json.dumps([run.recipe.name, chosen], default=str, sort_keys=True)
        groups.setdefault(key, []).append(run)
        own = ", ".join(f"{key}={as_text(value)}" for key, value in list(chosen.items())[:3] if key != "dataset.name")
        names.setdefault(key, run.recipe.name or own)
        if list(names.values()).count(run.recipe.name) > 1:
            names[key] = f"{run.recipe.name}, {own}"
    metrics = {main_metric(run.result) if run.result is not None else run.metric for run in runs} - {None}
    found = [
        Experiment(names[key], f"c{index % _STYLES}", members) for index, (key, members) in enumerate(groups.items())
    ]
    return Comparison(found, changed, metrics.pop() if len(metrics) == 1 else None)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"model": {"dim": 8}}`` → ``{"model.dim": 8}``, without what is no setting."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if not prefix and key in _NOT_SETTINGS:
            continue
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def changed_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are not the same in all recipes."""
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if len({json.dumps(one.get(key), default=str) for one in settings}) > 1]


def as_text(value: Any) -> str:
    """As it stands in YAML."""
    return "null" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def mean_and_std(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The standard deviation divides by the number of values minus one; a single value has none."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
