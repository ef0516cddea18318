"""The benchmark of accuracy per minute: what it records of a run, and what it makes of the curves."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest

import pointset
from pointset.errors import TrainingStopped
from pointset.training import Watcher

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # scripts, not a package

from accuracy_per_minute import RecordingLoop
from accuracy_summary import CURVE_FILE, Curve, Point, Setup, figures_of, first_reached, mean_curve, read_curve
from pointset.runs.recipe import Recipe
from pointset.runs.records import read_run
from tests.small_training import changed, edge_counts, write_graphs


def train(recipe: Recipe, folder: Path, watcher: Watcher | None = None) -> dict[str, object]:
    with mock.patch("pointset.training.run.TrainingLoop", RecordingLoop):
        return pointset.train(recipe, folder, resume=True, watch="quiet", watcher=watcher)


class StopsAfter(Watcher):
    """Stops the run after some batches."""

    def __init__(self, batches: int):
        self.left = batches

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        self.left -= 1
        if not self.left:
            raise TrainingStopped("enough")


def test_a_run_records_validation_and_test_after_each_epoch(tmp_path: Path) -> None:
    recipe = changed(write_graphs(tmp_path / "data", edge_counts()), trainer__epochs=3)
    result = train(recipe, tmp_path / "run")
    curve, run = read_curve(tmp_path / "run" / CURVE_FILE), read_run(tmp_path / "run")
    assert [epoch.epoch for epoch in curve] == [1, 2, 3]
    assert [epoch.val for epoch in curve] == pytest.approx(run.epochs["val_mae"].tolist())
    assert all(epoch.cpu_seconds > 0 and epoch.seconds > 0 for epoch in curve)
    best = min(curve, key=lambda epoch: epoch.val)
    assert isinstance(result["test"], dict)
    assert best.test == pytest.approx(result["test"]["mae"])


def test_recording_changes_nothing_in_training(tmp_path: Path) -> None:
    recipe = write_graphs(tmp_path / "data", edge_counts())
    plain = pointset.train(recipe, tmp_path / "plain", watch="quiet")
    assert train(recipe, tmp_path / "recorded")["val"] == plain["val"]


def test_a_killed_run_repeats_epochs_and_has_each_once(tmp_path: Path) -> None:
    recipe = changed(write_graphs(tmp_path / "data", edge_counts()), trainer__epochs=3)
    with pytest.raises(TrainingStopped):  # after an epoch and a half, without a checkpoint
        train(recipe, tmp_path / "run", StopsAfter(6))
    assert len(read_curve(tmp_path / "run" / CURVE_FILE)) == 1
    train(recipe, tmp_path / "run")
    assert [epoch.epoch for epoch in read_curve(tmp_path / "run" / CURVE_FILE)] == [1, 2, 3]


def curve(seed: int, *points: tuple[float, float], epochs: int | None = None) -> Curve:
    """Through (minutes, validation error); the test error is ten times as large."""
    rows = [Point(place + 1, minutes, val, 10 * val) for place, (minutes, val) in enumerate(points)]
    return Curve(seed, 100, epochs or len(points), points[-1][0], rows)


def test_the_mean_over_seeds_begins_where_all_have_a_number() -> None:
    means = mean_curve([curve(0, (1, 0.8), (2, 0.4)), curve(1, (1.5, 0.6), (3, 0.2))])
    assert means == [
        (1.5, pytest.approx(0.7), pytest.approx(7)),
        (2, 0.5, 5),
        (3, pytest.approx(0.3), pytest.approx(3)),
    ]


def test_a_run_that_is_not_finished_says_nothing_of_later_minutes() -> None:
    half = curve(0, (1, 0.8), (2, 0.4), epochs=10)
    assert [minutes for minutes, _, _ in mean_curve([half, curve(1, (1, 0.5), (4, 0.2))])] == [1, 2]


def test_minutes_to_reach_the_best_of_gps_within_half_an_hour() -> None:
    gps = [curve(0, (10, 0.6), (30, 0.5), (50, 0.1))]  # what comes after half an hour does not count
    fast = [curve(0, (4, 0.7), (12, 0.45), (20, 0.3))]
    slow = [curve(0, (20, 0.9))]
    assert first_reached(fast, 0.5) == 12
    found = figures_of(
        {Setup("gps", "soap", "50min"): gps, Setup("pst", "soap", "20min"): fast, Setup("psds", "soap", "20min"): slow}
    )
    assert found["best validation error of gps within 30 minutes"] == 0.5
    assert found["minutes to reach it"] == {
        "gps, soap, 50min": 30,
        "pst, soap, 20min": 12,
        "psds, soap, 20min": None,
    }
    assert found["share of the minutes of gps"] == {"gps, soap, 50min": 1, "pst, soap, 20min": 0.4}
