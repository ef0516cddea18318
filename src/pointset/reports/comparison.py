"""The page that compares runs: which belong together, their tables, their curves (:func:`comparison_page`)."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pointset.metrics import higher_is_better, metric_label
from pointset.reports.charts import Cell, Table, Tile
from pointset.reports.learning_curves import curve_style, overlaid_validation
from pointset.reports.verdict import Verdict, verdict_on
from pointset.runs.recipe import Expected, Recipe
from pointset.runs.recipe_files import flattened
from pointset.runs.records import RunGroup, RunRecord
from pointset.text import counted, duration, fixed, number, with_spread

_NOT_SETTINGS = ("name", "title", "expected")  # of the recipe: what it is called, and what the paper says
_OF_ONE_RUN = ("seed", "dataset.fold")  # keys in which the runs of one experiment differ
_OF_THE_SPLIT = (
    "dataset.name",
    "dataset.file",
    "dataset.val_file",
    "dataset.test_file",
    "dataset.folds",
    "dataset.options.split",
    "dataset.options.seed",
)
_MOST_COLUMNS = 5  # of changed settings; more stand together in one


class Experiment(NamedTuple):
    """Runs that differ only in their seed or fold."""

    name: str
    style: str
    runs: list[RunRecord]

    def scores(self, metric: str, target: str | None = None) -> list[float]:
        """On the test split, of the runs that have finished; of one target, or of all together."""
        results = [run.result for run in self.runs if run.result is not None]
        found = [(one.test if target is None else one.per_target.get(target, {})).get(metric) for one in results]
        return [value for value in found if value is not None and math.isfinite(value)]

    def mean_score(self, metric: str, target: str | None = None) -> str:
        """With its standard deviation."""
        return with_spread(*_mean_and_std(self.scores(metric, target)))

    @property
    def expected(self) -> Expected | None:
        """The paper's result."""
        found = (run.result.expected for run in self.runs if run.result is not None)
        return next((expected for expected in found if expected is not None), None)


class RunComparison(NamedTuple):
    """Runs to be compared."""

    experiments: list[Experiment]
    changed: list[str]  # keys of recipes whose values are not the same in all runs
    metric: str | None  # that all runs are scored by; None where they differ

    @property
    def runs(self) -> list[RunRecord]:
        """All of them, experiment by experiment."""
        return [run for one in self.experiments for run in one.runs]

    @property
    def other_graphs(self) -> list[str]:
        """The changed keys with which other graphs are in the test split: its scores say nothing about an order."""
        return [key for key in self.changed if key in _OF_THE_SPLIT]

    @property
    def best(self) -> Experiment | None:
        """By the mean test score, where there is a choice and all have the same metric and test split."""
        if self.metric is None or self.other_graphs:
            return None
        means = [(_mean_and_std(one.scores(self.metric))[0], one) for one in self.experiments]
        scored = [(mean, one) for mean, one in means if mean is not None]
        sign = -1 if higher_is_better(self.metric) else 1
        return min(scored, key=lambda pair: sign * pair[0])[1] if len(scored) > 1 else None


def comparison_page(runs: Sequence[RunRecord], group: RunGroup | None) -> dict[str, Any]:
    """The values of the template ``comparison.html.j2``; ``group`` is set for one folder of seeds or folds."""
    found = compare_runs(runs)
    verdict = _verdict(found)
    expected = found.experiments[0].expected
    several = len(found.experiments) > 1
    styled = [(run, one.style, one.name if several else "") for one in found.experiments for run in one.runs]
    missing = 0 if group is None else len(group.runs) - len(runs)
    return {
        "title": (group.title or group.recipe) if group is not None else f"{counted(len(runs), 'run')} compared",
        "test_scored": "",
        "eyebrow": "pointset · comparison of runs",
        "lead": _lead(found, missing),
        "verdict": verdict,
        "table": expected.table if expected is not None else "",
        "notes": verdict.notes if verdict is not None else [],
        "tiles": _tiles(found, verdict),
        "experiments": _experiment_table(found) if several else None,
        "runs": _run_table(found),
        "curves": overlaid_validation(styled, found.metric) if found.metric is not None else None,
        "targets": _target_table(found),
    }


