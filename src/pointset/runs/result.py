"""What a run leaves behind: result.json (:class:`RunResult`), metrics.csv (:class:`EpochRow`), environment.json."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pointset.errors import FileFormatError
from pointset.files import read_json, write_csv
from pointset.machine import VERSION, cores
from pointset.metrics import Task
from pointset.native import build
from pointset.runs.recipe import Expected

TEST_SCORED = "once, at the end, with the weights of the best epoch by validation"
_PACKAGES = ("torch", "lightning-fabric", "torchmetrics", "numpy", "scipy", "torch_geometric", "rdkit")
_PUBLISHED = ("pointset", "python", "packages", "machine", "device", "threads", "kernels")  # of the environment
_RELIED_ON = ("model", "per_target", "expected", "best_epoch", "epochs", "parameters", "seconds", "test_scored")

Scores = dict[str, float | None]  # by metric
Whole = Annotated[int, Field(ge=0)]


class Recorded(BaseModel):
    """Values of a JSON file of a run; keys that are not named here may be anything."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True, protected_namespaces=())


class DatasetNames(Recorded):
    """What was learned from."""

    name: str = ""
    title: str = ""


class ScoreInterval(Recorded):
    """A score, and its 95 % interval over resamples of the rows; None where there is none."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None


class MemberResult(Recorded):
    """One member of an ensemble, scored alone."""

    name: str = ""  # ``seed 3``, or of a snapshot ``epoch 12``
    val: Scores = {}
    test: Scores = {}


class Baseline(Recorded):
    """A simple model on the same split; see :attr:`RunResult.baselines`."""

    val: Scores = {}
    test: Scores = {}
    train_graphs: Whole | None = None  # that it learned from
    seconds: float | None = None


class Coverage(Recorded):
    """How often intervals of the test part hold the true value, and how wide they are."""

    coverage: float | None = None
    width: float | None = None
    rows: Whole | None = None


class CalibrationResult(Recorded):
    """What the run says of its intervals on the test part."""

    confidence: float = 0.9
    kind: str = "intervals"  # or prediction sets, of classes
    per_target: dict[str, Coverage] = {}


class DomainResult(Recorded):
    """What the run says of its applicability domain."""

    threshold: float | None = None
    references: Whole | None = None
    test_in_domain: float | None = None


class RunResult(Recorded):
    """``result.json`` of one run: what :func:`pointset.train` returns, as plain values."""

    recipe: str = ""
    title: str = ""
    dataset: DatasetNames = DatasetNames()
    model: dict[str, Any] = {}
    task: Task
    level: str = "graph"
    metric: str  # which chose the best epoch
    higher_is_better: bool
    test: Scores
    val: Scores = {}
    per_target: dict[str, Scores] = {}
    best_epoch: int | None = None  # an ensemble has none
    epochs: int | None = None
    stopped_early: bool = False
    parameters: Whole | None = None
    seconds: float | None = None
    graphs_per_second: float | None = None
    peak_memory_bytes: int | float | None = None
    seed: int | None = None
    fold: int | None = None
    expected: Expected | None = None
    units: dict[str, str | None] = {}
    classes: list[str] = []
    split_sizes: dict[str, Whole] = {}
    split_of: Literal["graph", "node", "edge"] = "graph"  # what they count
    test_scored: str = ""
    members: list[MemberResult] = []  # of an ensemble
    parts: dict[str, dict[str, ScoreInterval]] = {}  # train, val, test of the best epoch: metric → score
    part_graphs: dict[str, Whole] = {}  # how many of each part were scored, as split_sizes counts; of many a sample
    left_out: Whole = 0  # rows of own data that cannot be used
    warnings: list[str] = []  # what was guessed or left out while own data was read
    baselines: dict[str, Baseline] = {}  # by name, such as "ecfp forest" and "mean"
    calibration: CalibrationResult | None = None
    domain: DomainResult | None = None

    @property
    def is_regression(self) -> bool:
        """Whether numbers are predicted."""
        return self.task is Task.REGRESSION

    @property
    def is_multi_class(self) -> bool:
        """Whether one of several classes is predicted; predictions.csv then has their names."""
        return self.task is Task.MULTI_CLASS

    @property
    def main_metric(self) -> str:
        """The paper's metric where it is known, otherwise the one that chose the epoch."""
        paper = self.expected.metric if self.expected is not None else self.metric
        return paper if self.test.get(paper) is not None else self.metric


_WRITTEN_AGAIN = "Delete it and resume the run, which writes it again"


def read_result(path: Path) -> dict[str, Any]:
    """The plain values that a finished run has written.

    Raises:
        FileFormatError: the file is damaged.
    """
    try:
        values = read_json(path)
    except FileFormatError as error:
        raise FileFormatError(f"{error}. {_WRITTEN_AGAIN}") from None
    wrong = [key for key in _RELIED_ON if key not in values]
    try:
        RunResult.model_validate(values)
    except ValidationError as error:
        wrong += [str(entry["loc"][0]) for entry in error.errors()]
    if wrong:
        raise FileFormatError(
            f"{path} is damaged: {', '.join(dict.fromkeys(wrong))} missing or impossible. {_WRITTEN_AGAIN}"
        )
    return values


@dataclass(frozen=True)
class EpochRow:
    """One finished epoch: a row of ``metrics.csv``."""

    epoch: int  # from 1
    lr: float
    train_loss: float
    val: dict[str, float]  # validation scores by metric
    is_best: bool
    best_epoch: int  # so far, this one included
    best_value: float  # NaN as long as no epoch has a score
    seconds: float  # of this epoch
    graphs_per_second: float


def write_metrics(path: Path, history: Sequence[EpochRow]) -> None:
    """Write all rows again, so that the file is whole at every moment and never has an epoch twice."""
    names = list(next((row.val for row in history if row.val), {}))
    rows: list[list[Any]] = [
        ["epoch", "lr", "train_loss", *(f"val_{name}" for name in names), "seconds", "graphs_per_second"]
    ]
    for row in history:
        scores = (f"{row.val[name]:.8g}" if row.val else "" for name in names)
        start = (row.epoch, f"{row.lr:.8g}", f"{row.train_loss:.8g}")
        rows.append([*start, *scores, f"{row.seconds:.3f}", f"{row.graphs_per_second:.1f}"])
    write_csv(path, rows)


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
        "kernels": build.status().text if device == "cpu" else f"torch ({device})",
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
