"""How time and memory of a training step grow with the number of nodes n, and time with the number of channels d.

    python benchmarks/encoder_growth.py [--json FILE] [--plot FILE.png] [--threads 1] [--repeats 3] [--quick]

About six minutes. Steps (forward, L1 loss, backward, AdamW) of ours and of GPS with 2 layers on random 4-regular
graphs: n = 16 … 512 at d = 64, and for some d = 16 … 256 at n = 32. A batch holds as many graphs as keep its pair
tensors (graphs · n² · d) near 8 million numbers, at least 1 and at most 128; the figures are milliseconds for each
graph, medians after a first step that is not counted (fewer repeats where a step takes seconds). The growth k, time ~
n^k or d^k, is that of the last doubling. The rank is n − 1, so that the mathematics of `pst` and `pst-released` needs
operations of the order n³d + n²d² in products over pairs of points, that of `psds` in r × r matrices.

Every preset has a process of its own. Memory is how far its peak in the steps of a size rises above what was resident
before, after a small step that loads all libraries, for each graph of the batch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import torch

import pointset
from common import machine, report
from pointset.machine import forget_peak, peak_bytes, resident_bytes
from pointset.registry import PRESETS as REGISTERED
from pointset.registry import preset_named
from speed_cases import seconds, training_step

PRESETS = ("pst-released", "psds", "pst", "pst-fast", "gps")
BY_CHANNELS = ("pst-released", "psds", "pst-fast")  # of these the growth with d is measured, too
COLOURS = ("#2b6ca8", "#d9583b", "#3c8d5a", "#8a5fb0", "#5f6b78")
LAYERS, DEGREE = 2, 4
PAIR_NUMBERS, MOST_GRAPHS = 2**23, 128
NODES, CHANNELS = (16, 32, 64, 128, 256, 512), (16, 32, 64, 128, 256)
NODES_AT, CHANNELS_AT = 32, 64  # where the other one is held
ENOUGH = 10.0  # seconds for the repeats of one size


class Measured(NamedTuple):
    """One point of a curve."""

    nodes: int
    channels: int
    graphs: int  # in a batch
    milliseconds: float  # for each graph
    megabytes: float  # likewise


def measure(preset: str, nodes: int, channels: int, most: int, repeats: int, resident: int) -> Measured:
    """Median time of a step for each graph, with at most so many graphs in the batch."""
    graphs = max(1, min(most, PAIR_NUMBERS // (nodes * nodes * channels)))
    print(f"  … {preset}, n = {nodes}, d = {channels}, {graphs} graphs", file=sys.stderr, flush=True)
    regular = [nx.random_regular_graph(DEGREE, nodes, seed=seed) for seed in range(graphs)]
    matrix = preset_named(preset).matrix
    points = pointset.to_points_many(regular, matrix=matrix, dtype=torch.float32, progress=False)
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, dim=channels, layers=LAYERS)
    step = training_step(model, pointset.collate(list(points)), torch.zeros(graphs))
    forget_peak()
    first = seconds(step)
    median = statistics.median(seconds(step) for _ in range(max(1, min(repeats, int(ENOUGH / first)))))
    return Measured(nodes, channels, graphs, 1e3 * median / graphs, max(0, peak_bytes() - resident) / 1e6 / graphs)


def curves_of(preset: str, quick: bool, repeats: int) -> tuple[list[Measured], list[Measured]]:
    """Over n and over d, the latter empty for some."""
    most, repeats = (2, 1) if quick else (MOST_GRAPHS, repeats)
    nodes, channels = sizes(quick)
    measure(preset, nodes[0], channels[0], 1, 1, 0)  # loads all libraries
    resident = resident_bytes()
    by_nodes = [measure(preset, n, CHANNELS_AT, most, repeats, resident) for n in nodes]
    chosen = channels if preset in BY_CHANNELS else ()
    return by_nodes, [measure(preset, NODES_AT, d, most, repeats, resident) for d in chosen]


def sizes(quick: bool) -> tuple[Sequence[int], Sequence[int]]:
    return (NODES[:3], CHANNELS[:3]) if quick else (NODES, CHANNELS)


def in_process(preset: str, arguments: argparse.Namespace) -> tuple[list[Measured], list[Measured]]:
    """The curves of one preset, measured in a fresh process."""
    command = [sys.executable, __file__, "--preset", preset, "--threads", str(arguments.threads)]
    command += ["--repeats", str(arguments.repeats), *(["--quick"] if arguments.quick else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    by_nodes, by_channels = json.loads(run.stdout.splitlines()[-1])
    return [Measured(*point) for point in by_nodes], [Measured(*point) for point in by_channels]


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
        if symbol == "n":
            for size, point in zip(sizes, curve, strict=True):
                figures[f"{preset}, {symbol} = {size}, MB per graph"] = float(f"{point.megabytes:.3g}")
    return figures


def plot(path: Path, panels: dict[str, tuple[Sequence[int], dict[str, list[Measured]]]]) -> None:
    """Two panels, n and d, both axes logarithmic; each curve carries its name and growth."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    ink, quiet, faint = "#1d2733", "#5f6b78", "#e1e6ec"
    colours = dict(zip(PRESETS, COLOURS, strict=True))
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
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="once, with small sizes")
    parser.add_argument("--preset", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.preset is not None:
        torch.set_num_threads(arguments.threads)
        print(json.dumps(curves_of(arguments.preset, arguments.quick, arguments.repeats)))
        return
    curves = {preset: in_process(preset, arguments) for preset in PRESETS if preset in REGISTERED}
    by_nodes = {preset: over_n for preset, (over_n, _) in curves.items()}
    by_channels = {preset: over_d for preset, (_, over_d) in curves.items() if over_d}
    nodes, channels = sizes(arguments.quick)
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
            **{preset: "not registered, not measured" for preset in PRESETS if preset not in REGISTERED},
            "repeats (medians), torch threads": f"{1 if arguments.quick else arguments.repeats}, {arguments.threads}",
            **machine(torch.__version__),
        },
        arguments.json,
    )


if __name__ == "__main__":
    main()
