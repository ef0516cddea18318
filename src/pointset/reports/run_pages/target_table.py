"""Scores as tables: all metrics of the run, and every target beside the paper's values (:func:`target_table`)."""

from __future__ import annotations

from pointset.reports.run_pages.figure import Cell, Table
from pointset.reports.run_pages.forms import Expected, Result
from pointset.reports.run_pages.words import capitalised, higher_is_better, metric_name, number

COUNTS_UP_TO = 0.010  # normalised MAE up to which a model is said to count a substructure (the paper's criterion)
_NORMALISED = "normalised_mae"


def score_table(result: Result) -> Table | None:
    """Every metric on both splits; None where one number says it all."""
    metrics = list(dict.fromkeys([result.metric, *result.test, *result.val]))
    if len(metrics) < 2:
        return None
    rows = [
        [Cell(metric_name(metric)), Cell(number(result.val.get(metric))), Cell(number(result.test.get(metric)))]
        for metric in metrics
    ]
    return Table(["metric", "validation", "test"], rows)


def target_table(result: Result) -> Table | None:
    """A row for each target; None where there is only one and the paper says nothing of it."""
    expected = result.expected
    paper = (expected.per_target if expected is not None else None) or {}
    if not result.per_target or (len(result.per_target) == 1 and not paper):
        return None
    others = (expected.others if expected is not None else None) or {}
    metrics = _metrics(result)
    counting = bool(paper) and expected is not None and expected.metric == _NORMALISED
    compared = expected.metric if expected is not None and expected.metric in metrics else metrics[0]
    metrics = [compared, *(metric for metric in metrics if metric != compared)] if paper else metrics
    head = ["target", metric_name(metrics[0]), *(["verdict"] if counting else []), *(["paper"] if paper else [])]
    head += [*others, *(metric_name(metric) for metric in metrics[1:])]
    rows = []
    for target, scores in result.per_target.items():
        ours, value = scores.get(metrics[0]), paper.get(target)
        row = [Cell(_named(target, result)), Cell(number(ours, 3), _mark(ours, value, metrics[0]))]
        row += [_counts(ours)] if counting else []
        row += [Cell(number(value))] if paper else []
        row += [Cell(number(other.get(target))) for other in others.values()]
        row += [Cell(number(scores.get(metric), 3)) for metric in metrics[1:]]
        rows.append(row)
    return Table(head, rows, _caption(result, compared, expected if paper else None, counting))


def _metrics(result: Result) -> list[str]:
    found = dict.fromkeys(metric for scores in result.per_target.values() for metric in scores)
    return sorted(found, key=lambda metric: metric != result.metric) or [result.metric]


def _named(target: str, result: Result) -> str:
    unit = result.units.get(target)
    return f"{target} ({unit})" if unit and unit not in target else target


def _mark(ours: float | None, paper: float | None, metric: str) -> str:
    """``good`` where ours is at least as good as the paper's."""
    if ours is None or paper is None:
        return ""
    return "good" if (ours >= paper if higher_is_better(metric) else ours <= paper) else ""


def _counts(ours: float | None) -> Cell:
    return Cell("counts", "counts") if ours is not None and ours <= COUNTS_UP_TO else Cell("", "")


def _caption(result: Result, metric: str, expected: Expected | None, counting: bool) -> str:
    text = [] if expected is None else [f"{metric_name(metric)} of this run beside the paper's"]
    if expected is not None and expected.table:
        text[0] += f" ({expected.table})"
    if counting:
        scores = [one.get(_NORMALISED) for one in result.per_target.values()]
        counted = sum(value is not None and value <= COUNTS_UP_TO for value in scores)
        rule = f"a model counts a substructure where its normalised MAE is at most {COUNTS_UP_TO:.3f}"
        text.append(f"{counted} of {len(scores)} are counted: {rule}")
    return "".join(f"{capitalised(part)}. " for part in text).strip()
