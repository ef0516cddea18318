"""The methods of chemists.py as commands: what trains, what predicts, and how its predictions are read."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from chemists_data import Kind, Reals

TRAINING, PREDICTED = "molecules.csv", "predicted.csv"  # files of a unit's own folder
_SHOWN = 2000  # characters of what a failed program said


class Unit(NamedTuple):
    """What a method is asked for."""

    kind: Kind
    names: list[str]  # of the targets
    seed: int
    folder: Path  # its own; holds TRAINING


class Usage(NamedTuple):
    """What a command took, with all processes that it started."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float


class Method(NamedTuple):
    """Two commands; words are made from a unit, and for predictions from an input and an output file."""

    version: str
    train: Callable[[Unit], list[object]]
    predict: Callable[[Unit, Path, Path], list[object]]
    column: str  # of the output, with {} for the target
    environment: Callable[[Path], Mapping[str, str]] = lambda folder: {}


def run(words: Sequence[object], log: IO[str], environment: Mapping[str, str]) -> Usage:
    """Run a command with one thread and wait for it.

    Raises:
        RuntimeError: it failed; the last lines of the log are in the message.
    """
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
    command = [str(word) for word in words]
    print("$", *command, file=log, flush=True)
    start = time.monotonic()
    # With bytecode, as on any machine where a program is started twice.
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=log, stderr=log, env={**around, **one_thread, **environment})
    try:
        _, status, used = os.wait4(process.pid, 0)  # of this child alone, and of those it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if process.returncode is None:  # interrupted
            process.terminate()
            process.wait()
    if process.returncode:
        said = Path(log.name).read_text(encoding="utf-8", errors="replace")[-_SHOWN:]
        raise RuntimeError(f"{command[0]} failed with exit code {process.returncode}:\n{said}")
    return Usage(time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def read_predictions(path: Path, column: str, names: Sequence[str], count: int) -> Reals | None:
    """(count, k) of the first rows; NaN where a cell is empty; None where the file has no such columns."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(count), strict=False)]
    if len(rows) < count:
        raise RuntimeError(f"{path.name} has {len(rows)} rows; expected at least {count}")
    columns = [column.format(name) for name in names]
    if not all(one in rows[0] for one in columns):
        return None
    return np.array([[float(row[one] or "nan") for one in columns] for row in rows])


def chemprop(program: Path | None) -> Method:
    """``chemprop train`` and ``predict`` with their defaults; the program of an environment of its own."""
    if program is None:
        raise SystemExit("chemprop needs --chemprop PATH: the program in an environment where it is installed")

    def train(unit: Unit) -> list[object]:
        words: list[object] = [program, "train", "-i", unit.folder / TRAINING, "-s", "smiles"]
        words += ["-t", unit.kind, "--splits-column", "split", "-o", unit.folder / "out", "--pytorch-seed", unit.seed]
        return [*words, "--accelerator", "cpu", "-n", 0, "--target-columns", *unit.names]

    def predict(unit: Unit, given: Path, output: Path) -> list[object]:
        words: list[object] = [program, "predict", "-i", given, "-s", "smiles", "-o", output]
        return [*words, "--model-paths", unit.folder / "out" / "model_0" / "best.pt", "--accelerator", "cpu", "-n", 0]

    return Method(_version(program), train, predict, "{}")


@cache
def _version(program: Path) -> str:
    return subprocess.check_output([program, "--version"], text=True).strip()


def pointset(settings: Sequence[str]) -> Method:
    """``pointset train molecules`` as it is, with settings of a recipe added, and ``pointset predict``."""
    from pointset.machine import VERSION

    program = Path(sys.executable).with_name("pointset")

    def train(unit: Unit) -> list[object]:
        words: list[object] = [program, "train", "molecules", f"dataset.file={unit.folder / TRAINING}"]
        words += [f"dataset.targets={json.dumps(unit.names, ensure_ascii=False)}"]
        words += ['dataset.options.split="column:split"', f"seed={unit.seed}"]
        return [*words, *settings, "--run-dir", unit.folder / "run", "--progress", "quiet"]

    def predict(unit: Unit, given: Path, output: Path) -> list[object]:
        return [program, "predict", unit.folder / "run", given, "-o", output, "--smiles", "smiles", "--quiet"]

    def environment(folder: Path) -> dict[str, str]:
        return {"POINTSET_CACHE": str(_own_cache(folder))}

    return Method(f"pointset {VERSION}", train, predict, "predicted_{}", environment)


def _own_cache(folder: Path) -> Path:
    """An empty cache for a unit, so that it finds nothing prepared; only the compiled kernels are shared."""
    shared, own = folder.parent / "native", folder / "cache"
    if not shared.exists():
        shared.mkdir()
        code = "from pointset.native.build import SOURCE, load; load(SOURCE)"
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "POINTSET_CACHE": str(folder.parent)}, check=True
        )
    own.mkdir(exist_ok=True)
    if not (own / "native").exists():
        (own / "native").symlink_to(shared.resolve())
    return own


def fingerprints(learner: str) -> Method:
    """scikit-learn on Morgan counts, by chemists_forest.py."""
    import sklearn  # type: ignore[import-untyped]

    script = Path(__file__).with_name("chemists_forest.py")

    def train(unit: Unit) -> list[object]:
        model = unit.folder / "model.joblib"
        return [sys.executable, script, "train", learner, unit.kind, unit.seed, unit.folder / TRAINING, model]

    def predict(unit: Unit, given: Path, output: Path) -> list[object]:
        return [sys.executable, script, "predict", unit.folder / "model.joblib", given, output]

    return Method(f"scikit-learn {sklearn.__version__}", train, predict, "{}")


def method_named(name: str, options: Any) -> Method:
    """With the options of the command line that it needs."""
    if name == "chemprop":
        return chemprop(options.chemprop)
    return pointset(shlex.split(options.pointset_settings)) if name == "pointset" else fingerprints(name)