def compare_runs(runs: Sequence[RunRecord]) -> RunComparison:
    """Group the runs into experiments, in their order."""
    settings = [_settings(run.recipe) for run in runs]
    keys = dict.fromkeys(key for one in settings for key in one)
    changed = [key for key in keys if len({json.dumps(one.get(key), default=str) for one in settings}) > 1]
    groups: dict[str, list[RunRecord]] = {}
    names: dict[str, str] = {}
    for run, values in zip(runs, settings, strict=True):
        chosen = {key: values.get(key) for key in changed if key not in _OF_ONE_RUN}
        key = json.dumps([run.recipe.name, chosen], default=str, sort_keys=True)
        groups.setdefault(key, []).append(run)
        names.setdefault(key, run.recipe.name)
        if list(names.values()).count(run.recipe.name) > 1:
            telling = [setting for setting in chosen if setting != "dataset.name"][:3]
            names[key] = f"{run.recipe.name}, {_listed(chosen, telling)}"
    metrics = {run.result.main_metric if run.result is not None else run.metric for run in runs} - {None}
    experiments = [Experiment(names[key], curve_style(index), groups[key]) for index, key in enumerate(groups)]
    return RunComparison(experiments, changed, metrics.pop() if len(metrics) == 1 else None)


def _settings(recipe: Recipe) -> dict[str, Any]:
    """``{"model.dim": 8, …}``, without what is not a setting."""
    return flattened({key: value for key, value in recipe.as_dict().items() if key not in _NOT_SETTINGS})


