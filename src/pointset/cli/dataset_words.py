"""Words for what a card says, the same in tables and cards."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pointset.cli.messages import printable
from pointset.datasets.card import Card, Level, Metric, Task

_METRICS = {
    Metric.MAE: "MAE",
    Metric.RMSE: "RMSE",
    Metric.ROC_AUC: "ROC-AUC",
    Metric.AVERAGE_PRECISION: "AP",
    Metric.ACCURACY: "accuracy",
    Metric.MACRO_F1: "macro F1",
}


def task_in_words(card: Card) -> str:
    """``node regression, 13 targets``."""
    of_nodes = "node " if card.level is Level.NODE else ""
    if card.task is Task.MULTI_CLASS:
        return f"{of_nodes}classification, {len(card.classes)} classes"
    if card.task is Task.MULTI_LABEL:
        return f"{of_nodes}classification, {len(card.targets)} labels"  # of which a row has any number
    targets = f", {len(card.targets)} targets" if len(card.targets) > 1 else ""
    return f"{of_nodes}{card.task.value}{targets}"


def task_in_brief(card: Card) -> str:
    """At most 16 letters, for narrow tables: ``13 targets/node``."""
    of_nodes = "/node" if card.level is Level.NODE else ""
    if card.task is Task.MULTI_CLASS:
        return f"{len(card.classes)} classes{of_nodes}"
    if card.task is Task.MULTI_LABEL:
        return f"{len(card.targets)} labels{of_nodes}"
    if len(card.targets) > 1:
        return f"{len(card.targets)} targets{of_nodes}"
    return ("binary" if card.task is Task.BINARY else "regression") + of_nodes


def metric_in_words(metric: Metric) -> str:
    """``MAE ↓``: the arrow points to where it is better."""
    return f"{_METRICS[metric]} {'↑' if metric.higher_is_better else '↓'}"


def short_name(column: str) -> str:
    """A column's name without its explanation: what follows a colon or stands in brackets."""
    return printable(re.split(r"[:(]", column)[0])


def category_names(columns: Sequence[str], labels: Sequence[Sequence[str]] = ()) -> dict[int, str]:
    """Names of the categories of the first column: its labels, or those that the card lists.

    ``element: 0 C, 1 N`` gives ``{0: "C", 1: "N"}``.
    """
    if labels or not columns:
        return dict(enumerate(map(printable, labels[0]))) if labels else {}
    listed = re.sub(r"\(.*?\)", "", columns[0].partition(":")[2]).split(",")
    found = [re.fullmatch(r"(\d+) (\S+( \S+){0,2})", part.strip()) for part in listed]
    return {int(match[1]): printable(match[2]) for match in found if match}


def number(value: float) -> str:
    """Five digits at most, with a true minus sign: ``−11,234``, ``0.01634``."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        rounded = float(f"{value:.4g}") if abs(value) < 1000 else round(value)
        text = f"{rounded:,}"
        text = text.removesuffix(".0")
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−")
