"""Words for what a card says, the same in tables and cards."""

from __future__ import annotations

import re

from pointset.cli.messages import printable
from pointset.datasets.card import Card, Level, Metric, Task
from pointset.datasets.sources import Benchmark
from pointset.errors import MissingDataError

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


def metric_in_words(metric: Metric) -> str:
    """``MAE ↓``: the arrow points to where it is better."""
    return f"{_METRICS[metric]} {'↑' if metric.higher_is_better else '↓'}"


def how_to_get(benchmark: Benchmark, error: MissingDataError) -> str:
    """What to put where, and the command that downloads it where it can be downloaded."""
    if not any(source.downloads for source in benchmark.sources):
        return str(error)
    return f"{error}; or get it with: pointset datasets verify {benchmark.card.name} --download"


def short_name(column: str) -> str:
    """A column's name without its explanation: what follows a colon or stands in brackets."""
    return printable(re.split(r"[:(]", column)[0])


def category_names(column: str) -> dict[int, str]:
    """Names of the categories where the card lists them: ``element: 0 C, 1 N`` gives ``{0: "C", 1: "N"}``."""
    listed = re.sub(r"\(.*?\)", "", column.partition(":")[2]).split(",")
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
