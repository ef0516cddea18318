"""Where the time of a training step goes: PST on ZINC-12k at the paper's size, part by part.

    python benchmarks/step_parts.py [--data-dir DIR] [--json FILE] [--preset pst] [--batches 4] [--repeats 3]
    python benchmarks/step_parts.py --buckets [--data-dir DIR] [--preset pst] [--batches 4] [--repeats 3]

Batches of 128 molecules, 6 layers of 80 channels, one thread. Forward parts are timed one by one; the backward pass,
which repeats them in reverse at about twice the cost, is one line. With ``--buckets``, instead: what padded buckets are
worth against groups of graphs of equal size, on two sizes of model.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

from pointset.encoders import batch, pst, released
from pointset.encoders.buckets import Run, planned_buckets
from pointset.encoders.layers import ChannelLinear, ChannelNorm, PairMLP, VectorBound, VectorNorm
from pointset.encoders.loader import PointLoader
from pointset.encoders.model import PointModel
from pointset.paper.tables.result import Cell, Column, Row
from pointset.runs.recipe_files import changed, read_recipe
from pointset.training.data import TrainingData, build_model, load_data
from pointset.training.losses import loss_for
from result_tables import write_table

GRAPHS = 128
LOADING, INPUTS, BACKWARD, REST = "gathering the batch", "scalars and coordinates", "backward and AdamW", "other"
PARTS = {
    ChannelNorm: "normalising",
    VectorNorm: "normalising",
    VectorBound: "normalising",
    ChannelLinear: "mixing channels of points (n·r·d²)",
    PairMLP: "MLP of pairs (n²·d²)",
}
PRODUCTS = {"projected_products": "inner products (n²·r·d)", "attended": "weighted sums (n²·r·d)"}


class Clock:
    """Time of each part; of parts inside of others it is counted once, at the inner one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done here, less what inner parts take."""
        self._inside.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - start
            self.seconds[name] += took - self._inside.pop()
            if self._inside:
                self._inside[-1] += took

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def called(*arguments: Any, **options: Any) -> Any:
            with self.part(name):
                return function(*arguments, **options)

        return called


@contextmanager
def watched(model: PointModel, clock: Clock) -> Iterator[None]:
    """Parts of the forward pass are timed in here."""
    with ExitStack() as stack:
        for module in (pst, released):
            for name, title in ((name, title) for name, title in PRODUCTS.items() if hasattr(module, name)):
                stack.enter_context(mock.patch.object(module, name, clock.timed(title, getattr(module, name))))
        whole: list[tuple[nn.Module, str]] = [(model.scalars, INPUTS), (model.coordinates, INPUTS)]
        for part in model.encoder.modules():
            whole += [(part, title) for kind, title in PARTS.items() if type(part) is kind]
        for part, title in whole:
            stack.enter_context(mock.patch.object(part, "forward", clock.timed(title, part.forward)))
        yield


def steps(model: PointModel, data: TrainingData, batches: int, seed: int) -> Clock:
    """Some training steps."""
    clock, loss = Clock(), loss_for("l1", data.card.task, 0.0)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    generator = torch.Generator().manual_seed(seed)
    loader = PointLoader(data.points, GRAPHS, indices=data.part("train"), shuffle=True, generator=generator)
    source = iter(loader)
    with watched(model, clock):
        for _ in range(batches):
            with clock.part(LOADING):
                batch = next(source)
            with clock.part(REST):
                total, terms = loss(model(batch), batch.y)
            with clock.part(BACKWARD):
                torch.autograd.backward(total / terms)
                optimizer.step()
                optimizer.zero_grad()
    return clock


def compare_buckets(data: TrainingData, arguments: argparse.Namespace) -> None:
    """Print how many times faster a step is in buckets than in groups of equal size; the two take turns."""

    def groups(runs: Sequence[Run], *_: Any) -> list[list[Run]]:
        return [[run] for run in runs]

    loss = loss_for("l1", data.card.task, 0.0)
    for graphs, layers, channels in ((16, 4, 28), (GRAPHS, 2, 80)):
        keys = {"model.preset": arguments.preset, "model.noise": 0.0, "model.layers": layers, "model.dim": channels}
        model = build_model(changed(read_recipe("zinc"), keys), data.card)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        loader = PointLoader(data.points, graphs, indices=data.part("train"))
        batches = list(islice(loader, max(1, arguments.batches * 16 // graphs)))

        def seconds(plan: Callable[..., Any]) -> float:
            start = time.perf_counter()
            with mock.patch.object(batch, "planned_buckets", plan):
                for points in batches:  # noqa: B023
                    total, terms = loss(model(points), points.y)  # noqa: B023
                    torch.autograd.backward(total / terms)
                    optimizer.step()  # noqa: B023
                    optimizer.zero_grad()  # noqa: B023
            return time.perf_counter() - start

        seconds(groups)
        ratios = [seconds(groups) / seconds(planned_buckets) for _ in range(arguments.repeats)]
        counts = [(len(points.runs), len(points.buckets(channels))) for points in batches]
        sizes, buckets = (statistics.fmean(column) for column in zip(*counts, strict=True))
        print(
            f"batches of {graphs}, {layers} × {channels}: {statistics.median(ratios):.2f} × as fast in {buckets:.1f} "
            f"buckets as in {sizes:.1f} groups"
        )


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--preset", default="pst")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--buckets", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    recipe = read_recipe("zinc", [f"model.preset={arguments.preset}", "model.noise=0"])
    data = load_data(recipe, arguments.data_dir)
    if arguments.buckets:
        compare_buckets(data, arguments)
        return
    model = build_model(recipe, data.card)
    steps(model, data, 1, 0)  # to warm up
    clocks = [steps(model, data, arguments.batches, seed).seconds for seed in range(arguments.repeats)]
    names = sorted(clocks[0], key=lambda name: -clocks[0][name])
    rows = []
    for name in names:
        times = [clock[name] / arguments.batches for clock in clocks]
        shares = [clock[name] / sum(clock.values()) for clock in clocks]
        cells = {"share": Cell(mean=statistics.median(shares)), "time": Cell(mean=statistics.median(times))}
        rows.append(Row(title=name, source="ours", model=arguments.preset, cells=cells))
        print(f"{name:<36} {100 * statistics.median(shares):5.1f} %  {1000 * statistics.median(times):7.0f} ms")
    if arguments.json is not None:
        write_table(
            arguments.json,
            "Where the time of a training step goes",
            [
                Column(key="share", title="share", better="neither", factor=100, digits=1, unit="%"),
                Column(key="time", title="time", better="neither", factor=1000, digits=0, unit="ms"),
            ],
            rows,
            scope=f"A training step of {arguments.preset} (six layers of 80 channels) on 128 molecules of ZINC-12k, "
            "one thread, medians of the rounds.",
            seconds=time.monotonic() - start,
        )


if __name__ == "__main__":
    main()
