"""kill -9 and two processes at once: what was done is not done again, and nothing is mixed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from pointset.points.point_files import read_points
from pointset.runs.recipe import Recipe
from pointset.training.checkpoint import read_checkpoint
from pointset.training.loop import TrainingLoop
from pointset.training.progress import Watcher
from pointset.training.run import train
from tests.command_line import invoke
from tests.small_training import changed, edge_counts, write_graphs

EPOCHS = 400  # as many as are never trained before the process is killed
PATIENCE = 120.0


begun: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """Not even where a test fails."""
    yield
    while begun:
        process = begun.pop()
        process.kill()
        process.communicate()


def begin(folder: Path, *words: object) -> subprocess.Popen[str]:
    """``pointset WORDS`` in this folder, on one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pointset.cli.main", *map(str, words)],
        cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    begun.append(process)
    return process


def epochs_of(folder: Path) -> int:
    """Epochs that ``metrics.csv`` has: each was saved a moment later, with a checkpoint after every step."""
    return len(rows(folder / "metrics.csv")) if (folder / "metrics.csv").exists() else 0


def wait_for(process: subprocess.Popen[str], came: Callable[[], bool]) -> None:
    waited = time.monotonic()
    while not came():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - waited < PATIENCE
        time.sleep(0.01)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def rows(file: Path) -> list[list[str]]:
    with file.open(newline="") as opened:
        return list(csv.reader(opened))[1:]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """4 batches in each epoch; a checkpoint after every step."""
    small = write_graphs(tmp_path / "data", edge_counts())
    recipe = changed(small, trainer__epochs=EPOCHS, trainer__checkpoint_minutes=0.0, model__noise=0.01)
    (tmp_path / "recipe.yaml").write_text(recipe.as_yaml())
    return recipe


TRAIN = ("train", "recipe.yaml", "--run-dir", "run", "--device", "cpu", "--progress", "plain")


class Steps(Watcher):
    """Notes every step; ends the run, as a kill would, before the step that is one too many."""

    def __init__(self, most: int | None = None):
        self.steps: list[tuple[int, int]] = []
        self.said: list[str] = []
        self.first_epoch, self.most = -1, most

    def begin(self, plan: Any) -> None:
        self.first_epoch = plan.first_epoch

    def say(self, message: str) -> None:
        self.said.append(message)

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        self.steps.append((epoch, batch))
        if len(self.steps) == self.most:
            raise KeyboardInterrupt


