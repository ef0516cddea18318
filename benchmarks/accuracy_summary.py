"""Learning curves of accuracy_per_minute.py put together: :func:`summarise`."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from common import machine
from pointset.files import read_json
from pointset.metrics import metric_label
from pointset.reports.canvas import compose_chart
from pointset.reports.charts import Axis, Chart
from pointset.reports.learning_curves import curve_style
from pointset.reports.pictures import check_picture_file, save_picture
from pointset.runs.folder import RunFolder
from pointset.runs.records import read_run

CURVE_FILE = "curve.json"
DATASETS = {"zinc": "mae", "qm9": "mae", "lipo": "rmse"}  # and the error that validation minimises
PEER = "gps"
HALF_HOUR = 30.0  # minutes of the peer, whose best error is the one to reach
SLACK = 1.1  # a run that was planned for 30 minutes may take a little longer
AT_EPOCHS = (1, 2, 5, 10, 20, 50, 100)
AT_MINUTES = (1, 2, 5, 10, 15, 20, 30)


class Epoch(NamedTuple):
    """One epoch of a run: a row of ``curve.json``."""

    epoch: int  # from 1
    seconds: float  # of training in this epoch, by the clock
    cpu_seconds: float  # by the processor
    val: float
    test: float


class Point(NamedTuple):
    """How a run stands after an epoch: the best epoch so far by validation."""

    epoch: int
    minutes: float  # of the processor, from the beginning
    val: float
    test: float


class Curve(NamedTuple):
    """A run."""

    seed: int
    parameters: int | None
    epochs: int  # planned
    clock_minutes: float
    points: list[Point]

    def at(self, minutes: float) -> Point | None:
        """How it stood after so many minutes; None in the first epoch, and after the run has ended."""
        reached = [point for point in self.points if point.minutes <= minutes]
        if not reached or (minutes > self.points[-1].minutes and len(self.points) < self.epochs):
            return None
        return reached[-1]

    def after(self, epoch: int) -> Point | None:
        """How it stood after so many epochs."""
        return next((point for point in self.points if point.epoch == epoch), None)


class Setup(NamedTuple):
    """What runs with different seeds share."""

    model: str
    optimiser: str
    limit: str  # 30min, or 20epochs

    @property
    def name(self) -> str:
        """In the tables."""
        return f"{self.model}, {self.optimiser}, {self.limit}"


Curves = dict[Setup, list[Curve]]  # of a dataset


def read_curve(path: Path) -> list[Epoch]:
    """Of a run; none where it has just begun."""
    return [Epoch(**row) for row in json.loads(path.read_text())] if path.exists() else []


def read_curves(folder: Path) -> Curves:
    """All runs of a dataset that have come through an epoch."""
    found: Curves = {}
    for path in sorted(folder.glob(f"*/{CURVE_FILE}")):
        epochs, run = read_curve(path), read_run(path.parent)
        model, optimiser, limit, _ = path.parent.name.split("_")
        minutes = list(itertools.accumulate(epoch.cpu_seconds / 60 for epoch in epochs))
        points: list[Point] = []
        for one, so_far in zip(epochs, minutes, strict=True):
            best = one if not points or one.val < points[-1].val else points[-1]
            points.append(Point(one.epoch, so_far, best.val, best.test))
        clock = sum(epoch.seconds for epoch in epochs) / 60
        result = read_json(RunFolder(path.parent).result) if RunFolder(path.parent).is_finished else {}
        curve = Curve(run.recipe.seed, result.get("parameters"), run.recipe.trainer.epochs, clock, points)
        found.setdefault(Setup(model, optimiser, limit), []).append(curve)
    return found


def mean_of(points: Sequence[Point | None]) -> tuple[float, float] | None:
    """Validation and test error, means over the seeds; None where a seed has no number."""
    known = [point for point in points if point is not None]
    if not known or len(known) < len(points):
        return None
    return sum(point.val for point in known) / len(known), sum(point.test for point in known) / len(known)


def mean_curve(curves: Sequence[Curve]) -> list[tuple[float, float, float]]:
    """(minutes, validation, test) whenever a seed ends an epoch, as long as all have a number."""
    times = sorted({point.minutes for curve in curves for point in curve.points})
    means = ((minutes, mean_of([curve.at(minutes) for curve in curves])) for minutes in times)
    return [(minutes, *mean) for minutes, mean in means if mean is not None]


def first_reached(curves: Sequence[Curve], error: float) -> float | None:
    """Minutes until the mean over the seeds of the best validation error is as low as this."""
    return next((minutes for minutes, val, _ in mean_curve(curves) if val <= error), None)


def figures_of(curves: Curves) -> dict[str, object]:
    """The tables of a dataset as plain values."""
    peers = {setup: mean_curve(runs) for setup, runs in curves.items() if setup.model == PEER}
    within = [val for means in peers.values() for minutes, val, _ in means if minutes <= SLACK * HALF_HOUR]
    target = min(within, default=math.nan)
    reached = {setup: first_reached(runs, target) for setup, runs in curves.items()}
    fastest = min((found for setup, found in reached.items() if setup.model == PEER and found), default=None)
    return {
        f"best validation error of {PEER} within {HALF_HOUR:g} minutes": _rounded(target),
        "minutes to reach it": {setup.name: _rounded(found) for setup, found in reached.items()},
        f"share of the minutes of {PEER}": {
            setup.name: _rounded(found / fastest) for setup, found in reached.items() if found and fastest
        },
        "after epochs": {
            setup.name: _table([(epoch, [run.after(epoch) for run in runs]) for epoch in AT_EPOCHS])
            for setup, runs in curves.items()
        },
        "after minutes": {
            setup.name: _table([(at, [run.at(at) for run in runs]) for at in AT_MINUTES if at <= _shortest(runs)])
            for setup, runs in curves.items()
        },
        "at the end": {
            setup.name: _table([("error", [run.points[-1] for run in runs])])["error"] for setup, runs in curves.items()
        },
        "runs": {setup.name: [_run(run) for run in runs] for setup, runs in curves.items()},
    }


def _shortest(runs: Sequence[Curve]) -> float:
    """Minutes up to which all seeds were trained, about."""
    return SLACK * min(run.points[-1].minutes for run in runs)


def _table(rows: Sequence[tuple[object, Sequence[Point | None]]]) -> dict[str, object]:
    """Of those places that all seeds have come to."""
    means = {str(place): mean_of(points) for place, points in rows}
    return {place: {"val": _rounded(mean[0]), "test": _rounded(mean[1])} for place, mean in means.items() if mean}


def _run(curve: Curve) -> dict[str, object]:
    last = curve.points[-1]
    return {
        "seed": curve.seed,
        "parameters": curve.parameters,
        "epochs": f"{last.epoch} of {curve.epochs}",
        "minutes of the processor": _rounded(last.minutes),
        "minutes by the clock": _rounded(curve.clock_minutes),
        "curve of (minutes, val, test)": [[_rounded(number) for number in point[1:]] for point in curve.points],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def chart_of(dataset: str, curves: Curves) -> Chart:
    """A line for each model: the mean over the seeds of the best validation error so far, against minutes."""
    label = f"validation {metric_label(DATASETS[dataset])}, best so far"
    means = {setup: mean_curve(runs) for setup, runs in curves.items()}
    longest = max((minutes for mean in means.values() for minutes, _, _ in mean), default=1.0)
    y = Axis.around([[val for _, val, _ in mean] for mean in means.values()], label, may_be_log=True)
    chart = Chart(Axis(0.0, longest, "minutes of training, one thread"), y, f"{dataset}: {label} against minutes")
    for index, (setup, mean) in enumerate(means.items()):
        chart.line([point[0] for point in mean], [point[1] for point in mean], curve_style(index), setup.name)
    return chart


def summarise(folder: Path, json_file: Path | None, plots: Path | None) -> None:
    """Print the tables of all datasets; write them, and draw the curves."""
    content: dict[str, object] = {}
    for dataset in DATASETS:
        if not (curves := read_curves(folder / dataset)):
            continue
        figures = figures_of(curves)
        content[dataset] = {"error": metric_label(DATASETS[dataset]), **figures}
        print(f"\n{dataset}, {metric_label(DATASETS[dataset])}: validation, test; means over the seeds")
        for key, value in figures.items():
            if key != "runs":
                _show(key, value)
        if plots is not None:
            path = plots / f"accuracy_{dataset}.svg"
            check_picture_file(path)
            save_picture(compose_chart(chart_of(dataset, curves), 5.6, 3.3), path)
    if not content:
        print(f"there are no runs in {folder}; train some first (--help says how), or name another folder with --out")
        return
    if json_file is not None:
        text = json.dumps(content | machine(torch.__version__), indent=1, ensure_ascii=False)
        json_file.write_text(re.sub(r"\[[^][{}]*\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n")


def _show(key: str, value: object) -> None:
    """A line, or a line for each entry of a table."""
    if not isinstance(value, dict):
        return print(f"  {key}: {value}")
    print(f"  {key}")
    for name, cells in value.items():
        if isinstance(cells, dict):
            pairs = cells if all(isinstance(cell, dict) for cell in cells.values()) else {"": cells}
            cells = "   ".join(
                f"{place and f'{place}: '}{cell['val']}, {cell['test']}" for place, cell in pairs.items()
            )
        print(f"    {name:<32} {'not reached' if cells is None else cells}")
    return None