def _listed(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{key}={_as_yaml(values.get(key))}" for key in keys)


def _as_yaml(value: Any) -> str:
    return "null" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def _mean_and_std(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The standard deviation divides by the number of values minus one; a single value has none."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _experiment_table(found: RunComparison) -> Table:
    """A row for each recipe: mean ± standard deviation over its seeds or folds."""
    in_paper = any(one.expected is not None for one in found.experiments)
    rows = []
    for one in found.experiments:
        done = sum(run.result is not None for run in one.runs)
        finished = str(done) if done == len(one.runs) else f"{done} of {len(one.runs)}"
        score = one.mean_score(found.metric) if found.metric is not None else _own_score(one)
        row = [Cell(one.name), Cell(finished), Cell(score, "good" if one is found.best else "")]
        if in_paper:
            paper = one.expected
            spread = "" if paper is None else f"{metric_label(paper.metric)} {with_spread(paper.value, paper.std)}"
            row.append(Cell(spread))
        rows.append([*row, Cell(_parameters(one.runs[0]))])
    heads = ["recipe", "runs", _score_head(found), *(["paper"] if in_paper else []), "parameters"]
    return Table(heads, rows, "Mean ± standard deviation over seeds or folds.")


def _run_table(found: RunComparison) -> Table:
    """A row for each run, with only those settings that differ."""
    separate = found.changed if len(found.changed) <= _MOST_COLUMNS else []
    together = [] if separate else found.changed
    rows = []
    for run in found.runs:
        values = _settings(run.recipe)
        name = "/".join(run.folder.resolve().parts[-2:])  # distinguishes seeds of one folder and folders of one name
        row = [Cell(name), *(Cell(_as_yaml(values.get(key))) for key in separate)]
        row += [Cell(_listed(values, together), "long")] if together else []
        epoch, seconds = (None, None) if run.result is None else (run.result.best_epoch, run.result.seconds)
        row += [Cell(_score(run, found)), Cell(fixed(epoch, 0)), Cell(_parameters(run)), Cell(duration(seconds))]
        rows.append(row)
    settings = [*separate, *(["settings that differ"] if together else [])]
    return Table(["run", *settings, _score_head(found), "best epoch", "parameters", "time"], rows)


def _target_table(found: RunComparison) -> Table | None:
    """Every target of every recipe; None where runs have one target, or are not scored alike."""
    metric = found.metric
    finished = [run.result for run in found.runs if run.result is not None]
    targets = list(dict.fromkeys(target for result in finished for target in result.per_target))
    if metric is None or len(targets) < 2:
        return None
    printed = (one.expected.per_target for one in found.experiments if one.expected is not None)
    paper = next((values for values in printed if values), None)
    rows = []
    for target in targets:
        cells = [Cell(target), *(Cell(one.mean_score(metric, target)) for one in found.experiments)]
        rows.append([*cells, *([Cell(number(paper.get(target)))] if paper else [])])
    head = ["target", *(one.name for one in found.experiments), *(["paper"] if paper else [])]
    return Table(head, rows, f"Test {metric_label(metric)}, mean ± standard deviation over seeds or folds.")


def _score_head(found: RunComparison) -> str:
    return f"test {metric_label(found.metric)}" if found.metric is not None else "test"


def _own_score(one: Experiment) -> str:
    """By its own metric, where the others have another."""
    result = next((run.result for run in one.runs if run.result is not None), None)
    return "–" if result is None else f"{metric_label(result.main_metric)} {one.mean_score(result.main_metric)}"


def _score(run: RunRecord, found: RunComparison) -> str:
    if run.result is None:
        return "not finished"
    metric = found.metric or run.result.main_metric
    return f"{'' if found.metric else f'{metric_label(metric)} '}{number(run.result.test.get(metric))}"


def _parameters(run: RunRecord) -> str:
    return fixed(None if run.result is None else run.result.parameters, 0)


def _verdict(found: RunComparison) -> Verdict | None:
    """Only where all runs are one experiment."""
    expected = found.experiments[0].expected
    if found.metric is None or expected is None or expected.metric != found.metric or len(found.experiments) > 1:
        return None
    values = found.experiments[0].scores(found.metric)
    mean, std = _mean_and_std(values)
    return None if mean is None else verdict_on(mean, std, len(values), expected)


def _lead(found: RunComparison, missing: int) -> str:
    runs, metric, best = counted(len(found.runs), "run"), found.metric, found.best
    if len(found.experiments) == 1:
        differs = " and ".join(found.changed) or "nothing but the machine's rounding"
        text = f"{runs} of one recipe, which differ in {differs}."
        if metric is not None and found.experiments[0].scores(metric):
            score = found.experiments[0].mean_score(metric)
            text += f" Their test {metric_label(metric)} is {score} (mean ± standard deviation)."
    else:
        text = f"{runs} of {counted(len(found.experiments), 'recipe')}."
        if metric is None:
            text += " They are scored by different metrics, so no order is given."
        elif found.other_graphs:
            text += f" They are tested on different graphs ({', '.join(found.other_graphs)}), so no order is given."
        elif best is not None:
            text += f" {best.name} has the best test {metric_label(metric)}: {best.mean_score(metric)}."
    unfinished = sum(run.result is None for run in found.runs) + missing
    return text + (f" Not finished yet: {counted(unfinished, 'run')}." if unfinished else "")


def _tiles(found: RunComparison, verdict: Verdict | None) -> list[Tile]:
    tiles = []
    chosen = found.best or (found.experiments[0] if len(found.experiments) == 1 else None)
    if chosen is not None and found.metric is not None and (values := chosen.scores(found.metric)):
        note = f"mean of {counted(len(values), 'run')}" if len(values) > 1 else chosen.name
        label = f"{'best ' if found.best else ''}{_score_head(found)}"
        tiles.append(Tile(label, chosen.mean_score(found.metric), note, "main"))
    tiles += [] if verdict is None else [verdict.tile]
    tiles.append(Tile("runs", str(len(found.runs)), counted(len(found.experiments), "recipe")))
    seconds = [run.result.seconds for run in found.runs if run.result is not None and run.result.seconds is not None]
    if seconds:
        tiles.append(Tile("time", duration(math.fsum(seconds)), "all runs together"))
    return tiles
