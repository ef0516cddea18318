"""One large graph: 1,000,000 nodes and 5,000,000 edges, 16 extremal eigenpairs of the normalised adjacency.

    python benchmarks/large_graph.py [--nodes N] [--edges M] [--rank K] [--json FILE]

The graph is uniformly random, the hardest kind for the solver: apart from the eigenvalue 1 all extremal eigenvalues lie
at the edges of a continuous bulk.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import torch

import pointset
from common import machine, report


def random_edges(nodes: int, edges: int, seed: int = 0) -> np.ndarray:
    """(2, edges) distinct edges without self-loops."""
    generator = np.random.default_rng(seed)
    low, high = np.sort(generator.integers(0, nodes, (2, int(edges * 1.1))), axis=0)
    keys = np.unique((low * nodes + high)[low != high])
    keys = generator.choice(keys, edges, replace=False)
    return np.stack([keys // nodes, keys % nodes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--matrix", default="normalized_adjacency")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    edges = random_edges(arguments.nodes, arguments.edges)
    start = time.perf_counter()
    points = pointset.to_points((arguments.nodes, edges), matrix=arguments.matrix, rank=arguments.rank)
    elapsed = time.perf_counter() - start
    truncation = points.truncation
    report(
        "A large graph",
        {
            "nodes, edges": f"{points.num_nodes:,}, {points.num_edges:,}",
            "matrix, eigenpairs kept": f"{arguments.matrix}, {points.rank}",
            "seconds": round(elapsed, 1),
            "peak memory of the process, GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
            "largest residual ‖Zu − λu‖": f"{truncation.residual:.2g}" if truncation else "0",
            "truncation error ‖Z − UΛUᵀ‖₂": f"{truncation.spectral_error:.6f}" if truncation else "0",
            "torch threads": torch.get_num_threads(),
            **machine(torch.__version__),
        },
        arguments.json,
    )


if __name__ == "__main__":
    main()
