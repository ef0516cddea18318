"""What was learned and how well: the first sentence, the key numbers, the comparison with the paper."""

from __future__ import annotations

from typing import NamedTuple

from pointset.reports.run_pages.forms import MULTI_CLASS, REGRESSION, Result
from pointset.reports.run_pages.learning_charts import best_epoch
from pointset.reports.run_pages.recipe_words import model_words
from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.run_facts import changed_settings
from pointset.reports.run_pages.verdict import Verdict, recipe_notes, verdict_on
from pointset.reports.run_pages.words import (
    capitalised,
    count,
    duration,
    higher_is_better,
    listed,
    memory,
    metric_meaning,
    metric_name,
    number,
    with_spread,
)


class Tile(NamedTuple):
    """A key number; ``mark`` is a class of the style sheet: main, better, worse, level."""

    label: str
    value: str
    note: str = ""
    mark: str = ""


def lead(run: RunRecord) -> str:
    """One or two sentences."""
    model = capitalised(model_words(run.recipe.model.preset))
    result = run.result
    if result is None:
        done, planned = len(run.epochs.get("epoch", ())), run.recipe.trainer.epochs
        of = f" of {planned:,}" if planned else ""
        return f"{model} is not trained to the end yet: {done:,}{of} epochs are done, and the test split is unseen."
    title = result.dataset.title or result.dataset.name
    data = f"“{title}”" if title else "the data"
    metric = main_metric(result)
    if result.test.get(metric) is None:
        why = "it is not a number" if result.test else "no graphs were held back to test on"
        return f"{model} learned from {data} to {_what(result)}. There is no test score: {why}."
    meaning = f" ({metric_meaning(metric)})" if metric_meaning(metric) else ""
    size = result.split_sizes.get("test")
    where = f"On {count(size, 'test graph')} it has never seen" if size else "On the test split"
    score = f"its {metric_name(metric)}{meaning} is {_with_unit(result, metric)}"
    return f"{model} learned from {data} to {_what(result)}. {where}, {score}."


def main_metric(result: Result) -> str:
    """The paper's metric where it is known, otherwise the one that chose the epoch."""
    expected = result.expected
    return expected.metric if expected is not None and result.test.get(expected.metric) is not None else result.metric


def verdict_of(run: RunRecord) -> tuple[Verdict | None, list[str]]:
    """The comparison with the paper where there is one, and what must be said with it."""
    result = run.result
    if result is None or result.expected is None:
        return None, []
    ours = result.test.get(result.expected.metric)
    verdict = None if ours is None else verdict_on(ours, None, 1, result.expected, one_fold=result.fold is not None)
    if verdict is None:
        return None, []
    return verdict, verdict.notes + recipe_notes(changed_settings(run), result.parameters, result.expected)


def tiles(run: RunRecord, verdict: Verdict | None) -> list[Tile]:
    """The key numbers, the most important first."""
    result = run.result
    best = best_epoch(run)
    found = []
    if result is None:
        if best is not None and run.metric is not None:
            value = number(float(run.epochs[f"val_{run.metric}"][best]))
            note = f"epoch {run.epochs['epoch'][best]:.0f}"
            found.append(Tile(f"best validation {metric_name(run.metric)} so far", value, note, "main"))
        return found
    metric = main_metric(result)
    if result.test:
        score = number(result.test.get(metric))
        found.append(Tile(f"test {metric_name(metric)}", score, _direction(metric, result), "main"))
    if result.expected is not None and verdict is not None:
        paper = with_spread(result.expected.value, result.expected.std)
        found.append(
            Tile("the paper", paper, f"{verdict.word} here" if verdict.word != "level" else "level", verdict.word)
        )
    if (validation := result.val.get(metric)) is not None:
        epochs = f"epoch {result.best_epoch} of {result.epochs}" if result.best_epoch and result.epochs else ""
        found.append(Tile(f"validation {metric_name(metric)}", number(validation), epochs))
    if result.parameters is not None:
        size = f"{run.recipe.model.layers} × {run.recipe.model.dim} channels"
        found.append(Tile("parameters", f"{result.parameters:,}", size))
    if result.seconds is not None:
        peak = f"{memory(result.peak_memory_bytes)} memory" if result.peak_memory_bytes else ""
        found.append(Tile("time", duration(result.seconds), peak))
    return found


def _direction(metric: str, result: Result) -> str:
    up = result.higher_is_better if metric == result.metric else higher_is_better(metric)
    return "higher is better" if up else "lower is better"


def _with_unit(result: Result, metric: str) -> str:
    unit = next(iter(result.units.values())) if len(result.units) == 1 else None
    return number(result.test.get(metric)) + (f" {unit}" if unit and metric in ("mae", "rmse") else "")


def _what(result: Result) -> str:
    """``predict gap for each graph``."""
    targets = list(result.per_target) or list(result.units)
    if result.task == MULTI_CLASS:
        return f"tell {count(len(result.classes), 'class')} of {result.level}s apart"
    if not targets or len(targets) > 3:
        many = f"{len(targets)} {'numbers' if result.task == REGRESSION else 'labels'}" if targets else "the target"
        return f"predict {many} for each {result.level}"
    return f"predict {listed(targets)} for each {result.level}"
