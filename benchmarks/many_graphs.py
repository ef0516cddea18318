"""How fast graphs become points: ZINC-full, all 249,456 graphs, including building the matrices.

    python benchmarks/many_graphs.py [--data-dir DIR] [--json FILE]

Without the data, random graphs of the same size distribution are used and the output says so. The comparison with
one-by-one numpy runs in the same process, side by side, over several repeats (medians), with one core for numpy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
import torch

import pointset
from common import machine, report


def zinc_full(folder: Path | None) -> tuple[str, pointset.GraphArrays]:
    if folder is not None and (folder / "zinc" / "zinc_full.npz").exists():
        with np.load(folder / "zinc" / "zinc_full.npz") as file:
            flat = file["num_nodes"], file["num_edges"], file["edges"].T
        return "ZINC-full", pointset.GraphArrays.from_flat(*flat)
    generator = np.random.default_rng(0)
    nodes = np.clip(generator.normal(23.15, 4.5, 249_456).round(), 9, 38).astype(int)
    counts = nodes + 1
    owner = np.repeat(nodes, counts)
    source = generator.integers(0, owner)
    target = (source + generator.integers(1, owner)) % owner
    return "random graphs of ZINC-full's sizes", pointset.GraphArrays.from_flat(
        nodes, counts, np.stack([source, target])
    )


def one_by_one(graphs: pointset.GraphArrays, indices: np.ndarray) -> float:
    """Seconds of the plain way: build one Laplacian, call numpy's eigh, next."""
    chosen = [graphs[int(index)] for index in indices]
    start = time.perf_counter()
    for graph in chosen:
        adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
        adjacency[graph.edges[0], graph.edges[1]] = 1
        adjacency[graph.edges[1], graph.edges[0]] = 1
        np.linalg.eigh(np.diag(adjacency.sum(-1)) - adjacency)
    return time.perf_counter() - start


def many(graphs: pointset.GraphArrays, indices: np.ndarray, workers: int) -> float:
    """Seconds of to_points_many on (num_nodes, edges) pairs, including reading them."""
    chosen = [(graphs[int(index)].num_nodes, graphs[int(index)].edges) for index in indices]
    start = time.perf_counter()
    pointset.to_points_many(chosen, workers=workers, progress=False)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("POINTSET_DATA", "../shared/data"))
    parser.add_argument("--sample", type=int, default=20_000, help="graphs for the comparison with numpy")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    name, graphs = zinc_full(Path(arguments.data_dir))
    pointset.to_points_many(graphs[:500])  # warm up

    start = time.perf_counter()
    pointset.to_points_many(graphs, progress=False)
    whole = time.perf_counter() - start

    sample = np.random.default_rng(0).choice(len(graphs), arguments.sample, replace=False)
    ratios: dict[int, list[float]] = {1: [], 2: []}
    per_graph: list[float] = []
    for _ in range(arguments.repeats):
        plain = one_by_one(graphs, sample)
        per_graph.append(plain / len(sample) * 1e6)
        for workers, found in ratios.items():
            found.append(plain / many(graphs, sample, workers))
    report(
        "Graphs → points",
        {
            "graphs": f"{len(graphs):,} ({name})",
            "seconds for all, matrices included": round(whole, 1),
            "graphs per second": round(len(graphs) / whole),
            "numpy eigh one by one, µs per graph (median)": round(statistics.median(per_graph), 1),
            "throughput against it, 1 worker (median)": round(statistics.median(ratios[1]), 2),
            "throughput against it, 2 workers (median)": round(statistics.median(ratios[2]), 2),
            "torch threads per worker": 1,
            **machine(torch.__version__),
        },
        arguments.json,
    )


if __name__ == "__main__":
    main()
