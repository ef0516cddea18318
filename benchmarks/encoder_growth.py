"""How the time of a training step grows with the number of nodes n and with the number of channels d.

    python benchmarks/encoder_growth.py [--json FILE] [--plot FILE.png] [--threads 2] [--repeats 5] [--quick]

Step times (forward, L1 loss, backward, AdamW) of the presets `pst-released` and `psds` with 2 layers on random
4-regular graphs: n = 16 … 512 at d = 64, and d = 16 … 256 at n = 32. A batch holds as many graphs as keep its pair
tensors (graphs · n² · d) near 8 million numbers, at least 1 and at most 128; the figures are milliseconds for each
graph, medians after a first step that is not counted. The growth k, time ~ n^k or d^k, is that of the last doubling.
The rank is n − 1, so that the mathematics of both presets needs operations of the order n³d + n²d²: `pst-released` in
products over pairs of points, `psds` in r × r matrices.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import torch

import pointset
from common import machine, report
from encoder_speed import seconds, training_step

PRESETS = ("pst-released", "psds")
LAYERS, DEGREE = 2, 4
PAIR_NUMBERS, MOST_GRAPHS = 2**23, 128
NODES, CHANNELS = (16, 32, 64, 128, 256, 512), (16, 32, 64, 128, 256)
NODES_AT, CHANNELS_AT = 32, 64  # where the other one is held


class Measured(NamedTuple):
    """One point of a curve."""

    nodes: int
    channels: int
    graphs: int  # in a batch
    milliseconds: float  # for each graph


def measure(preset: str, nodes: int, channels: int, most: int, repeats: int) -> Measured:
    """Median time of a step for each graph, with at most so many graphs in the batch."""
    graphs = max(1, min(most, PAIR_NUMBERS // (nodes * nodes * channels)))
    print(f"  … {preset}, n = {nodes}, d = {channels}, {graphs} graphs", file=sys.stderr, flush=True)
    regular = [nx.random_regular_graph(DEGREE, nodes, seed=seed) for seed in range(graphs)]
    points = pointset.to_points_many(regular, dtype=torch.float32, progress=False)
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=channels, layers=LAYERS)
    step = training_step(model, pointset.collate(list(points)), torch.zeros(graphs))
    step()
    median = statistics.median(seconds(step) for _ in range(repeats))
    return Measured(nodes, channels, graphs, 1e3 * median / graphs)


def growth(sizes: Sequence[int], curve: Sequence[Measured]) -> float:
    """k in time ~ size^k over the last doubling."""
    (low, before), (high, after) = list(zip(sizes, curve, strict=True))[-2:]
    return math.log(after.milliseconds / before.milliseconds) / math.log(high / low)


def figures_of(symbol: str, sizes: Sequence[int], curves: dict[str, list[Measured]]) -> dict[str, object]:
    figures: dict[str, object] = {}
    for preset, curve in curves.items():
        for size, point in zip(sizes, curve, strict=True):
            batch = f"{point.graphs} graph{'s' if point.graphs > 1 else ''}"
            figures[f"{preset}, {symbol} = {size}, ms per graph ({batch})"] = float(f"{point.milliseconds:.3g}")
        figures[f"{preset}, growth: time ~ {symbol}^k, k ="] = round(growth(sizes, curve), 2)
    return figures


def plot(path: Path, panels: dict[str, tuple[Sequence[int], dict[str, list[Measured]]]]) -> None:
    """Two panels, n and d, both axes logarithmic; each curve carries its name and growth."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    ink, quiet, faint = "#1d2733", "#5f6b78", "#e1e6ec"
    colours = dict(zip(PRESETS, ("#2b6ca8", "#d9583b"), strict=True))
    figure = Figure(figsize=(11, 4.6), dpi=140, layout="constrained")
    for axes, (title, (sizes, curves)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for preset, curve in curves.items():
            times = [point.milliseconds for point in curve]
            label = f"{preset}  (last doubling: power {growth(sizes, curve):.1f})"
            axes.plot(sizes, times, "o-", color=colours[preset], linewidth=2, markersize=6, label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
        axes.set_title(title, loc="left", fontsize=12, weight="bold", color=ink)
        axes.set_ylabel("ms per graph and step", color=quiet)
        axes.grid(color=faint, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=quiet, length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(faint)
        axes.legend(frameon=False, loc="upper left", labelcolor=ink)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--plot", type=Path, help="also draw the curves into this PNG")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="once, with small sizes")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    most, repeats = (2, 1) if arguments.quick else (MOST_GRAPHS, arguments.repeats)
    nodes, channels = (NODES[:3], CHANNELS[:3]) if arguments.quick else (NODES, CHANNELS)
    by_nodes = {preset: [measure(preset, n, CHANNELS_AT, most, repeats) for n in nodes] for preset in PRESETS}
    by_channels = {preset: [measure(preset, NODES_AT, d, most, repeats) for d in channels] for preset in PRESETS}
    if arguments.plot is not None:
        plot(
            arguments.plot,
            {
                f"Nodes n, at d = {CHANNELS_AT}": (nodes, by_nodes),
                f"Channels d, at n = {NODES_AT}": (channels, by_channels),
            },
        )
    report(
        "How a training step grows",
        {
            "graphs, model": f"random {DEGREE}-regular, {LAYERS} layers; d = {CHANNELS_AT} and n = {NODES_AT} held",
            **figures_of("n", nodes, by_nodes),
            **figures_of("d", channels, by_channels),
            "repeats (medians), torch threads": f"{repeats}, {arguments.threads}",
            **machine(torch.__version__),
        },
        arguments.json,
    )


if __name__ == "__main__":
    main()
