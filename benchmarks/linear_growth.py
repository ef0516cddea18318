"""How time and memory of a training step of ``pst-linear`` grow with the number of nodes: n = 10³ … 10⁶ at degree 10.

    python benchmarks/linear_growth.py [--json FILE] [--threads 1] [--repeats 3] [--solve] [--quick]

Steps (forward, cross-entropy of ten classes at every node, backward, AdamW) of models with 2 layers of d = 32 on one
random graph with 5·n edges and 16 eigenpairs. Every size has a process of its own. Time is processor time of all
threads, so that other programs do not count, the median of the steps after a first one; memory is the peak of the
process above what was resident before the batch was made: batch, activations, gradients. The growth k, time ~ n^k, is
fitted to all sizes by least squares, and between the last two.

The points are 16 random orthonormal columns with eigenvalues from 0.5 to 1, as this is about the encoder; ``--solve``
takes the graph's own eigenpairs by the library's solver, which takes two minutes more at 10⁶ nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import pointset
from common import machine, report
from large_graph import random_edges
from pointset.machine import forget_peak, peak_bytes, resident_bytes
from pointset.points.point_set import PointSet, Truncation

PRESETS = ("pst-linear", "pst-linear-edges")
NODES = (1_000, 10_000, 100_000, 1_000_000)
DEGREE, RANK, CHANNELS, LAYERS, CLASSES = 10, 16, 32, 2, 10


class Measured(NamedTuple):
    """One size."""

    nodes: int
    seconds: float
    gigabytes: float


def points_of(nodes: int, solve: bool) -> PointSet:
    """One random graph as truncated points that carry its edges."""
    edges = random_edges(nodes, nodes * DEGREE // 2)
    if solve:
        points = pointset.to_points((nodes, edges), matrix="normalized_adjacency", rank=RANK)
        return points.to(torch.float32)
    columns = torch.randn(nodes, RANK, generator=torch.Generator().manual_seed(0))
    return PointSet(
        eigenvalues=torch.linspace(0.5, 1.0, RANK),
        eigenvectors=torch.linalg.qr(columns)[0],
        matrix="normalized_adjacency",
        num_edges=edges.shape[1],
        edge_index=torch.from_numpy(edges),
        truncation=Truncation(0.5, 0.5, 0.0),
    )


def measure(preset: str, nodes: int, repeats: int, solve: bool) -> Measured:
    """Median time of a step, and how far memory rose."""
    points = points_of(nodes, solve)
    torch.manual_seed(0)
    model = pointset.PointModel.from_preset(preset, out=CLASSES, level="node", dim=CHANNELS, layers=LAYERS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    forget_peak()
    resident = resident_bytes()
    batch = pointset.collate([points])
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, CLASSES, nodes))

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(model(batch), labels))
        optimizer.step()

    def seconds() -> float:
        start = time.process_time()
        step()
        return time.process_time() - start

    seconds()
    median = statistics.median(seconds() for _ in range(repeats))
    return Measured(nodes, median, max(0, peak_bytes() - resident) / 1e9)


def in_process(preset: str, nodes: int, arguments: argparse.Namespace) -> Measured:
    """Measured in a fresh process."""
    print(f"  … {preset}, n = {nodes:,}", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--one", preset, str(nodes), "--threads", str(arguments.threads)]
    command += ["--repeats", str(arguments.repeats), *(["--solve"] if arguments.solve else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    return Measured(*json.loads(run.stdout.splitlines()[-1]))


def growth(sizes: Sequence[float], times: Sequence[float]) -> float:
    """k in time ~ size^k, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def figures_of(preset: str, curve: Sequence[Measured]) -> dict[str, object]:
    figures: dict[str, object] = {}
    for point in curve:
        figures[f"{preset}, n = {point.nodes:,}, CPU seconds per step"] = float(f"{point.seconds:.3g}")
    for point in curve:
        figures[f"{preset}, n = {point.nodes:,}, GB"] = float(f"{point.gigabytes:.3g}")
    nodes, times = [point.nodes for point in curve], [point.seconds for point in curve]
    figures[f"{preset}, growth: time ~ n^k, k ="] = round(growth(nodes, times), 2)
    figures[f"{preset}, growth between the last two"] = round(growth(nodes[-2:], times[-2:]), 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--solve", action="store_true", help="the graph's own eigenpairs")
    parser.add_argument("--quick", action="store_true", help="once, with small sizes")
    parser.add_argument("--one", nargs=2, metavar=("PRESET", "NODES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        torch.set_num_threads(arguments.threads)
        preset, nodes = arguments.one
        print(json.dumps(measure(preset, int(nodes), arguments.repeats, arguments.solve)))
        return
    if arguments.quick:
        arguments.repeats = 1
    sizes = NODES[:2] if arguments.quick else NODES
    curves = {preset: [in_process(preset, nodes, arguments) for nodes in sizes] for preset in PRESETS}
    report(
        "How a training step in linear time grows",
        {
            "graph": f"random, {DEGREE // 2}·n edges, {RANK} {'eigenpairs' if arguments.solve else 'random columns'}",
            "model": f"{LAYERS} layers, d = {CHANNELS}, outputs at every node",
            **{name: value for preset, curve in curves.items() for name, value in figures_of(preset, curve).items()},
            "repeats (medians), torch threads": f"{arguments.repeats}, {arguments.threads}",
            **machine(torch.__version__),
        },
        arguments.json,
    )


if __name__ == "__main__":
    main()
