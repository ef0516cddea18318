"""What batches of graphs of like size are worth (``trainer.size_window``): time of training steps on ZINC-12k.

    python benchmarks/size_window.py [--data-dir DIR] [--json FILE] [--windows 1 4 16] [--steps 16] [--repeats 3]

The first steps of an epoch with the batches that a run would draw, for PST of several widths and batch sizes, one
thread. The windows take turns; medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path

import torch

from pointset.encoders.batch import PointBatch, collate
from pointset.paper.tables.result import Cell, Column, Row
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, read_recipe
from pointset.training.batches import training_batches
from pointset.training.data import TrainingData, build_model, load_data
from result_tables import write_table

SIZES = ((16, 3, 32), (32, 3, 32), (128, 3, 32), (32, 6, 80))  # graphs of a batch, layers, channels


def batches_of(data: TrainingData, recipe: Recipe, steps: int) -> list[PointBatch]:
    """The first batches of an epoch."""
    train = data.part("train")
    planned = training_batches(data.points.num_nodes[train], data.points.ranks[train], recipe)
    planned.start(0, 0)
    return [collate([data.points[int(train[graph])] for graph in batch]) for batch in islice(planned, steps)]


def measured(
    data: TrainingData, size: tuple[int, int, int], arguments: argparse.Namespace
) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds of the steps, and groups of a batch, by window."""
    graphs, layers, channels = size
    keys = {"model.preset": "pst", "model.noise": 0.0, "model.layers": layers, "model.dim": channels}
    recipe = changed(read_recipe("zinc"), keys | {"trainer.batch_size": graphs})
    model = build_model(recipe, data.card)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    drawn = {
        window: batches_of(data, changed(recipe, {"trainer.size_window": window}), arguments.steps)
        for window in arguments.windows
    }

    def steps(batches: list[PointBatch]) -> float:
        start = time.perf_counter()
        for batch in batches:
            model(batch).abs().mean().backward()  # what is learned does not matter here
            optimizer.step()
            optimizer.zero_grad()
        return time.perf_counter() - start

    for batches in drawn.values():
        steps(batches[:1])
    rounds = [{window: steps(batches) for window, batches in drawn.items()} for _ in range(arguments.repeats)]
    seconds = {window: statistics.median(one[window] for one in rounds) for window in drawn}
    groups = {window: statistics.fmean(len(batch.groups) for batch in batches) for window, batches in drawn.items()}
    return seconds, groups


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--windows", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    first, *others = arguments.windows
    data = load_data(changed(read_recipe("zinc"), {"model.preset": "pst"}), arguments.data_dir)
    columns = [Column(key=f"groups-{window}", title=f"groups, {window}", digits=1) for window in arguments.windows]
    columns += [
        Column(key=f"faster-{window}", title=f"{window} against {first}", better="high", digits=2, unit="×")
        for window in others
    ]
    rows = []
    for size in SIZES:
        seconds, groups = measured(data, size, arguments)
        cells = {f"groups-{window}": Cell(mean=groups[window]) for window in arguments.windows}
        cells |= {f"faster-{window}": Cell(mean=seconds[first] / seconds[window]) for window in others}
        title = f"batches of {size[0]}, {size[1]} × {size[2]}"
        rows.append(Row(title=title, source="ours", model="pst", cells=cells))
        print(f"{title:<28}", *(f"{key}={cell.mean:.2f}" for key, cell in cells.items()), flush=True)
    if arguments.json is not None:
        write_table(
            arguments.json,
            "Batches of graphs of like size",
            columns,
            rows,
            scope=f"{arguments.steps} training steps of PST on ZINC-12k (layers × channels), the graphs of so many "
            "batches sorted by size (trainer.size_window): groups of equal size in a batch, and how many times faster "
            "than in batches drawn at random; medians of the rounds.",
            seconds=time.monotonic() - start,
        )


if __name__ == "__main__":
    main()