def test_a_killed_run_is_resumed_at_its_last_step(recipe: Recipe, tmp_path: Path, one_thread: None) -> None:
    folder = tmp_path / "run"
    process = begin(tmp_path, *TRAIN)
    wait_for(process, lambda: epochs_of(folder) >= 3)
    kill(process)
    left = read_checkpoint(folder / "checkpoints" / "last.safetensors").progress
    assert 2 <= left.epoch < EPOCHS
    seen = Steps(most=6)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, folder, resume=True, device="cpu", watch="quiet", watcher=seen)
    after = [(left.epoch + 1 + (left.batch + step) // 4, 1 + (left.batch + step) % 4) for step in range(6)]
    assert seen.first_epoch == left.epoch and seen.steps == after  # no step is done again, none is left out
    again = read_checkpoint(folder / "checkpoints" / "last.safetensors").progress
    assert again.history[: left.epoch] == left.history  # with the seconds that those epochs took


def test_and_ends_at_the_weights_of_an_unbroken_run(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    """Both of the killed process's and ours: the last epoch is brought near, so that the test is short."""
    process = begin(tmp_path, *TRAIN)
    last = tmp_path / "run" / "checkpoints" / "last.safetensors"
    wait_for(process, lambda: epochs_of(tmp_path / "run") >= 3)
    kill(process)
    ended = read_checkpoint(last).progress.epoch + 3
    monkeypatch.setattr(TrainingLoop, "_is_done", lambda loop: loop.progress.epoch >= ended)
    for name in ("run", "unbroken"):
        train(recipe, tmp_path / name, resume=True, device="cpu", watch="quiet")
    one, other = ((tmp_path / name / "bundle" / "model.safetensors").read_bytes() for name in ("run", "unbroken"))
    assert one == other
    scores = [[row[2:7] for row in rows(tmp_path / name / "metrics.csv")] for name in ("run", "unbroken")]
    assert len(scores[0]) == ended and scores[0] == scores[1]


def test_the_command_says_from_where_it_resumes(recipe: Recipe, tmp_path: Path) -> None:
    process = begin(tmp_path, *TRAIN)
    last = tmp_path / "run" / "checkpoints" / "last.safetensors"
    wait_for(process, lambda: epochs_of(tmp_path / "run") >= 3)
    kill(process)
    left = read_checkpoint(last).progress
    process = begin(tmp_path, "train", "--resume", *TRAIN[2:])
    wait_for(process, lambda: epochs_of(tmp_path / "run") > left.epoch + 1)
    process.terminate()
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and f"resumed after epoch {left.epoch}" in said
    assert (f"resuming within epoch {left.epoch + 1}, after {left.batch} of 4 batches" in said) == (left.batch > 0)
    assert f"epoch   1/{EPOCHS}" not in said


def test_a_second_process_is_refused_and_does_no_harm(recipe: Recipe, tmp_path: Path, one_thread: None) -> None:
    first = begin(tmp_path, *TRAIN)
    wait_for(first, (tmp_path / "run" / "metrics.csv").exists)
    others = [begin(tmp_path, *TRAIN), begin(tmp_path, "train", "--resume", *TRAIN[2:])]
    for other, message in zip(others, ("already holds a run", f"(process {first.pid}) is training"), strict=True):
        _, said = other.communicate(timeout=PATIENCE)
        assert other.returncode == 1 and message in said and "Traceback" not in said
    before = epochs_of(tmp_path / "run")
    wait_for(first, lambda: epochs_of(tmp_path / "run") > before)  # the first goes on
    kill(first)


# --- files of points


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    file = tmp_path / "graphs.g6"
    file.write_bytes(b"".join(nx.to_graph6_bytes(nx.cycle_graph(9 + at % 9), header=False) for at in range(200)))
    return file


def content(file: Path) -> tuple[list[str], list[bytes]]:
    """What is in a file of points; its metadata come in any order."""
    points, names = read_points(file)
    return names, [one.eigenvectors.numpy().tobytes() for one in points]


CONVERTING = """
import os, signal, sys
import pointset.points.point_files as files
save, stage = files.save_file, sys.argv[1]

def killed(tensors, path, metadata):
    if stage == "before":
        os.kill(os.getpid(), 9)
    save(tensors, path, metadata=metadata)
    if stage == "half":
        with open(path, "r+b") as file:
            file.truncate(1000)
    os.kill(os.getpid(), 9)

files.save_file = killed
sys.argv = ["pointset", "convert", "graphs.g6", "points.safetensors"]
from pointset.cli.main import run
run()
"""


@pytest.mark.parametrize("stage", ["before", "half", "whole"])
def test_a_killed_convert_leaves_the_old_file(graphs: Path, tmp_path: Path, stage: str) -> None:
    invoke("convert", graphs, tmp_path / "points.safetensors")
    whole = content(tmp_path / "points.safetensors")
    (tmp_path / "points.safetensors").write_bytes(b"old")
    killed = subprocess.run([sys.executable, "-c", CONVERTING, stage], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "points.safetensors").read_bytes() == b"old"
    invoke("convert", graphs, tmp_path / "points.safetensors")
    assert content(tmp_path / "points.safetensors") == whole


def test_two_processes_with_one_output(graphs: Path, tmp_path: Path) -> None:
    """The last one's file stands, whole: both write the same here."""
    both = [begin(tmp_path, "convert", "graphs.g6", "points.safetensors") for _ in range(2)]
    for process in both:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
    points, _ = read_points(tmp_path / "points.safetensors")
    assert len(points) == 200 and {path.name for path in tmp_path.iterdir()} == {"graphs.g6", "points.safetensors"}
