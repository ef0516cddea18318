"""What makes PST learn to count quickly: the recipe ``counting-fast``, made small, with one thing changed at a time.

    python benchmarks/counting_choices.py [--data-dir DIR] [--json FILE] [--epochs 5] [--dim 32] [--seeds 1] [--only …]

Every line trains on the 1,500 official training graphs, all 13 substructures at once, one thread, and gives the mean
over the substructures of the normalised error on the 1,000 validation graphs, × 10⁻³, and the time. A line that is in
the JSON file already is not trained again, so the whole can be interrupted. Differences of a tenth mean nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import pointset
from pointset.encoders import pst
from pointset.encoders.layers import ChannelNorm, VectorNorm
from pointset.encoders.pst import SummingPST, SummingPSTLayer
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.result import Cell, Column, Row
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, read_recipe
from result_tables import write_table

Keys = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One thing that is other than in the recipe."""

    name: str
    keys: Keys
    part: Callable[[], Any] = nullcontext  # a context in which a part of the model is another one


@contextmanager
def _with_layer(**parts: Callable[[], torch.nn.Module]) -> Iterator[None]:
    """Layers of the counting PST in which these parts are replaced."""

    class Changed(SummingPSTLayer):
        def __init__(self, channels: int, *, last: bool = False):
            super().__init__(channels, last=last)
            for name, part in parts.items():
                setattr(self, name, part())

    with mock.patch.object(pst, "SummingPSTLayer", Changed):
        yield


@contextmanager
def _usual_weights() -> Iterator[None]:
    """PyTorch's usual first weights."""
    usual: Keys = dict.fromkeys(("ATTENTION_GAIN", "SCALAR_GAIN", "FIRST_SCALARS"), 1.0)
    unchanged = mock.patch.object(pst, "enlarge_first_weights")
    with mock.patch.multiple(SummingPST, **usual), unchanged:
        yield


LINES = (
    Line("as in the recipe", {}),
    Line("polynomials beside √λ (pst-count)", {"model.preset": "pst-count"}),
    Line("AdamW, learning rate 0.008", {"optimizer.method": "adamw", "optimizer.lr": 8e-3}),
    Line("learning rate 0.003", {"optimizer.lr": 3e-3}),
    Line("scalars through LayerNorm", {}, lambda: _with_layer(norm_s=ChannelNorm)),
    Line("vectors of length 1", {}, lambda: _with_layer(bound_v=VectorNorm)),
    Line("PyTorch's first weights", {}, _usual_weights),
    Line("sums × n^-0.925 (pst-gc)", {"model.preset": "pst-gc"}),
    Line("and learned f (pst)", {"model.preset": "pst"}),
    Line("and the adjacency matrix (pst-adj)", {"model.preset": "pst-adj"}),
    Line("L1 loss", {"loss": "l1"}),
    Line("plain mean over the targets", {"balance_targets": False}),
    Line("batches of 32", {"trainer.batch_size": 32}),
    Line("batches of graphs of like size", {"trainer.size_window": 16}),
    Line("constant rate after the warm-up", {"schedule.shape": "constant"}),
    Line("twice the width", {"model.dim": 2}),  # a factor, see recipe_of
)


def recipe_of(line: Line, arguments: argparse.Namespace, seed: int) -> Recipe:
    """The small recipe with this line's change."""
    width = arguments.dim * line.keys.get("model.dim", 1)
    small = {"trainer.epochs": arguments.epochs, "trainer.validate_every": arguments.epochs, "trainer.threads": 1}
    return changed(read_recipe("counting-fast"), small | line.keys | {"model.dim": width, "seed": seed})


def measured(line: Line, arguments: argparse.Namespace) -> Row:
    """Errors on the validation graphs, one for each seed, and the time of a training."""
    errors, seconds, parameters = [], [], 0
    for seed in range(arguments.seeds):
        with tempfile.TemporaryDirectory() as folder, line.part():
            recipe = recipe_of(line, arguments, seed)
            result = pointset.train(recipe, Path(folder) / "run", data_dir=arguments.data_dir, watch="quiet")
        errors.append(result["val"]["normalised_mae"])
        seconds.append(result["seconds"])
        parameters = result["parameters"]
    cells = {"error": _cell(errors), "seconds": _cell(seconds)}
    return Row(title=line.name, source="ours", model=recipe.model.preset, parameters=parameters, cells=cells)


def _cell(values: list[float]) -> Cell:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Cell(mean=statistics.fmean(values), std=deviation, values=tuple(values))


def write(path: Path, rows: dict[str, Row], scope: str) -> None:
    """The table as it stands."""
    write_table(
        path,
        "What makes PST learn to count",
        [
            Column(key="error", title="validation error", factor=1000, digits=1, unit="10⁻³"),
            Column(key="seconds", title="time", digits=0, unit="s"),
        ],
        list(rows.values()),
        scope=scope,
        seconds=sum(sum(value or 0 for value in row.cells["seconds"].values) for row in rows.values()),
        complete=len(rows) == len(LINES),
    )


def main() -> None:
    """Train all lines that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    scope = (
        f"The recipe counting-fast made small ({arguments.epochs} epochs of 4 layers of {arguments.dim} channels, "
        f"seeds: {arguments.seeds}), with one thing changed at a time; mean over the 13 substructures of the "
        "normalised error on the 1,000 validation graphs."
    )
    rows: dict[str, Row] = {}
    if arguments.json is not None and arguments.json.exists():
        before = read_table(arguments.json)
        if before.scope != scope:
            parser.error(f"{arguments.json} was made with other settings: {before.scope} Name another file")
        rows = {row.title: row for row in before.rows}
    for line in LINES:
        if arguments.only is not None and line.name not in arguments.only:
            continue
        if line.name not in rows:
            rows[line.name] = measured(line, arguments)
            if arguments.json is not None:
                write(arguments.json, rows, scope)
        error, seconds = (rows[line.name].cells[key].mean or 0.0 for key in ("error", "seconds"))
        print(f"{line.name:<36} {1000 * error:>8.1f}  {seconds:>5.0f} s", flush=True)


if __name__ == "__main__":
    main()
