"""What the training loop costs around the bare step: loader, logging, watching, checkpoints.

    python benchmarks/training_loop.py [--data-dir DIR] [--json FILE] [--quick] [--threads N]

The bare step is that of encoder_speed.py: forward, L1 loss, backward and AdamW of `pst-released`, 6 layers of 80, on
batches of 128 molecules of ZINC-12k that were gathered before. The loop is that of `pointset train`: it gathers the
batches, sets the learning rate, clips gradients, watches, notes progress. Epochs of the same batches alternate between
the two in one process, after a first one of each that is not counted; medians. A checkpoint is written once a minute by
default: the time of one is measured, and its share of a minute is added. Validation does not count, as the bare step
has none. Without the data, the generated counting graphs are used, and the output says so.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import machine, report
from pointset.encoders.loader import PointLoader
from pointset.errors import MissingDataError
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.training.data import TrainingData, build_model, load_data
from pointset.training.devices import make_fabric, thread_count
from pointset.training.loop import TrainingLoop
from pointset.training.progress import watcher_for

SECONDS_BETWEEN_CHECKPOINTS = 60.0


def recipe_and_data(data_dir: str | None, quick: bool) -> tuple[str, Recipe, TrainingData]:
    """The recipe of ZINC without noise, on a few batches of it."""
    small = ["model.dim=16", "model.layers=2", "trainer.batch_size=32"] if quick else []
    for name in ("zinc", "counting"):
        recipe = read_recipe(
            name, ["model.noise=0", "trainer.batch_size=128", "model.dim=80", "model.layers=6", *small]
        )
        try:
            data = load_data(recipe, data_dir, progress=False)
        except MissingDataError:
            continue
        graphs = (2 if quick else 5) * recipe.trainer.batch_size
        part = data.part("train")[:graphs]
        split = {"train": part, "val": data.part("val")[:1], "test": data.part("test")[:1]}
        return name, recipe, TrainingData(data.dataset.with_split(split), data.scale, data.points)
    raise SystemExit("no data")


def bare_epoch(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Any]) -> float:
    """Seconds of an epoch of bare steps."""
    started = time.perf_counter()
    for batch in batches:
        loss = torch.nn.functional.l1_loss(model(batch), batch.y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    return time.perf_counter() - started


def loop_epoch(training: TrainingLoop) -> float:
    """Seconds of an epoch of the training loop, without validation."""
    started = time.perf_counter()
    training._train_epoch()
    seconds = time.perf_counter() - started
    training._end_epoch()
    return seconds


def measure(data_dir: str | None, quick: bool, threads: int) -> dict[str, Any]:
    """All figures."""
    name, recipe, data = recipe_and_data(data_dir, quick)
    repeats = 2 if quick else 7
    with tempfile.TemporaryDirectory() as folder, thread_count(threads):
        run = RunFolder(folder)
        run.last_checkpoint.parent.mkdir()
        fabric = make_fabric(recipe, "cpu")
        fabric.launch()
        training = TrainingLoop(
            fabric, build_model(recipe, data.card), data, recipe, run, watcher_for("plain", log_dir=None)
        )
        training.watcher.begin(training._plan())
        bare = build_model(recipe, data.card)
        optimizer = torch.optim.AdamW(bare.parameters(), lr=recipe.optimizer.lr, fused=True)
        loader = PointLoader(data.points, recipe.trainer.batch_size, indices=data.part("train"))
        batches = list(loader)
        times: dict[str, list[float]] = {"bare": [], "loop": []}
        for _ in range(repeats + 1):
            times["bare"].append(bare_epoch(bare, optimizer, batches))
            times["loop"].append(loop_epoch(training))
        saving = []
        for _ in range(5):
            started = time.perf_counter()
            training.save()
            saving.append(time.perf_counter() - started)
        training.watcher.end()
    ratios = [loop / step - 1 for loop, step in zip(times["loop"][1:], times["bare"][1:], strict=True)]
    loop, checkpoint = statistics.median(ratios), statistics.median(saving)
    share = checkpoint / SECONDS_BETWEEN_CHECKPOINTS
    return {
        "data": name,
        "threads": threads,
        "steps": len(batches),
        "bare step, ms": 1000 * statistics.median(times["bare"][1:]) / len(batches),
        "loop around it, %": 100 * loop,
        "a checkpoint, ms": 1000 * checkpoint,
        "checkpoints once a minute, %": 100 * share,
        "together, %": 100 * (loop + share),
        "spread of the ratios, %": 100 * float(np.ptp(ratios)),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    found = measure(options.data_dir, options.quick, options.threads)
    rounded = {key: round(value, 2) if isinstance(value, float) else value for key, value in found.items()}
    report("The training loop around the bare step", machine(torch.__version__) | rounded, options.json)


if __name__ == "__main__":
    main()
