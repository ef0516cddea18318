"""What the store costs for ZINC-full: first use, opening again, reading batches.

python benchmarks/store.py [--data-dir DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import pointset
from common import machine, report
from many_graphs import zinc_full


def seconds(action: object) -> float:
    start = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("POINTSET_DATA", "../shared/data"))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    name, graphs = zinc_full(Path(arguments.data_dir))
    with tempfile.TemporaryDirectory() as folder:
        first = seconds(lambda: pointset.to_points_many(graphs, store=folder, progress=False))
        again = [seconds(lambda: pointset.to_points_many(graphs, store=folder, progress=False)) for _ in range(5)]
        points = pointset.to_points_many(graphs, store=folder, progress=False)
        generator = np.random.default_rng(0)
        batches = [generator.choice(len(points), 128, replace=False) for _ in range(200)]
        read = [seconds(lambda batch=batch: [points[int(i)] for i in batch]) for batch in batches]
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    report(
        "The store",
        {
            "graphs": f"{len(graphs):,} ({name})",
            "first use, seconds (solve and write)": round(first, 1),
            "opening it again, seconds (key, checksums; median of 5)": round(statistics.median(again), 2),
            "a random batch of 128 point sets, milliseconds (median of 200)": round(1e3 * statistics.median(read), 2),
            "size on disk, MB": round(size / 1e6),
            **machine(torch.__version__),
        },
        arguments.json,
    )


if __name__ == "__main__":
    main()
