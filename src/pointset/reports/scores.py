"""How good a model is: its scores on every part with intervals, beside simple baselines (:func:`score_section`)."""

from __future__ import annotations

import math
from typing import NamedTuple

from pointset.metrics import higher_is_better, metric_label, metric_unit
from pointset.reports.charts import Axis, Cell, Chart, Figure, Table, Tile
from pointset.runs.result import RunResult, ScoreInterval
from pointset.text import capitalised, number, with_interval

_PARTS = {"train": "train", "val": "validation", "test": "test"}
_MOST_FIGURES = 3
_LONGEST_NAME = 11  # letters that fit under a place of a chart


class KnownBaseline(NamedTuple):
    """How a baseline of ``result.json`` is called."""

    short: str
    full: str


_KNOWN = {
    "ecfp forest": KnownBaseline("forest", "a random forest on Morgan fingerprints"),
    "mean": KnownBaseline("mean", "always the mean of the training part"),
}


def _called(name: str) -> KnownBaseline:
    return _KNOWN.get(name, KnownBaseline(name[:_LONGEST_NAME], f"the baseline “{name}”"))


class BesideBaseline(NamedTuple):
    """The test score beside that of the best baseline."""

    word: str  # better, level or worse: how the model is
    sentence: str
    tile: Tile


class ScoreSection(NamedTuple):
    """What the page says under “How good it is”."""

    intro: str
    figures: list[Figure]
    table: Table | None


def part_score(result: RunResult, part: str, metric: str) -> ScoreInterval:
    """Of a part, with its interval where the run has one."""
    if found := result.parts.get(part, {}).get(metric):
        return found
    return ScoreInterval(value={"val": result.val, "test": result.test}.get(part, {}).get(metric))


def shared_unit(result: RunResult, metric: str) -> str:
    """The unit of a score over all targets: theirs, if they have the same and the metric has one."""
    units = set(result.units.values())
    return metric_unit(metric, units.pop()) if len(units) == 1 else ""


def beside_baseline(result: RunResult) -> BesideBaseline | None:
    """None where the run has no baseline with this score. The model is level where the baseline is in its interval."""
    metric = result.main_metric
    ours = part_score(result, "test", metric)
    up = higher_is_better(metric)
    theirs = {name: one.test.get(metric) for name, one in result.baselines.items()}
    known = {name: value for name, value in theirs.items() if value is not None and math.isfinite(value)}
    if ours.value is None or not known:
        return None
    name = max(known, key=lambda one: known[one] if up else -known[one])
    value = known[name]
    unit = shared_unit(result, metric)
    score = f"{metric_label(metric)} {number(value, 3)}{f' {unit}' if unit else ''}"
    who = capitalised(_called(name).full)
    if _holds(ours, value):
        word, sentence = "level", f"{who} is level with it: {score} lies inside the model's interval."
    elif (value > ours.value) == up:
        word = "worse"
        sentence = f"{who} does better here: {score}. If accuracy on such molecules is all that counts, take that."
    else:
        word, sentence = "better", f"{who} does worse: {score}."
    plain = known.get("mean")
    if name != "mean" and plain is not None:
        same = "the mean" if result.is_regression else "how frequent each class is"
        if plain == ours.value or (plain > ours.value) == up:
            sentence += f" The model is no better than always predicting {same}."
        elif _holds(ours, plain):
            sentence += f" The model is not clearly better than always predicting {same}: {number(plain, 3)}."
    note = {"level": "level", "worse": "better than this model", "better": "worse than this model"}[word]
    tile = Tile(f"{_called(name).short}, test {metric_label(metric)}", number(value, 3), note, word)
    return BesideBaseline(word, sentence, tile)


def _holds(score: ScoreInterval, value: float) -> bool:
    """Whether the value lies in the interval of the score."""
    return score.lower is not None and score.upper is not None and score.lower <= value <= score.upper


