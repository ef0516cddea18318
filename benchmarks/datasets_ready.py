"""How long it takes until a dataset can be trained on: read, decomposed, first batch; the first time, and later.

Each figure is a process of its own with an empty cache (first) or the cache that it left (later; medians). The time
of importing torch is listed apart.

python benchmarks/datasets_ready.py [NAME …] [--data-dir DIR] [--repeats 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common import machine, report

PROGRAM = """
import json, sys, time
start = time.perf_counter()
import torch
imported = time.perf_counter()
import pointset
dataset = pointset.datasets.load(sys.argv[1], sys.argv[2], progress=False)
points = dataset.points(progress=False)
next(iter(pointset.PointLoader(points, batch_size=128, indices=dataset.split["train"])))
print(json.dumps([imported - start, time.perf_counter() - imported, len(dataset)]))
"""
COUNTS = """
import json, time
import torch
from pointset.datasets.benchmarks.counting import counting_graphs
from pointset.datasets.counting import count_many
torch.set_num_threads(1)
graphs = counting_graphs(0)
start = time.perf_counter()
count_many(*graphs, progress=False)
print(json.dumps(time.perf_counter() - start))
"""


def output_of(program: str, *arguments: str, cache: str = "", threads: str = "") -> Any:
    settings = {"POINTSET_CACHE": cache} | ({"OMP_NUM_THREADS": threads} if threads else {})
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=os.environ | settings, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def ready(name: str, data_dir: str, repeats: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as cache:
        runs = [output_of(PROGRAM, name, data_dir, cache=cache) for _ in range(repeats + 1)]
    imports, seconds, graphs = zip(*runs, strict=True)
    return {
        f"{name}: graphs": f"{graphs[0]:,}",
        f"{name}: first use, seconds": round(seconds[0], 1),
        f"{name}: later, seconds (median of {repeats})": round(statistics.median(seconds[1:]), 2),
        f"{name}: importing torch, seconds (median)": round(statistics.median(imports), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["zinc", "zinc-full", "qm9"], metavar="NAME")
    parser.add_argument("--data-dir", default=os.environ.get("POINTSET_DATA", "../shared/data"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    figures: dict[str, object] = {}
    for name in arguments.names:
        figures |= ready(name, arguments.data_dir, arguments.repeats)
    counts = [output_of(COUNTS, threads="1") for _ in range(3)]
    figures["13 counts for every node of 5,000 graphs, 1 thread, seconds (median of 3)"] = round(
        statistics.median(counts), 1
    )
    report("Datasets, ready to train on", {**figures, **machine(version("torch"))}, arguments.json)


if __name__ == "__main__":
    main()
