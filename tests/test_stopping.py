"""SIGTERM and Ctrl-C end a command within seconds, whatever it is doing, and what it has done is not lost."""

from __future__ import annotations

import csv
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pointset.runs.recipe import Recipe
from pointset.training.run import train
from tests.small_training import changed, edge_counts, write_graphs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hangs in a function of the C library of Linux")
TRAIN = ["train", "recipe.yaml", "--run-dir", "run", "--device", "cpu", "--progress", "quiet"]  # in the test's folder
SECONDS = 10.0  # five are promised; the machine of a test may be busy
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "pointset.training.run",
        "pointset.prediction.tables",
        "pointset.reports.pages",
        "lightning_fabric",
        "torchmetrics",
    ]
)


def hang(place: str) -> None:
    """Inside one call of a C library that never returns: no handler of Python's runs any more."""
    Path("hanging").write_text(place)
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def hang_in(name: str, wanted: Callable[..., bool] = lambda *_: True) -> None:
    """The function or method of this name hangs as soon as it is called with what is ``wanted``."""
    module, _, path = name.partition(":")
    *owners, attribute = path.split(".")
    holder: Any = import_module(module)
    for owner in owners:
        holder = getattr(holder, owner)
    really = getattr(holder, attribute)

    def maybe(*arguments: Any, **options: Any) -> Any:
        if wanted(*arguments):
            hang(name)
        return really(*arguments, **options)

    setattr(holder, attribute, maybe)


def in_a_step(number: int) -> Callable[..., bool]:
    """The forward pass of this training step, counted from 1."""
    seen = []

    def wanted(model: Any, *_: Any) -> bool:
        if model.training:
            seen.append(model)
        return len(seen) == number

    return wanted


def in_call(number: int) -> Callable[..., bool]:
    """The call of this number, counted from 1."""
    calls = count(1)
    return lambda *_: next(calls) == number


def in_validation(model: Any, batch: Any, *_: Any) -> bool:
    from pointset.encoders.batch import PointBatch

    return not model.training and isinstance(batch, PointBatch)


PLACES: dict[str, tuple[str, Callable[..., bool]]] = {
    "reading": ("pointset.training.run:load_data", lambda *_: True),
    "training": ("pointset.encoders.model:PointModel.forward", in_a_step(6)),
    "validation": ("pointset.encoders.model:PointModel.forward", in_validation),
    "loss": ("pointset.training.loop:Learner._over_all_devices", in_call(2)),
    "scoring": ("pointset.training.finish:write_predictions", lambda *_: True),
    "report": ("pointset.reports.pages:write_report", lambda *_: True),
    "predicting": ("pointset.prediction.engine:Engine.outcomes", lambda *_: True),
}


def command(words: list[str], folder: str, place: str | None) -> None:
    """``pointset WORDS`` in a process of its own, which hangs at a place."""
    os.chdir(folder)
    sys.argv = ["pointset", *words]
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    from pointset import stopping
    from pointset.cli.main import run

    stopping.GRACE_SECONDS = 0.3
    if place is not None:
        hang_in(*PLACES[place])
    run()


def ended(folder: Path, place: str | None, *words: str | Path, number: int = signal.SIGTERM) -> tuple[int | None, str]:
    """Exit code and messages of a command that gets a signal when it hangs; without a place, after an epoch."""
    child = CONTEXT.Process(target=command, args=([str(word) for word in words], str(folder), place))
    child.start()
    assert child.pid is not None
    waited = time.monotonic()
    sign = folder / ("hanging" if place else "run/metrics.csv")
    while not sign.exists() and time.monotonic() - waited < 60:
        time.sleep(0.02)
        assert child.is_alive(), (folder / "said").read_text()
    os.kill(child.pid, number)
    asked = time.monotonic()
    child.join(60)
    took = time.monotonic() - asked
    (folder / "hanging").unlink(missing_ok=True)
    assert not child.is_alive() and took < SECONDS
    return child.exitcode, (folder / "said").read_text()


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """4 batches in each of 2 epochs."""
    return write_graphs(tmp_path / "data", edge_counts())


