"""result.json: what came out of a run (:func:`result_of`)."""

from __future__ import annotations

import csv
import dataclasses
import math
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.errors import FileFormatError
from pointset.files import read_json, replacing
from pointset.machine import VERSION, cores, peak_bytes
from pointset.runs.recipe import Recipe
from pointset.training.metrics import Scores, higher_is_better
from pointset.training.progress import EpochRow

if TYPE_CHECKING:
    from pointset.training.data import TrainingData

# How far a run has come, as plain values that a checkpoint holds beside its tensors (:class:`ProgressRecord`).


@dataclass
class ProgressRecord:
    """Changes as the run goes on."""

    epoch: int = 0  # epochs that are done, validation included
    batch: int = 0  # batches that are done of the next one
    loss_sum: float = 0.0  # over the terms of those batches
    loss_terms: float = 0.0
    training_seconds: float = 0.0  # spent on those batches
    epoch_seconds: float = 0.0  # the same, with validation
    best_epoch: int = 0  # 1-based; 0: none yet
    best_value: float = math.nan  # its validation metric
    seconds: float = 0.0  # of training and validation, all sessions together
    stopped_early: bool = False
    history: list[EpochRow] = field(default_factory=list)

    @property
    def mean_loss(self) -> float:
        """Of the epoch so far."""
        return self.loss_sum / self.loss_terms if self.loss_terms else math.nan

    def spend(self, seconds: float, *, training: bool) -> None:
        """Time went by."""
        self.seconds += seconds
        self.epoch_seconds += seconds
        self.training_seconds += seconds if training else 0.0

    def end_epoch(self, row: EpochRow) -> None:
        """The epoch is done; the next one begins."""
        self.history.append(row)
        self.epoch += 1
        self.batch = 0
        self.loss_sum = self.loss_terms = self.training_seconds = self.epoch_seconds = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; floats survive exactly."""
        return dataclasses.asdict(self)

    def _check(self) -> None:
        for name in (one.name for one in dataclasses.fields(self) if one.name != "history"):
            value, kind = getattr(self, name), type(getattr(ProgressRecord, name))
            fits = isinstance(value, kind) or (kind is float and type(value) is int)
            if not fits or (kind is int and value < 0):
                raise TypeError(f"{name} is {value!r:.40}")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ProgressRecord:
        """The inverse of :meth:`as_dict`.

        Raises:
            FileFormatError: these are no such values.
        """
        try:
            record = cls(**(values | {"history": [EpochRow(**row) for row in values["history"]]}))
            record._check()
            return record
        except (TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(f"the checkpoint's record of progress is damaged ({error})") from None


_KEPT = {  # what others rely on
    "metric": str,
    "test": dict,
    "per_target": dict,
    "model": dict,
    "expected": dict | None,
    "best_epoch": int,
    "epochs": int,
    "parameters": int,
    "seconds": float | int,
    "test_scored": str,
}
TEST_SCORED = "once, at the end, with the weights of the best epoch by validation"


def result_of(
    recipe: Recipe, data: TrainingData, progress: ProgressRecord, metric: str, test: Scores, parameters: int
) -> dict[str, Any]:
    """Plain values, for ``result.json``.

    Args:
        recipe: of the run.
        data: what it was trained on.
        progress: at its end.
        metric: the one that chose the best epoch.
        test: scores of the test part; empty where there is none.
        parameters: of the model.
    """
    card = data.card
    best = next((row for row in progress.history if row.epoch == progress.best_epoch), None)
    speeds = sorted(row.graphs_per_second for row in progress.history)
    return {
        "recipe": recipe.name,
        "title": recipe.title,
        "dataset": {"name": card.name, "title": card.title},
        "model": recipe.model.model_dump(mode="json"),
        "task": card.task.value,
        "level": card.level.value,
        "metric": metric,
        "higher_is_better": higher_is_better(metric),
        "test": test.overall,
        "val": {} if best is None else best.val,
        "per_target": test.per_target,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "stopped_early": progress.stopped_early,
        "parameters": parameters,
        "seconds": round(progress.seconds, 3),
        "graphs_per_second": speeds[len(speeds) // 2] if speeds else None,
        "peak_memory_bytes": peak_bytes(),
        "seed": recipe.seed,
        "fold": recipe.dataset.fold,
        "expected": None if recipe.expected is None else recipe.expected.model_dump(mode="json"),
        "units": {target.name: target.unit for target in card.targets},
        "classes": list(card.classes),
        "split_sizes": {part: len(indices) for part, indices in data.dataset.split.items()},
        "test_scored": TEST_SCORED if test.overall else "there is no test part",
    }


def read_result(path: Path) -> dict[str, Any]:
    """What a finished run has written.

    Raises:
        FileFormatError: it is damaged.
    """
    result = read_json(path)
    missing = [key for key, kind in _KEPT.items() if key not in result or not isinstance(result[key], kind)]
    if missing:
        raise FileFormatError(
            f"{path} is damaged: it has no {', '.join(missing)}. Delete it and resume the run, which writes it again"
        )
    return result


# metrics.csv: a row for each epoch.


def write_metrics(path: Path, history: Sequence[EpochRow]) -> None:
    """Write all rows anew, so that the file is whole at every moment and never has an epoch twice."""
    names = list(next((row.val for row in history if row.val), {}))
    header = ["epoch", "lr", "train_loss", *(f"val_{name}" for name in names), "seconds", "graphs_per_second"]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in history:
            scores = (_text(row.val[name]) if row.val else "" for name in names)
            start = (row.epoch, _text(row.lr), _text(row.train_loss))
            writer.writerow([*start, *scores, f"{row.seconds:.3f}", f"{row.graphs_per_second:.1f}"])


def _text(value: float) -> str:
    return f"{value:.8g}"


# What a run was made with: versions, machine, commit (:func:`environment`).


_PUBLISHED = ("pointset", "python", "packages", "machine", "device", "threads")
_PACKAGES = ("torch", "lightning", "torchmetrics", "numpy", "scipy", "torch_geometric", "rdkit")


def environment(*, device: str, processes: int, threads: int) -> dict[str, Any]:
    """Plain values, for ``environment.json``."""
    import torch

    return {
        "pointset": VERSION,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "machine": {
            "system": platform.system(),
            "processor": _processor(),
            "cores": cores(),
            "memory_bytes": _memory(),
        },
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "processes": processes,
        "threads": threads,
        "git_commit": _commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def machine_kind(*, device: str, threads: int) -> dict[str, Any]:
    """What a measurement depends on, without names of machines, commands or paths: to be published beside it."""
    about = environment(device=device, processes=1, threads=threads)
    return {key: about[key] for key in _PUBLISHED}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _commit() -> str | None:
    """Of the repository that the package lies in, with a mark where files were changed; None where there is none."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - git is where the user has it
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
