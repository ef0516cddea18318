"""Training: runs end to end, are deterministic, can be resumed after any end, and refuse bad settings at once."""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import pointset
from pointset.encoders.model import PointModel
from pointset.errors import (
    FileFormatError,
    MemoryForecastError,
    MissingDataError,
    PointsetError,
    SpecError,
    TrainingStopped,
)
from pointset.files import read_json, write_json
from pointset.native import build
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.training.progress import watcher_for
from pointset.training.run import repeats_of, summarised, train
from tests.small_training import GRAPHS, changed, edge_counts, random_graphs, write_graphs

FILES = (
    "recipe.yaml",
    "environment.json",
    "split.json",
    "metrics.csv",
    "result.json",
    "predictions.csv",
    "examples.json",
)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return write_graphs(tmp_path / "data", edge_counts())


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def weights(run: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"{which}.safetensors")


def assert_equal_weights(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert not different


def run(recipe: Recipe, folder: Path, **options: Any) -> dict[str, Any]:
    return train(recipe, folder, **({"device": "cpu", "watch": "quiet"} | options))


class TestOneRun:
    def test_everything_is_in_the_folder(self, recipe: Recipe, tmp_path: Path) -> None:
        result = run(recipe, tmp_path / "run")
        folder = tmp_path / "run"
        for name in FILES:
            assert (folder / name).stat().st_size > 0, name
        assert json.loads((folder / "result.json").read_text()) == result
        assert result["test"].keys() == {"mae", "rmse", "r2", "normalised_mae"}
        assert result["epochs"] == 2 and result["best_epoch"] in (1, 2) and result["seconds"] > 0
        assert "once" in result["test_scored"]
        assert read_recipe(folder / "recipe.yaml") == recipe
        environment = json.loads((folder / "environment.json").read_text())
        assert environment["pointset"] == pointset.__version__ and environment["packages"]["torch"]
        assert environment["data"]["sha256"] and environment["kernels"].startswith(("native kernels (", "torch ("))

    def test_metrics_have_a_row_for_each_epoch(self, recipe: Recipe, tmp_path: Path) -> None:
        run(changed(recipe, trainer__epochs=3), tmp_path / "run")
        rows = table(tmp_path / "run" / "metrics.csv")
        assert [row["epoch"] for row in rows] == ["1", "2", "3"]
        assert {"lr", "train_loss", "val_mae", "seconds", "graphs_per_second"} <= rows[0].keys()

    def test_predictions_are_those_that_were_scored(self, recipe: Recipe, tmp_path: Path) -> None:
        result = run(recipe, tmp_path / "run")
        rows = table(tmp_path / "run" / "predictions.csv")
        errors = [abs(float(row["edges"]) - float(row["predicted_edges"])) for row in rows]
        assert len(rows) == result["split_sizes"]["test"]
        assert np.mean(errors) == pytest.approx(result["test"]["mae"], rel=1e-6)

    def test_the_bundle_predicts_the_same(self, recipe: Recipe, tmp_path: Path) -> None:
        run(recipe, tmp_path / "run")
        rows = table(tmp_path / "run" / "predictions.csv")
        graphs = random_graphs()
        predicted = pointset.load(tmp_path / "run").predict([graphs[int(row["graph"])] for row in rows])
        assert predicted[:, 0].tolist() == pytest.approx([float(row["predicted_edges"]) for row in rows], rel=1e-4)

    def test_the_best_epoch_is_that_of_the_smallest_validation_error(self, recipe: Recipe, tmp_path: Path) -> None:
        result = run(changed(recipe, trainer__epochs=6, optimizer__lr=0.05), tmp_path / "run")
        rows = table(tmp_path / "run" / "metrics.csv")
        errors = [float(row["val_mae"]) for row in rows]
        assert result["best_epoch"] == 1 + int(np.argmin(errors))
        assert result["val"]["mae"] == pytest.approx(min(errors), rel=1e-6)
        best = weights(tmp_path / "run", "best")
        bundle = load_file(tmp_path / "run" / "bundle" / "model.safetensors")
        assert all(torch.equal(best[f"model/{name}"], tensor) for name, tensor in bundle.items())

    def test_examples_for_the_report(self, recipe: Recipe, tmp_path: Path) -> None:
        run(recipe, tmp_path / "run")
        examples = json.loads((tmp_path / "run" / "examples.json").read_text())
        count = len(examples["functions"]["eigenvalues"])
        assert examples["functions"]["eigenvalues"] == sorted(examples["functions"]["eigenvalues"])
        assert np.array(examples["functions"]["values"]).shape == (count, 6)
        nodes = examples["attention"]["graph"]["num_nodes"]
        assert np.array(examples["attention"]["layers"]).shape == (2, nodes, nodes)
        errors = [one["error"] for one in examples["worst"]]
        assert errors == sorted(errors, reverse=True) and len(errors) == 4

    def test_validation_now_and_then(self, recipe: Recipe, tmp_path: Path) -> None:
        result = run(changed(recipe, trainer__epochs=5, trainer__validate_every=2), tmp_path / "run")
        rows = table(tmp_path / "run" / "metrics.csv")
        assert [bool(row["val_mae"]) for row in rows] == [False, True, False, True, True]
        assert result["best_epoch"] in (2, 4, 5)

    def test_balanced_targets_are_learned(self, tmp_path: Path) -> None:
        edges = edge_counts()["edges"]
        recipe = write_graphs(tmp_path / "data", {"edges": edges, "twice": [2 * count for count in edges]})
        settings = {"dataset__targets": ["edges", "twice"], "balance_targets": True, "trainer__epochs": 8}
        result = run(changed(recipe, **settings), tmp_path / "run")
        assert set(result["per_target"]) == {"edges", "twice"} and result["test"]["normalised_mae"] < 1.0

    def test_patience_ends_a_run(self, recipe: Recipe, tmp_path: Path) -> None:
        result = run(changed(recipe, trainer__epochs=50, trainer__patience=2, optimizer__lr=1e-12), tmp_path / "run")
        assert result["stopped_early"] and result["epochs"] - result["best_epoch"] == 2

    def test_the_average_of_weights_is_what_is_kept(self, recipe: Recipe, tmp_path: Path) -> None:
        run(changed(recipe, trainer__ema=0.9, trainer__epochs=1), tmp_path / "run")
        state = weights(tmp_path / "run")
        name = "readout.linear.weight"
        assert torch.equal(state[f"best/{name}"], state[f"average/module.{name}"])
        assert not torch.equal(state[f"model/{name}"], state[f"average/module.{name}"])

    @pytest.mark.parametrize("shape", ["anneal", "restarts", "cosine", "constant"])
    def test_schedules_run(self, recipe: Recipe, tmp_path: Path, shape: str) -> None:
        cosine = 0.0 if shape in ("cosine", "constant") else 1.0
        settings = changed(recipe, schedule__shape=shape, schedule__warmup=0.5, schedule__cosine=cosine)
        run(settings, tmp_path / "run")
        rows = table(tmp_path / "run" / "metrics.csv")
        rates = [float(row["lr"]) for row in rows]
        assert 0 < rates[0] <= 0.005
        assert rates[-1] < rates[0] if shape in ("anneal", "cosine") else rates[-1] <= 0.005

    @pytest.mark.parametrize("precision", ["32", "64"])
    def test_precisions(self, recipe: Recipe, tmp_path: Path, precision: str) -> None:
        run(changed(recipe, trainer__precision=precision), tmp_path / "run")
        kind = weights(tmp_path / "run")["model/readout.linear.weight"].dtype
        assert kind is {"32": torch.float32, "64": torch.float64}[precision]
        paths = {"32": build.status().text, "64": "torch (precision 64)"}
        assert read_json(tmp_path / "run" / "environment.json")["kernels"] == paths[precision]

    def test_a_memory_budget_and_checkpointing(self, recipe: Recipe, tmp_path: Path) -> None:
        settings = changed(recipe, trainer__memory_budget="1MB", trainer__checkpointing=True)
        assert run(settings, tmp_path / "run")["epochs"] == 2

    def test_a_split_without_validation_and_test(self, recipe: Recipe, tmp_path: Path) -> None:
        split = tmp_path / "split.json"
        split.write_text(json.dumps({"train": list(range(GRAPHS)), "val": [], "test": []}))
        result = run(changed(recipe, dataset__options=recipe.dataset.options | {"split": str(split)}), tmp_path / "run")
        assert result["test"] == {} and result["best_epoch"] == 2 and "no test part" in result["test_scored"]
        assert not (tmp_path / "run" / "predictions.csv").exists()


class TestDeterminism:
    def test_two_runs_are_equal_bit_for_bit(self, recipe: Recipe, tmp_path: Path) -> None:
        settings = changed(recipe, model__noise=0.01, trainer__ema=0.9)
        torch.manual_seed(1)
        run(settings, tmp_path / "one")
        torch.manual_seed(2)
        run(settings, tmp_path / "two")
        assert_equal_weights(tmp_path / "one", tmp_path / "two")
        first, second = ((tmp_path / name / "predictions.csv").read_bytes() for name in ("one", "two"))
        assert first == second

    def test_another_seed_is_another_run(self, recipe: Recipe, tmp_path: Path) -> None:
        run(recipe, tmp_path / "one")
        run(changed(recipe, seed=1), tmp_path / "two")
        one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
        assert not torch.equal(one["model/readout.linear.weight"], two["model/readout.linear.weight"])

    def test_the_global_generator_is_left_alone(self, recipe: Recipe, tmp_path: Path) -> None:
        before = torch.get_rng_state()
        run(changed(recipe, model__noise=0.01), tmp_path / "run")
        assert torch.equal(before, torch.get_rng_state())

    def test_workers_of_the_loader_change_nothing(self, recipe: Recipe, tmp_path: Path) -> None:
        run(recipe, tmp_path / "one")
        run(changed(recipe, trainer__workers=1), tmp_path / "two")
        assert_equal_weights(tmp_path / "one", tmp_path / "two")


class Stopper:
    """A watcher that asks the run to stop after some batches, as Ctrl-C does."""

    def __init__(self, after: int, number: int = signal.SIGINT):
        self.left, self.number = after, number
        self.quiet = watcher_for("quiet", log_dir=None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.quiet, name)

    def batch(self, *_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("after", [1, 4, 6])
def test_an_interrupted_run_is_saved_and_resumed(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, number: int
) -> None:
    settings = changed(recipe, model__noise=0.01, trainer__ema=0.9)  # 4 batches in each of 2 epochs
    run(settings, tmp_path / "unbroken")
    with monkeypatch.context() as patch:
        patch.setattr("pointset.training.run.watcher_for", lambda *_, **__: Stopper(after, number))
        with pytest.raises(TrainingStopped, match=r"Stopped after \d of 2 epochs"):
            run(settings, tmp_path / "broken")
    assert not (tmp_path / "broken" / "result.json").exists()
    run(settings, tmp_path / "broken", resume=True)
    assert_equal_weights(tmp_path / "unbroken", tmp_path / "broken")


def _train_in_child(plain: dict[str, Any], folder: str) -> None:
    os.setpgrp()
    torch.set_num_threads(1)
    train(Recipe.from_dict(plain), folder, resume=True, device="cpu", watch="quiet")


def test_killed_at_ten_random_moments_it_ends_at_the_same_weights(recipe: Recipe, tmp_path: Path) -> None:
    """Kill −9, resume, again and again; a checkpoint is written after every step, so that some are hit in writing."""
    settings = changed(recipe, trainer__epochs=30, trainer__checkpoint_minutes=0.0, model__noise=0.01, trainer__ema=0.9)
    started = time.monotonic()
    run(settings, tmp_path / "unbroken")
    duration = time.monotonic() - started
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pointset.training.run", "lightning_fabric"])
    moments = np.random.default_rng(0).uniform(0.0, 0.5 + duration / 8, 10)  # some before the first step
    kills = 0
    broken = tmp_path / "broken"
    for moment in moments:
        child = context.Process(target=_train_in_child, args=(settings.as_dict(), str(broken)))
        child.start()
        child.join(timeout=moment)
        if child.is_alive():
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            kills += 1
        child.join()
    assert kills == 10 and not (broken / "result.json").exists()
    assert (broken / "checkpoints" / "last.safetensors").exists()  # it had come some way
    run(settings, broken, resume=True)
    assert_equal_weights(tmp_path / "unbroken", broken)
    for name in ("predictions.csv", "split.json", "recipe.yaml"):
        assert (tmp_path / "unbroken" / name).read_bytes() == (broken / name).read_bytes()
    left = [path for path in broken.rglob(".*") if path.name != ".lock"]
    assert len(left) <= kills  # a temporary file that was being written is the only thing a kill leaves behind


class TestFolders:
    def test_two_runs_never_share_a_folder(self, recipe: Recipe, tmp_path: Path) -> None:
        run(recipe, tmp_path / "run")
        with pytest.raises(SpecError, match=r"already holds a finished run.*--run-dir"):
            run(recipe, tmp_path / "run")

    def test_a_finished_run_is_not_trained_again(self, recipe: Recipe, tmp_path: Path) -> None:
        first = run(recipe, tmp_path / "run")
        before = (tmp_path / "run" / "checkpoints" / "last.safetensors").stat().st_mtime_ns
        assert run(recipe, tmp_path / "run", resume=True) == first
        assert (tmp_path / "run" / "checkpoints" / "last.safetensors").stat().st_mtime_ns == before

    def test_a_folder_with_other_things_is_refused(self, recipe: Recipe, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "thesis.tex").write_text("")
        with pytest.raises(SpecError, match=r"thesis\.tex"):
            run(recipe, tmp_path / "run")
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]

    def test_a_file_in_its_place(self, recipe: Recipe, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("")
        with pytest.raises(SpecError, match="is a file"):
            run(recipe, tmp_path / "run")

    def test_a_second_process_is_refused(self, recipe: Recipe, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path / "run")
        with folder.claim(resume=False), pytest.raises(PointsetError, match=r"another process \(process \d+\)"):
            run(recipe, tmp_path / "run")

    def test_who_comes_second_to_a_new_folder_does_not_remove_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = RunFolder(tmp_path / "run")
        with folder.claim(resume=False):
            monkeypatch.setattr(Path, "exists", lambda path: False)  # as it was when the second looked
            with pytest.raises(PointsetError, match="another process"), folder.claim(resume=False):
                pass
            monkeypatch.undo()
            assert folder.last_checkpoint.parent.is_dir()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_read_only_folder(self, recipe: Recipe, tmp_path: Path) -> None:
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(PermissionError):
            run(recipe, tmp_path / "closed" / "run")

    def test_a_failed_start_leaves_nothing(self, recipe: Recipe, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError):
            run(changed(recipe, dataset__file=str(tmp_path / "nowhere.g6")), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_other_settings_cannot_be_resumed(self, recipe: Recipe, tmp_path: Path) -> None:
        run(recipe, tmp_path / "run")
        with pytest.raises(SpecError, match=r"model.dim: 8 → 16"):
            run(changed(recipe, model__dim=16), tmp_path / "run", resume=True)

    def test_a_damaged_checkpoint_is_refused(self, recipe: Recipe, tmp_path: Path) -> None:
        run(recipe, tmp_path / "run")
        (tmp_path / "run" / "result.json").unlink()
        checkpoint = tmp_path / "run" / "checkpoints" / "last.safetensors"
        content = bytearray(checkpoint.read_bytes())
        content[-3] ^= 1
        checkpoint.write_bytes(content)
        with pytest.raises(FileFormatError, match="checksum"):
            run(recipe, tmp_path / "run", resume=True)

    def test_a_full_disk_is_seen_before_work_starts(
        self, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from collections import namedtuple

        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr("pointset.runs.folder.shutil.disk_usage", lambda _: usage(10, 9, 1))
        with pytest.raises(PointsetError, match="Free some"):
            run(recipe, tmp_path / "run")
        assert not (tmp_path / "run").exists()


class TestBadSettings:
    """One clear message before any long work starts."""

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"metric": "roc_auc"}, "roc_auc"),
            ({"loss": "cross_entropy"}, "cross_entropy"),
            ({"schedule__warmup": 5.0}, "warmup"),
            ({"dataset__targets": ["edgse"]}, "did you mean 'edges'"),
            ({"dataset__weighted_edges": 0}, "edge features"),
            ({"dataset__options": {"colour": 1}}, "colour"),
            ({"model__preset": "pst-star"}, "pos"),
            (
                {"dataset__options": {"targets": "TARGETS", "task": "multi-class"}, "balance_targets": True},
                "regression",
            ),
        ],
        ids=["metric", "loss", "schedule", "target", "weights", "option", "positions", "balance"],
    )
    def test_refused(self, recipe: Recipe, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
        options = changes.get("dataset__options", {})
        if "targets" in options:
            options["targets"] = recipe.dataset.options["targets"]
        with pytest.raises(PointsetError, match=message):
            run(changed(recipe, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_devices_that_are_not_there(self, recipe: Recipe, tmp_path: Path) -> None:
        if torch.cuda.is_available():
            pytest.skip("this machine has a CUDA device")
        with pytest.raises(SpecError, match="--device cpu"):
            run(recipe, tmp_path / "run", device="cuda")

    def test_the_model_is_built_once(self, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        devices, build = [], PointModel.__init__

        def counting(self: PointModel, *parts: Any, **options: Any) -> None:
            build(self, *parts, **options)
            devices.append(next(self.parameters()).device.type)

        monkeypatch.setattr(PointModel, "__init__", counting)
        train(recipe, tmp_path / "run", device="cpu", watch="quiet")
        assert devices == ["meta", "cpu"]  # one without weights, to count them before there is memory for them

    def test_memory_is_forecast(self, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pointset.machine.NEVER_A_PROBLEM", 0)
        monkeypatch.setattr("pointset.machine._available_bytes", lambda: 100_000)  # enough for each graph alone
        with pytest.raises(MemoryForecastError, match=r"trainer\.batch_size"):
            run(recipe, tmp_path / "run")

    def test_scores_of_a_model_that_diverged_are_null(self, tmp_path: Path) -> None:
        write_json(tmp_path / "result.json", {"test": {"mae": math.inf, "r2": -math.inf, "rmse": math.nan}, "n": [1.5]})
        undefined = {"mae": None, "r2": None, "rmse": None}
        assert read_json(tmp_path / "result.json") == {"test": undefined, "n": [1.5]}

    def test_a_loss_that_explodes_says_so(self, recipe: Recipe, tmp_path: Path) -> None:
        settings = changed(recipe, optimizer__lr=1e30, optimizer__clip=None, trainer__epochs=5)
        with pytest.raises(PointsetError, match=r"the loss became (nan|inf).*optimizer\.lr"):
            run(settings, tmp_path / "run")


class TestManyRuns:
    def test_seeds_and_folds_have_folders_of_their_own(self, recipe: Recipe) -> None:
        assert [part.name for part in repeats_of(recipe, 2, None)] == ["seed-0", "seed-1"]
        parts = repeats_of(changed(recipe, seed=5), 2, 3)
        assert [part.name for part in parts[:2]] == ["fold-0-seed-5", "fold-0-seed-6"]
        assert parts[-1].recipe.dataset.fold == 2 and parts[-1].recipe.dataset.folds == 3

    def test_folds_test_each_graph_once(self, recipe: Recipe, tmp_path: Path) -> None:
        tested: list[int] = []
        for part in repeats_of(changed(recipe, trainer__epochs=1), None, 3):
            run(part.recipe, tmp_path / part.name)
            tested += json.loads((tmp_path / part.name / "split.json").read_text())["test"]
        assert sorted(tested) == list(range(GRAPHS))

    def test_mean_and_deviation(self, recipe: Recipe, tmp_path: Path) -> None:
        parts = repeats_of(recipe, 2, None)
        results = [run(part.recipe, tmp_path / part.name) for part in parts]
        spread = summarised([part.name for part in parts], results)["test"]["mae"]
        values = [result["test"]["mae"] for result in results]
        assert spread["mean"] == pytest.approx(np.mean(values)) and spread["std"] == pytest.approx(
            np.std(values, ddof=1)
        )
        assert not math.isclose(*values)
