"""The card of own data (:func:`own_card`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pointset.datasets.card import Card, Metric, Target, Task

_METRICS = {
    Task.REGRESSION: Metric.MAE,
    Task.BINARY: Metric.ROC_AUC,
    Task.MULTI_CLASS: Metric.ACCURACY,
    Task.MULTI_LABEL: Metric.ROC_AUC,  # the mean over labels, as for MoleculeNet's tables with missing labels
}


def own_card(*, task: Task, target_names: Sequence[str], **about: Any) -> Card:
    """A card with the usual metric of the task; targets of the same name are told apart by their number."""
    names = list(target_names)
    targets = tuple(Target(name if names.count(name) == 1 else f"{name} ({at})") for at, name in enumerate(names))
    return Card(task=task, targets=targets, metric=_METRICS[task], licence="", source="own data", **about)
