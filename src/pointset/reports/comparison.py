"""What the page that compares runs says (:func:`comparison_page`)."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pointset.metrics import higher_is_better, metric_label
from pointset.reports.charts import Cell, Table, Tile
from pointset.reports.learning_curves import curve_style, overlaid_validation
from pointset.reports.recipe_sentences import Verdict, verdict_on
from pointset.runs.recipe import Expected, Recipe
from pointset.runs.recipe_files import flattened
from pointset.runs.records import RunGroup, RunRecord
from pointset.text import counted, duration, number, with_spread

# Which runs belong together: those whose recipes differ only in seed or fold (:func:`experiments_of`).


_NOT_SETTINGS = ("name", "title", "expected")  # of the recipe: what it is called, and what the paper says
_OF_ONE_RUN = ("seed", "dataset.fold")  # keys in which the runs of one experiment differ
_OF_THE_SPLIT = ("dataset.name", "dataset.file", "dataset.folds", "dataset.options.split", "dataset.options.seed")


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
    settings = [settings_of(run.recipe) for run in runs]
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
    metrics = {run.result.main_metric if run.result is not None else run.metric for run in runs} - {None}
    found = [Experiment(names[key], curve_style(index), members) for index, (key, members) in enumerate(groups.items())]
    return Comparison(found, changed, metrics.pop() if len(metrics) == 1 else None)


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """``{"model.dim": 8, …}``, without what is not a setting."""
    values = {key: value for key, value in recipe.as_dict().items() if key not in _NOT_SETTINGS}
    return flattened(values)


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


# The tables of the page that compares runs.


_MOST_COLUMNS = 5  # of changed settings; more stand together in one


def experiment_table(found: Comparison, best: Experiment | None) -> Table:
    """A row for each recipe: mean ± standard deviation over its seeds or folds."""
    metric = found.metric
    in_paper = any(one.expected is not None for one in found.experiments)
    rows = []
    for one in found.experiments:
        score = with_spread(*mean_and_std(one.values(metric))) if metric is not None else _own_scores(one)
        row = [Cell(one.name), Cell(_finished(one)), Cell(score, "good" if one is best else "")]
        rows.append([*row, *([_paper(one)] if in_paper else []), Cell(_parameters(one.runs[0]))])
    head = f"test {metric_label(metric)}" if metric is not None else "test"
    heads = ["recipe", "runs", head, *(["paper"] if in_paper else []), "parameters"]
    return Table(heads, rows, "Mean ± standard deviation over seeds or folds.")


def run_table(found: Comparison) -> Table:
    """A row for each run, with only those settings that differ."""
    separate = found.changed if len(found.changed) <= _MOST_COLUMNS else []
    together = [] if separate else found.changed
    head = ["run", *separate, *(["settings that differ"] if together else [])]
    head += [f"test {metric_label(found.metric)}" if found.metric is not None else "test", "best epoch"]
    rows = []
    for run in found.runs:
        values = settings_of(run.recipe)
        row = [Cell(_name(run)), *(Cell(as_text(values.get(key))) for key in separate)]
        if together:
            row.append(Cell(", ".join(f"{key}={as_text(values.get(key))}" for key in together), "long"))
        row += [Cell(_score(run, found.metric)), Cell(_epoch(run)), Cell(_parameters(run)), Cell(_time(run))]
        rows.append(row)
    return Table([*head, "parameters", "time"], rows)


def target_comparison(found: Comparison) -> Table | None:
    """Every target of every recipe; None where runs have one target, or are not scored alike."""
    metric = found.metric
    finished = [run.result for run in found.runs if run.result is not None]
    targets = list(dict.fromkeys(target for result in finished for target in result.per_target))
    if metric is None or len(targets) < 2:
        return None
    paper = next((one.expected.per_target for one in found.experiments if one.expected and one.expected.per_target), {})
    rows = []
    for target in targets:
        spreads = [with_spread(*mean_and_std(one.target_values(target, metric))) for one in found.experiments]
        rows.append([Cell(target), *map(Cell, spreads), *([Cell(number((paper or {}).get(target)))] if paper else [])])
    head = ["target", *(one.name for one in found.experiments), *(["paper"] if paper else [])]
    return Table(head, rows, f"Test {metric_label(metric)}, mean ± standard deviation over seeds or folds.")


def _paper(one: Experiment) -> Cell:
    paper = one.expected
    return Cell("" if paper is None else f"{metric_label(paper.metric)} {with_spread(paper.value, paper.std)}")


def _finished(one: Experiment) -> str:
    done = sum(run.result is not None for run in one.runs)
    return str(done) if done == len(one.runs) else f"{done} of {len(one.runs)}"


def _own_scores(one: Experiment) -> str:
    result = next((run.result for run in one.runs if run.result is not None), None)
    if result is None:
        return "–"
    metric = result.main_metric
    return f"{metric_label(metric)} {with_spread(*mean_and_std(one.values(metric)))}"


def _name(run: RunRecord) -> str:
    """The last parts of the path, which tell seeds of one folder and folders of one name apart."""
    return "/".join(run.folder.resolve().parts[-2:])


def _score(run: RunRecord, metric: str | None) -> str:
    if run.result is None:
        return "not finished"
    if metric is not None:
        return number(run.result.test.get(metric))
    own = run.result.main_metric
    return f"{metric_label(own)} {number(run.result.test.get(own))}"


def _epoch(run: RunRecord) -> str:
    return "–" if run.result is None or run.result.best_epoch is None else f"{run.result.best_epoch:,}"


def _parameters(run: RunRecord) -> str:
    return "–" if run.result is None or run.result.parameters is None else f"{run.result.parameters:,}"


def _time(run: RunRecord) -> str:
    return "–" if run.result is None else duration(run.result.seconds)


def comparison_page(runs: Sequence[RunRecord], group: RunGroup | None) -> dict[str, Any]:
    """The values of the template ``comparison.html.j2``; ``group`` is set for one folder of seeds or folds."""
    found = experiments_of(runs)
    best = best_experiment(found)
    verdict = _verdict(found)
    expected = found.experiments[0].expected
    several = len(found.experiments) > 1
    styled = [(run, one.style, one.name if several else "") for one in found.experiments for run in one.runs]
    missing = 0 if group is None else len(group.runs) - len(runs)
    return {
        "title": (group.title or group.recipe) if group is not None else f"{counted(len(runs), 'run')} compared",
        "test_scored": "",
        "eyebrow": "pointset · comparison of runs",
        "lead": _lead(found, best, missing),
        "verdict": verdict,
        "table": expected.table if expected is not None else "",
        "notes": verdict.notes if verdict is not None else [],
        "tiles": _tiles(found, best, verdict),
        "experiments": experiment_table(found, best) if several else None,
        "runs": run_table(found),
        "curves": overlaid_validation(styled, found.metric) if found.metric is not None else None,
        "targets": target_comparison(found),
    }


def best_experiment(found: Comparison) -> Experiment | None:
    """The one with the best mean test score, where there is a choice and all have the same metric and test split."""
    metric = found.metric
    if metric is None or len(found.experiments) < 2:
        return None
    means = [(mean_and_std(one.values(metric))[0], one) for one in found.experiments]
    scored = [(mean, one) for mean, one in means if mean is not None]
    if len(scored) < 2 or found.other_graphs:
        return None
    sign = -1 if higher_is_better(metric) else 1
    return min(scored, key=lambda pair: sign * pair[0])[1]


def _verdict(found: Comparison) -> Verdict | None:
    """Only where all runs are one experiment."""
    expected = found.experiments[0].expected
    if found.metric is None or expected is None or expected.metric != found.metric or len(found.experiments) > 1:
        return None
    values = found.experiments[0].values(found.metric)
    mean, std = mean_and_std(values)
    return None if mean is None else verdict_on(mean, std, len(values), expected)


def _lead(found: Comparison, best: Experiment | None, missing: int) -> str:
    runs = found.runs
    metric = metric_label(found.metric) if found.metric is not None else ""
    if len(found.experiments) == 1:
        differs = " and ".join(key for key in found.changed) or "nothing but the machine's rounding"
        text = f"{counted(len(runs), 'run')} of one recipe, which differ in {differs}."
        if found.metric is not None and (values := found.experiments[0].values(found.metric)):
            text += f" Their test {metric} is {with_spread(*mean_and_std(values))} (mean ± standard deviation)."
    else:
        text = f"{counted(len(runs), 'run')} of {counted(len(found.experiments), 'recipe')}."
        if found.metric is None:
            text += " They are scored by different metrics, so no order is given."
        elif found.other_graphs:
            text += f" They are tested on different graphs ({', '.join(found.other_graphs)}), so no order is given."
        if best is not None and found.metric is not None:
            text += f" {best.name} has the best test {metric}: {with_spread(*mean_and_std(best.values(found.metric)))}."
    unfinished = sum(run.result is None for run in runs) + missing
    return text + (f" Not finished yet: {counted(unfinished, 'run')}." if unfinished else "")


def _tiles(found: Comparison, best: Experiment | None, verdict: Verdict | None) -> list[Tile]:
    tiles = []
    chosen = best or (found.experiments[0] if len(found.experiments) == 1 else None)
    if chosen is not None and found.metric is not None and (values := chosen.values(found.metric)):
        note = f"mean of {counted(len(values), 'run')}" if len(values) > 1 else chosen.name
        label = f"{'best ' if best else ''}test {metric_label(found.metric)}"
        tiles.append(Tile(label, with_spread(*mean_and_std(values)), note, "main"))
    expected = found.experiments[0].expected
    if verdict is not None and expected is not None:
        word = "level" if verdict.word == "level" else f"{verdict.word} here"
        tiles.append(Tile("the paper", with_spread(expected.value, expected.std), word, verdict.word))
    tiles.append(Tile("runs", str(len(found.runs)), counted(len(found.experiments), "recipe")))
    seconds = [run.result.seconds for run in found.runs if run.result is not None and run.result.seconds is not None]
    if seconds:
        tiles.append(Tile("time", duration(math.fsum(seconds)), "all runs together"))
    return tiles
