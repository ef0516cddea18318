"""How far apart PST with random weights puts CFI graphs, and how large rounding is: why weights begin large in BREC.

    python benchmarks/brec_beginnings.py [--data-dir DIR] [--json FILE] [--step 4]

Every ``step``-th of the pairs of CFI graphs that 3-WL tells apart; 5 layers of 16, two seeds, float64 and float32. For
each gain on the weights (of the encoder, of f) and bound of the vectors: the smallest and the median difference between
the rows of a pair, and the largest between a graph and a relabelled copy, relative to the largest entry of the rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

import torch

from common import machine, report
from pointset.datasets.benchmarks.brec import EdgeList, GraphPair, load_pairs
from pointset.encoders.model import PointModel
from pointset.paper.refinement import refine_pairs
from pointset.paper.siamese import contestant_named, sharpened

GAINS = ((1.0, 1.0, 3.0), (3.5, 3.0, 3.0), (3.5, 1.0, 10.0), (3.5, 3.0, 10.0), (6.0, 3.0, 10.0))  # the first as shipped
SEEDS = range(2)


def reversed_nodes(graph: EdgeList) -> EdgeList:
    """A relabelled copy."""
    nodes, edges = graph
    return nodes, nodes - 1 - edges


def differences(
    pairs: list[GraphPair], gains: tuple[float, float, float], dtype: torch.dtype
) -> tuple[list[float], float]:
    """Between the graphs of each pair, and the largest between copies."""
    prepare = contestant_named("pst").prepare
    apart, rounding = [], 0.0
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = sharpened(PointModel.from_preset("pst", dim=16, layers=5), *gains).to(dtype)
        for pair in pairs:
            with torch.no_grad():
                first, second, copy = model.embed(prepare([pair.first, pair.second, reversed_nodes(pair.first)]))
            scale = float(torch.stack([first, second]).abs().max())
            apart.append(float((first - second).abs().max()) / scale)
            rounding = max(rounding, float((first - copy).abs().max()) / scale)
    return apart, rounding


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("POINTSET_DATA", "../shared/data"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cfi = [pair for pair in load_pairs(options.data_dir) if pair.category == "CFI"]
    pairs = [pair for pair in cfi if not refine_pairs([pair.first, pair.second]).same(0, 1)][:: options.step]
    figures: dict[str, object] = {"pairs": len(pairs)}
    for dtype in (torch.float64, torch.float32):
        for gains in GAINS:
            apart, rounding = differences(pairs, gains, dtype)
            figures[
                f"{str(dtype).removeprefix('torch.')}, encoder × {gains[0]:g}, f × {gains[1]:g}, vectors {gains[2]:g}"
            ] = f"smallest {min(apart):.0e}, median {statistics.median(apart):.0e}, rounding {rounding:.0e}"
    report("CFI graphs apart, PST with random weights", figures | machine(torch.__version__), options.json)


if __name__ == "__main__":
    main()
