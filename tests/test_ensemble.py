"""Ensembles: several members in one bundle, whose mean is predicted; trained side by side, or as snapshots."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import pytest
import torch
from rich.console import Console

import pointset
from pointset import PointModel, collate, to_points
from pointset.cli.train import print_result
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.dataset import TargetScale
from pointset.errors import PointsetError, SpecError, TrainingStopped
from pointset.prediction import Predictor, load
from pointset.prediction.evaluation import evaluate
from pointset.reports.pages import write_report
from pointset.runs.recipe import Recipe, Schedule, snapshot_epochs
from pointset.runs.records import run_folders
from pointset.runs.result import EpochRow
from pointset.testing.certificate import check_run
from pointset.training import ensemble
from pointset.training.bundle import Bundle, write_bundle
from pointset.training.checkpoint import read_checkpoint
from pointset.training.data import load_data
from pointset.training.loop import _moving_average
from pointset.training.optim import learning_rate_factor
from pointset.training.outputs import as_predictions, mean_outputs, outputs_for
from pointset.training.progress import MemberDisplay, Plan, Watcher
from pointset.training.run import repeats_of, train
from tests.small_models import TERMS, card_of, model_of
from tests.small_training import changed, edge_counts, random_graphs, write_graphs
from tests.tolerances import near

GRAPHS = [nx.path_graph(4), nx.cycle_graph(5), nx.star_graph(3)]
SCALE = TargetScale(torch.tensor([3.0, -1.0], dtype=torch.float64), torch.tensor([2.0, 0.5], dtype=torch.float64))


def members_of(card: Card, count: int = 3) -> tuple[PointModel, ...]:
    return tuple(model_of(card, seed=seed) for seed in range(count))


# --- predicting


@pytest.mark.parametrize("task", list(Task))
@pytest.mark.parametrize("level", [Level.GRAPH, Level.NODE])
def test_an_ensemble_predicts_the_mean_of_its_members(task: Task, level: Level) -> None:
    names = ("a",) if task in (Task.MULTI_CLASS, Task.BINARY) else ("a", "b")
    card = card_of(task, level=level, names=names)
    scale = SCALE if task is Task.REGRESSION else None
    models = members_of(card)
    together = Predictor(Bundle(models, card, scale=scale)).predict(GRAPHS)
    alone = [Predictor(Bundle((model,), card, scale=scale)).predict(GRAPHS) for model in models]
    if level is Level.NODE:
        together, alone = torch.cat(together), [torch.cat(one) for one in alone]
    assert not torch.allclose(alone[0], alone[1])
    assert near(together, (alone[0] + alone[1] + alone[2]) / 3, terms=TERMS, dtype=torch.float64)


def test_member_outputs_are_those_of_each_member() -> None:
    card = card_of(names=("a", "b"))
    models = members_of(card)
    batch = collate([to_points(graph) for graph in GRAPHS])
    found = Predictor(Bundle(models, card, scale=SCALE)).member_outputs(batch)
    assert found.shape == (3, 3, 2) and found.dtype == torch.float64
    for member, model in zip(found, models, strict=True):
        assert torch.equal(member, model(batch).double() * SCALE.std + SCALE.mean)
    logits = Predictor(Bundle(members_of(card_of(Task.BINARY)), card_of(Task.BINARY))).member_outputs(batch)
    assert logits.shape == (3, 3, 1) and torch.equal(logits[2], model_of(card_of(Task.BINARY), seed=2)(batch).double())


def test_certain_members_give_finite_numbers() -> None:
    sure = torch.tensor([[[800.0, -800.0]], [[900.0, 0.0]]], dtype=torch.float64)  # (2, 1, 2)
    labels = mean_outputs(sure, Task.MULTI_LABEL)
    assert labels.isfinite().all()
    assert as_predictions(labels, Task.MULTI_LABEL)[0].tolist() == pytest.approx([1.0, 0.25], abs=1e-12)
    classes = mean_outputs(sure, Task.MULTI_CLASS)
    assert classes.isfinite().all() and as_predictions(classes, Task.MULTI_CLASS)[0].tolist() == [1.0, 0.0]


def test_representations_of_the_members_stand_side_by_side() -> None:
    card = card_of()
    models = members_of(card, 2)
    together = Predictor(Bundle(models, card))
    cases: list[tuple[Literal["graph", "node"], int]] = [("graph", 3), ("node", sum(map(len, GRAPHS)))]
    for level, rows in cases:
        found = together.embed(GRAPHS, level=level)
        alone = [Predictor(Bundle((model,), card)).embed(GRAPHS, level=level) for model in models]
        if level == "node":
            found, alone = torch.cat(found), [torch.cat(one) for one in alone]
        assert found.shape == (rows, 12) and torch.equal(found, torch.cat(alone, 1))


def test_a_loaded_model_says_how_many_parameters_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = card_of()
    models = members_of(card, 2)
    true = sum(tensor.numel() for tensor in models[0].state_dict().values())
    assert true > 100
    for members, said in (
        (models[:1], f"pst, 2 × 6, {true:,} parameters"),
        (models, f"2 members of pst, 2 × 6, {2 * true:,}"),
    ):
        write_bundle(tmp_path / "model", members, card)
        loaded = load(tmp_path / "model")
        assert said in repr(loaded) and loaded.model.num_parameters == true
        loaded.summary()
        shown = capsys.readouterr().out
        assert re.search(rf"total +{true:,}$", shown, re.MULTILINE)
        assert (f"2 members, {2 * true:,} parameters in all" in shown) == (len(members) == 2)
    assert pointset.load(tmp_path / "model").models[1].num_parameters == true


# --- snapshots: one training, an ensemble


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return write_graphs(tmp_path / "data", edge_counts())


class StopAfter(Watcher):
    """Asks the run to stop after some batches, as Ctrl-C does."""

    def __init__(self, batches: int):
        self.left = batches

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


def run(settings: Recipe, folder: Path, **options: Any) -> dict[str, Any]:
    return train(settings, folder, device="cpu", watch="quiet", **options)


def test_the_learning_rate_falls_once_for_each_snapshot() -> None:
    schedule = Schedule(shape="cosine", warmup=1, start=0.0)
    factor = learning_rate_factor(schedule, 8, 10, [4, 8])
    assert [factor(0), factor(5), factor(10), factor(25), factor(40), factor(60)] == pytest.approx(
        [0, 0.5, 1, 0.5, 1, 0.5]
    )
    assert 0 < factor(39) < 0.01 and 0 < factor(79) < 0.01


def test_snapshots_end_cycles_of_like_length(recipe: Recipe) -> None:
    for epochs, count, ends in ((60, 5, [12, 24, 36, 48, 60]), (7, 3, [2, 4, 7]), (3, 3, [1, 2, 3])):
        assert snapshot_epochs(changed(recipe, trainer__epochs=epochs, trainer__snapshots=count)) == ends
    assert snapshot_epochs(recipe) == []


def test_snapshots_are_the_members_of_the_bundle(recipe: Recipe, tmp_path: Path) -> None:
    settings = changed(recipe, trainer__epochs=4, trainer__snapshots=2, trainer__ema=0.5)
    result = run(settings, tmp_path / "run")
    assert [member["name"] for member in result["members"]] == ["epoch 2", "epoch 4"]
    assert result["best_epoch"] is None and "mean of 2 members" in result["test_scored"]
    model = load(tmp_path / "run")
    assert len(model.models) == 2 and result["parameters"] == model.num_parameters
    kept = read_checkpoint(tmp_path / "run" / "checkpoints" / "last.safetensors").groups
    for epoch, member in zip((2, 4), model.models, strict=True):
        assert all(torch.equal(kept[f"snapshot-{epoch}"][key], tensor) for key, tensor in member.state_dict().items())
    last = {key.removeprefix("module."): tensor for key, tensor in kept["average"].items()}  # the evaluated weights
    assert all(torch.equal(last[key], tensor) for key, tensor in model.models[1].state_dict().items())
    assert evaluate(tmp_path / "run")["scores"] == pytest.approx(result["test"])
    data = load_data(settings)
    graphs = data.part("test")
    outputs = [data.restored(outputs_for(member, data, graphs, dtype=torch.float32)) for member in model.models]
    truth, members = data.targets(graphs), result["members"]
    assert result["test"]["mae"] == pytest.approx(float(((outputs[0] + outputs[1]) / 2 - truth).abs().mean()))
    assert [one["test"]["mae"] for one in members] == pytest.approx(
        [float((one - truth).abs().mean()) for one in outputs]
    )
    assert result["val"]["mae"] == pytest.approx(result["parts"]["val"]["mae"]["value"])


@pytest.mark.parametrize("stop_after", [3, 8, 11])
def test_a_run_with_snapshots_resumes_bit_for_bit(recipe: Recipe, tmp_path: Path, stop_after: int) -> None:
    settings = changed(recipe, trainer__epochs=4, trainer__snapshots=2, trainer__ema=0.9)
    whole = run(settings, tmp_path / "whole")
    with pytest.raises(TrainingStopped):
        run(settings, tmp_path / "broken", watcher=StopAfter(stop_after))
    resumed = run(settings, tmp_path / "broken", resume=True)
    assert resumed["test"] == whole["test"]
    for file in ("model.safetensors", "member-2.safetensors"):
        assert (tmp_path / "broken" / "bundle" / file).read_bytes() == (
            tmp_path / "whole" / "bundle" / file
        ).read_bytes()


def test_every_snapshot_of_every_member_counts(recipe: Recipe, tmp_path: Path) -> None:
    result = run(changed(recipe, trainer__snapshots=2), tmp_path / "run", ensemble=2)
    names = ["seed 0, snapshot 1", "seed 0, snapshot 2", "seed 1, snapshot 1", "seed 1, snapshot 2"]
    assert [member["name"] for member in result["members"]] == names
    assert len(load(tmp_path / "run").models) == 4


def test_snapshots_that_do_not_fit_are_refused(recipe: Recipe, tmp_path: Path) -> None:
    for changes, message in (
        ({"trainer__snapshots": 3}, "take fewer snapshots, or more trainer.epochs"),
        ({"trainer__snapshots": 2, "schedule__warmup": 1}, "the first of them longer than the warm-up"),
        ({"trainer__snapshots": 2, "trainer__patience": 5}, "Set trainer.patience=null"),
    ):
        with pytest.raises(SpecError, match=message):
            run(changed(recipe, **changes), tmp_path / "run")
    with pytest.raises(SpecError, match=r"trainer.snapshots=1; expected a whole number, at least 2"):
        changed(recipe, trainer__snapshots=1)


def test_the_moving_average_forgets_the_first_weights_soon() -> None:
    average, weights = [torch.tensor([1.0])], [torch.tensor([0.0])]
    for steps, expected in ((1, 2 / 11), (2, 2 / 11 * 3 / 12), (10_000, 2 / 11 * 3 / 12 * 0.99)):
        _moving_average(0.99, average, weights, torch.tensor(steps))
        assert float(average[0]) == pytest.approx(expected)


# --- members with other seeds


def member_files(folder: Path) -> list[bytes]:
    """The weights in the bundle of an ensemble of two."""
    return [(folder / "bundle" / file).read_bytes() for file in ("model.safetensors", "member-2.safetensors")]


def test_an_ensemble_is_a_run_like_any_other(
    recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    result = run(changed(recipe, seed=3), folder, ensemble=2, watcher=Watcher())
    assert [member["name"] for member in result["members"]] == ["seed 3", "seed 4"]
    members = [load(folder / "members" / f"member-{number}") for number in (1, 2)]
    for number in (1, 2):  # a member is the run with its seed, which never sees the test part
        alone = json.loads((folder / "members" / f"member-{number}" / "result.json").read_text())
        assert alone["test"] == {} and alone["split_sizes"]["test"] == 0 and alone["seed"] == 2 + number
        assert result["members"][number - 1]["val"]["mae"] == pytest.approx(alone["val"]["mae"])
    run(changed(recipe, seed=4), tmp_path / "alone")
    assert member_files(folder)[1] == (tmp_path / "alone" / "bundle" / "model.safetensors").read_bytes()
    model, graphs = load(folder), random_graphs()[:5]
    assert len(model.models) == 2
    by_hand = (members[0].predict(graphs) + members[1].predict(graphs)) / 2
    assert near(model.predict(graphs), by_hand, terms=TERMS, dtype=torch.float64)
    assert not torch.allclose(members[0].predict(graphs), members[1].predict(graphs))
    rows = [line.split(",") for line in (folder / "predictions.csv").read_text().splitlines()[1:]]
    errors = [abs(float(true) - float(predicted)) for _, true, predicted, *_ in rows]
    assert result["test"]["mae"] == pytest.approx(sum(errors) / len(errors), rel=1e-6)
    assert evaluate(folder)["scores"] == pytest.approx(result["test"])
    assert run_folders(folder) == [folder]
    assert "2 members" in write_report(folder).read_text()
    print_result(result, folder)
    said = capsys.readouterr().out
    assert "mean of 2 members" in said and "seed 4 alone: MAE val" in said
    assert run(changed(recipe, seed=3, ensemble=2), folder, resume=True) == result
    with pytest.raises(SpecError, match="ensemble: 2 → 3"):
        run(changed(recipe, seed=3), folder, resume=True, ensemble=3)


def test_a_symmetry_that_any_member_violates_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second member alone depends on the basis of its points."""
    card = card_of()
    write_bundle(tmp_path / "model", members_of(card, 2), card)
    (tmp_path / "graphs.g6").write_bytes(b"".join(nx.to_graph6_bytes(graph, header=False) for graph in GRAPHS))
    assert check_run(tmp_path / "model", str(tmp_path / "graphs.g6"), repeats=1, progress=False)["invariant"]
    loaded = load(tmp_path / "model")
    broken = loaded.models[1]
    broken.encode = lambda group, generator=None: _depends_on_basis(group)  # type: ignore[method-assign]
    monkeypatch.setattr("pointset.testing.certificate.load", lambda *_, **__: loaded)
    monkeypatch.setattr("pointset.encoders.model._ENCODE", None)
    assert not check_run(tmp_path / "model", str(tmp_path / "graphs.g6"), repeats=1, progress=False)["invariant"]