def score_section(result: RunResult, noun: str) -> ScoreSection | None:
    """Scores of all parts; None where one number says it all."""
    metrics = list(dict.fromkeys([result.main_metric, result.metric, *result.test, *result.val]))
    table = _table(result, metrics)
    with_intervals = bool(result.parts)
    figures = [_figure(result, metric) for metric in metrics[:_MOST_FIGURES]] if with_intervals else []
    if len(metrics) < 2 and not with_intervals:
        return None
    return ScoreSection(_intro(result, noun), [one for one in figures if one is not None], table)


def _intro(result: RunResult, noun: str) -> str:
    if not result.parts:
        return ""
    text = f"Strokes and brackets are 95 % intervals: how far a score moves when the {noun}s of a part are drawn again."
    some = [part for part in result.parts if result.part_graphs.get(part, 0) < result.split_sizes.get(part, 0)]
    for part in some:
        text += f" Of the {result.split_sizes[part]:,} {noun}s to train, {result.part_graphs[part]:,} were scored."
    if result.baselines:
        text += " Crosses are baselines on the same test part."
    return text


def _figure(result: RunResult, metric: str) -> Figure | None:
    """A place for each part and each baseline, higher or lower as its score."""
    parts = {_PARTS[part]: part_score(result, part, metric) for part in _PARTS}
    parts = {name: one for name, one in parts.items() if _is_number(one.value)}
    baselines = {_called(name).short: one.test.get(metric) for name, one in result.baselines.items()}
    baselines = {name: value for name, value in baselines.items() if _is_number(value)}
    if "test" not in parts:
        return None
    ends = [[one.value, one.lower, one.upper] for one in parts.values()] + [[value] for value in baselines.values()]
    numbers = [[math.nan if end is None else end for end in group] for group in ends]
    unit = shared_unit(result, metric)
    direction = "higher is better" if higher_is_better(metric) else "lower is better"
    y = Axis.around(numbers, f"{unit}, {direction}" if unit else direction, margin=0.12)
    names = [*parts, *baselines]
    described = ", ".join(f"{name} {number(one.value, 3)}" for name, one in parts.items())
    chart = Chart(Axis.of_names(names), y, f"{metric_label(metric)}: {described}")
    for place, one in enumerate(parts.values()):
        style = "c0" if names[place] == "test" else "c7"
        if one.lower is not None and one.upper is not None:
            chart.spans([place], [one.lower], [one.upper], style)
        chart.dots([place], [one.value], f"{style} large")
    for place, value in enumerate(baselines.values(), start=len(parts)):
        chart.line([0, len(names) - 1], [value, value], "reference thin")
        chart.dots([place], [value], "c1 large cross")
    test = parts["test"]
    return chart.figure(
        metric_label(metric), f"test: {with_interval(test.value, test.lower, test.upper)} {unit}".strip()
    )


def _table(result: RunResult, metrics: list[str]) -> Table | None:
    """A row for each metric, a column for each part and baseline."""
    parts = [part for part in _PARTS if any(_is_number(part_score(result, part, one).value) for one in metrics)]
    if not parts:
        return None
    rows = []
    for metric in metrics:
        unit = shared_unit(result, metric)
        name = f"{metric_label(metric)} ({unit})" if unit else metric_label(metric)
        scores = [part_score(result, part, metric) for part in parts]
        cells = [Cell(with_interval(one.value, one.lower, one.upper)) for one in scores]
        others = [Cell(number(one.test.get(metric), 3)) for one in result.baselines.values()]
        rows.append([Cell(name), *cells, *others])
    head = ["metric", *(_PARTS[part] for part in parts), *(f"{_called(name).short}, test" for name in result.baselines)]
    full = [f"{_called(name).short}: {_called(name).full}" for name in result.baselines]
    return Table(head, rows, f"Baselines on the same split. {capitalised('; '.join(full))}." if full else "")


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
