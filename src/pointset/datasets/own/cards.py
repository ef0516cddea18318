"""The card of own data (:func:`own_card`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pointset.datasets.card import Card, Metric, Target, Task

_METRICS = {
    Task.REGRESSION: Metric.MAE,
    Task.BINARY: Metric.ROC_AUC,
    Task.MULTI_CLASS: Metric.ACCURACY,
    Task.MULTI_LABEL: Metric.ROC_AUC,  # the mean over labels, as for MoleculeNet's tables with missing labels
}
# What stands in brackets at the end of a header and can be a unit: logS [mol/L], dG (kcal/mol), T (K), not y (measured)
_UNIT = re.compile(r".*[^\s]\s*[(\[]\s*(%|[^\W\d_]{1,4}|hartree|bohr|debye|[^\s()\[\]]*[/^·°%][^\s()\[\]]*)\s*[)\]]")


def own_card(*, task: Task, target_names: Sequence[str], **about: Any) -> Card:
    """A card with the usual metric of the task; targets of the same name are told apart by their number.

    A unit at the end of a name becomes the unit of a number, and stays in the name, which is the column's.
    """
    names = list(target_names)
    targets = tuple(
        Target(name if names.count(name) == 1 else f"{name} ({at})", unit_in(name) if task is Task.REGRESSION else "")
        for at, name in enumerate(names)
    )
    return Card(task=task, targets=targets, metric=_METRICS[task], licence="", source="own data", **about)


def unit_in(name: str) -> str:
    """``mol/L`` of ``logS [mol/L]``; empty where there is none."""
    found = _UNIT.fullmatch(name.strip())
    return found[1] if found else ""