def assert_equal_weights(one: Path, other: Path) -> None:
    first, second = (load_file(folder / "bundle" / "model.safetensors") for folder in (one, other))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("place", ["reading", "training", "validation", "scoring", "report"])
def test_a_run_that_hangs_ends_in_time_and_is_resumed(
    recipe: Recipe, tmp_path: Path, place: str, one_thread: None
) -> None:
    settings = changed(recipe, model__noise=0.01, trainer__ema=0.9)
    (tmp_path / "recipe.yaml").write_text(settings.as_yaml())
    code, said = ended(tmp_path, place, *TRAIN)
    assert code == 130 and "--resume" in said and "Traceback" not in said
    if place in ("training", "validation"):
        done = {"training": "1 of 2 epochs and 1 of 4 batches", "validation": "0 of 2 epochs and 4 of 4 batches"}
        assert f"Stopped after {done[place]}; all is saved" in said
    train(settings, tmp_path / "run", resume=True, device="cpu", watch="quiet")
    train(settings, tmp_path / "unbroken", device="cpu", watch="quiet")
    assert_equal_weights(tmp_path / "unbroken", tmp_path / "run")


def test_running_means_of_half_a_step_are_not_saved(recipe: Recipe, tmp_path: Path, one_thread: None) -> None:
    """A batch normalisation changes in the forward pass, before the step that is cut short."""
    settings = changed(recipe, model__preset="gin")
    (tmp_path / "recipe.yaml").write_text(settings.as_yaml())
    code, said = ended(tmp_path, "loss", *TRAIN)
    assert code == 130 and "Stopped after 0 of 2 epochs and 1 of 4 batches; all is saved" in said
    train(settings, tmp_path / "run", resume=True, device="cpu", watch="quiet")
    train(settings, tmp_path / "unbroken", device="cpu", watch="quiet")
    assert_equal_weights(tmp_path / "unbroken", tmp_path / "run")


def test_ctrl_c_as_well(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(recipe.as_yaml())
    code, said = ended(tmp_path, "training", *TRAIN, number=signal.SIGINT)
    assert code == 130 and "Stopped after 1 of 2 epochs and 1 of 4 batches" in said


def test_sigterm_between_steps_is_a_clean_end(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(changed(recipe, trainer__epochs=5000).as_yaml())
    code, said = ended(tmp_path, None, *TRAIN)
    assert code == 130 and "of 5000 epochs" in said and "--resume" in said and "Traceback" not in said


def test_predict_ends_in_time_and_is_resumed(recipe: Recipe, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", device="cpu", watch="quiet")
    words: list[str | Path] = ["predict", "run", tmp_path / "data" / "graphs.g6", "-o", "out.csv", "--quiet"]
    code, said = ended(tmp_path, "predicting", *words)
    assert code == 130 and "Interrupted" in said and not (tmp_path / "out.csv").exists()
    child = CONTEXT.Process(target=command, args=([str(word) for word in words], str(tmp_path), None))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    with (tmp_path / "out.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 40


def test_tune_ends_in_time_and_is_resumed(recipe: Recipe, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    from pointset.tuning import tune

    (tmp_path / "recipe.yaml").write_text(recipe.as_yaml())
    fixed = ["model.dim", "model.layers", "model.noise", "schedule.warmup", "schedule.cosine", "optimizer.weight_decay"]
    fix = [word for key in fixed for word in ("--fix", key)]
    words: list[str | Path] = [
        "tune",
        tmp_path / "recipe.yaml",
        "--run-dir",
        "study",
        "--trials",
        "1",
        "--device",
        "cpu",
        *fix,
    ]
    code, said = ended(tmp_path, "training", *words)
    assert code == 130 and "Repeat the command to resume" in said
    result = tune(recipe, tmp_path / "study", trials=1, fixed=fixed, device="cpu")
    assert result.count("complete") == 1
