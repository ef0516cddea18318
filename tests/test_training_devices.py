"""Several processes learn what one learns, by ``--devices`` and under torchrun, and stop together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pointset.errors import PointsetError
from pointset.runs.recipe import Recipe
from pointset.training.run import train
from tests.small_training import changed, edge_counts, write_graphs

COMMAND = [sys.executable, "-m", "pointset.cli.main"]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """17 graphs to train on in batches of 8: in the last batch one of two processes is idle."""
    made = write_graphs(tmp_path / "data", edge_counts())
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"train": list(range(17)), "val": list(range(17, 28)), "test": list(range(28, 40))}))
    return changed(made, dataset__options=made.dataset.options | {"split": str(split)}, trainer__threads=None)


def assert_same(one: Path, other: Path) -> None:
    results = [json.loads((folder / "result.json").read_text()) for folder in (one, other)]
    for part in ("test", "val"):
        assert results[0][part] == pytest.approx(results[1][part], rel=1e-4)
    first, second = (load_file(folder / "bundle" / "model.safetensors") for folder in (one, other))
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < 1e-5


def test_two_processes_learn_the_same_as_one(recipe: Recipe, tmp_path: Path) -> None:
    train(recipe, tmp_path / "one", device="cpu", watch="quiet")
    train(recipe, tmp_path / "two", device="cpu", watch="quiet", devices=2)
    assert_same(tmp_path / "one", tmp_path / "two")
    environment = json.loads((tmp_path / "two" / "environment.json").read_text())
    cores = len(os.sched_getaffinity(0))
    assert environment["processes"] == 2 and environment["threads"] == max(1, cores // 2)


def test_under_torchrun(recipe: Recipe, tmp_path: Path) -> None:
    train(recipe, tmp_path / "one", device="cpu", watch="quiet")
    (tmp_path / "recipe.yaml").write_text(recipe.as_yaml())
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = ["train", str(tmp_path / "recipe.yaml"), "--run-dir", str(tmp_path / "two"), "--device", "cpu"]
    done = subprocess.run([*launcher, *COMMAND[1:], *words], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best epoch") == 1  # one of them speaks
    assert_same(tmp_path / "one", tmp_path / "two")


def test_processes_stop_together_and_go_on(recipe: Recipe, tmp_path: Path) -> None:
    long = changed(recipe, trainer__epochs=3000, trainer__ema=0.9)
    (tmp_path / "recipe.yaml").write_text(long.as_yaml())
    words = ["train", str(tmp_path / "recipe.yaml"), "--run-dir", str(tmp_path / "run"), "--device", "cpu"]
    child = subprocess.Popen(
        [*COMMAND, *words, "--devices", "2", "--progress", "plain"],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    metrics = tmp_path / "run" / "metrics.csv"
    waited = time.monotonic()
    while not metrics.exists() and child.poll() is None and time.monotonic() - waited < 150:
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: every process gets it
    _, said = child.communicate(timeout=100)
    assert child.returncode == 130, said
    assert "Stopped after" in said and "--resume" in said
    tensors = load_file(tmp_path / "run" / "checkpoints" / "last.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def test_a_failure_in_a_process_is_told(recipe: Recipe, tmp_path: Path) -> None:
    exploding = changed(recipe, optimizer__lr=1e30, optimizer__clip=None)
    with pytest.raises(PointsetError, match="the loss became"):
        train(exploding, tmp_path / "run", device="cpu", watch="quiet", devices=2)


def test_the_space_for_a_folder_that_another_process_makes_is_known(tmp_path: Path) -> None:
    from pointset.runs.folder import check_space

    check_space(tmp_path / "not" / "there", 1)
    with pytest.raises(PointsetError, match="the run writes up to"):
        check_space(tmp_path / "not" / "there", 2**70)