def _depends_on_basis(group: Any) -> torch.Tensor:
    first: torch.Tensor = group.eigenvectors[..., 0] ** 3  # (B, n): another in a turned eigenspace
    return first.expand(6, *first.shape)


def test_stopped_in_the_second_member_it_resumes_bit_for_bit(recipe: Recipe, tmp_path: Path) -> None:
    settings = changed(recipe, ensemble=2)
    whole = run(settings, tmp_path / "whole", watcher=Watcher())
    with pytest.raises(TrainingStopped, match=r"member-2: Stopped after 0 of 2 epochs and 3 .* 1 of 2 members"):
        run(settings, tmp_path / "broken", watcher=StopAfter(10))
    assert not (tmp_path / "broken" / "result.json").exists()
    finished = (tmp_path / "broken" / "members" / "member-1" / "result.json").stat().st_mtime_ns
    resumed = run(settings, tmp_path / "broken", resume=True, watcher=Watcher())
    assert resumed["test"] == whole["test"] and member_files(tmp_path / "broken") == member_files(tmp_path / "whole")
    assert (tmp_path / "broken" / "members" / "member-1" / "result.json").stat().st_mtime_ns == finished


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_members_side_by_side_end_at_the_same_weights(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    settings = changed(recipe, ensemble=2, trainer__epochs=5, trainer__checkpoint_minutes=0.0, trainer__ema=0.9)
    monkeypatch.setattr("pointset.training.run.members_at_once", lambda *_, **__: 2)
    folder = tmp_path / "broken"

    def strike() -> None:
        """As soon as both members train: kill the second, or ask this process, which watches them, to stop."""
        metrics = [folder / "members" / f"member-{at}" / "metrics.csv" for at in (1, 2)]
        while not all(file.exists() for file in metrics):
            time.sleep(0.01)
        member = int((folder / "members" / "member-2" / ".lock").read_text().split()[1])
        os.kill(member if number == signal.SIGKILL else os.getpid(), number)

    striker = threading.Thread(target=strike, daemon=True)
    striker.start()
    message = r"member-2: .* \(exit code -9\)" if number == signal.SIGKILL else "Stopped; 0 of 2 members"
    with pytest.raises(PointsetError, match=message) as caught:
        run(settings, folder)
    assert isinstance(caught.value, TrainingStopped) == (number == signal.SIGTERM)
    assert not any((folder / "members" / f"member-{at}" / "result.json").exists() for at in (1, 2))
    run(settings, folder, resume=True, watcher=Watcher())  # in this process
    run(settings, tmp_path / "whole", watcher=Watcher())
    assert member_files(folder) == member_files(tmp_path / "whole")


def test_members_fill_the_cores_that_others_leave(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    one_thread, two_threads = recipe, changed(recipe, trainer__threads=2)
    monkeypatch.setattr(ensemble, "cores", lambda: 8)
    for used, settings, members, expected in (
        (0.2, one_thread, 5, 5),
        (5.1, one_thread, 5, 3),
        (9.0, one_thread, 5, 1),
        (0.0, two_threads, 5, 4),
        (None, one_thread, 3, 3),
    ):
        monkeypatch.setattr(ensemble, "cores_used_by_others", lambda _, used=used: used)
        assert ensemble.members_at_once(settings, members, on_cpu=True) == expected
    assert ensemble.members_at_once(one_thread, 5, on_cpu=False) == 1


def test_ensembles_that_cannot_be_are_refused(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="ensemble=1; expected a whole number, at least 2"):
        run(recipe, tmp_path / "run", ensemble=1)
    with pytest.raises(SpecError, match="an ensemble on several devices"):
        run(recipe, tmp_path / "run", ensemble=2, devices=2)
    seeds = [repeat.recipe.seed for repeat in repeats_of(changed(recipe, ensemble=5), 3, None)]
    assert seeds == [0, 5, 10]  # no member twice


# --- watching them


PLAN = Plan("small", 2, 0, 4, 32, "mae", False, 100)
ROW = EpochRow(1, 0.1, 0.5, {"mae": 0.25}, True, 1, 0.25, 1.0, 32.0)


def test_a_log_names_the_members(capsys: pytest.CaptureFixture[str]) -> None:
    with MemberDisplay("plain", ["member-1", "member-2"]) as display:
        for name in ("member-1", "member-2"):
            watcher = display.watcher(name)
            watcher.begin(PLAN)
            watcher.say("a note")
            watcher.epoch(ROW)
        display.finished("member-2")
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("training small: 2 epochs") and said[1] == "a note"
    assert [line.split("  ")[0] for line in said[2:]] == ["member-1", "member-2", "member-2"]
    assert "val MAE 0.2500" in said[2] and said[4] == "member-2  finished"


def test_a_terminal_has_a_line_for_each_member() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with MemberDisplay("bar", ["member-1", "member-2", "member-3"], console) as display:
        display.watcher("member-1").begin(PLAN)
        display.watcher("member-1").epoch(ROW)
        display.watcher("member-1").batch(2, 1, 8, 0.5)
        display.finished("member-3")
    shown = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", console.file.getvalue()).splitlines()  # type: ignore[attr-defined]
    last = {line.split()[0]: line for line in shown if "member-" in line}
    assert "2/2" in last["member-1"] and "val 0.2500" in last["member-1"]
    assert last["member-2"].endswith("waiting") and last["member-3"].endswith("finished")
