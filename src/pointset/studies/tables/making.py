"""When and on what kind of machine a table's numbers were made (:func:`made_with`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from pointset.studies.tables.plan import PlannedRun, TablePlan
from pointset.studies.tables.records import TableFolder
from pointset.training.devices import check_device, threads_for
from pointset.training.environment import machine_kind


class Made(NamedTuple):
    """``machine`` without names or paths."""

    date: str  # ISO day
    machine: dict[str, Any]


def made_with(done: Sequence[PlannedRun], folder: TableFolder, plan: TablePlan) -> Made:
    """Of the run that was begun last: a table may be collected later, and on another machine."""
    known = [one for run in done if (one := folder.environment(run)) is not None and "started" in one]
    here = made_here(threads_for(plan.chosen[0].recipe, 1))
    if not known:
        return Made(here["started"][:10], {key: value for key, value in here.items() if key != "started"})
    last = max(known, key=lambda one: str(one["started"]))
    return Made(str(last["started"])[:10], {key: last.get(key) for key in here if key != "started"})


def made_here(threads: int, device: str = "auto") -> dict[str, Any]:
    """Of a run that is made now, on this machine."""
    return _machine(check_device(device, "32"), threads) | {"started": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _machine(device: str, threads: int) -> dict[str, Any]:
    """Asked once: it takes longer than the rest of a table."""
    return machine_kind(device=device, threads=threads)
