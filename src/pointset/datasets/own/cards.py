"""What the card of own data says of targets and metric."""

from __future__ import annotations

from collections.abc import Sequence

from pointset.datasets.card import Metric, Target, Task

_METRICS = {
    Task.REGRESSION: Metric.MAE,
    Task.BINARY: Metric.ROC_AUC,
    Task.MULTI_CLASS: Metric.ACCURACY,
    Task.MULTI_LABEL: Metric.ROC_AUC,  # the mean over labels, as for MoleculeNet's tables with missing labels
}


def metric_of(task: Task) -> Metric:
    """The usual metric of a task."""
    return _METRICS[task]


def targets_of(names: Sequence[str]) -> tuple[Target, ...]:
    """Targets by the names of their columns; those that occur twice are told apart by their number."""
    listed = list(names)
    return tuple(Target(name if listed.count(name) == 1 else f"{name} ({at})") for at, name in enumerate(listed))
