"""Rows a second of `pointset predict` on a Dask cluster of this machine, beside the processes of the command itself.

    python benchmarks/cluster_rows.py [--rows 30000] [--preset pst-fast] [--repeats 2] [--json FILE]

The molecules, the model and the ways to measure are those of `mass_prediction.py`. Ways take turns, and of each the
fastest repeat counts, as others may use the machine meanwhile: how many they were is noted (the system's load).
Processor time, all processes together, says what the cluster costs beside the work itself.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import torch

from common import machine, report
from mass_prediction import molecules, predicted, write_model
from pointset.prediction.predictor import load

WAYS: dict[str, tuple[int | None, str]] = {  # processes that read SMILES, and the cluster
    "one process": (0, ""),
    "the command's own processes": (None, ""),
    "cluster, 1 worker": (None, "local:1"),
    "cluster, 2 workers": (None, "local:2"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--preset", default="pst-fast")
    parser.add_argument("--dim", type=int, default=60)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("POINTSET_DATA", "../shared/data")))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    smiles = molecules(arguments.data_dir, ["muv", "mapk1_screen"])
    figures: dict[str, object] = {"rows": f"{arguments.rows:,}"}
    loads, outputs = [], set()
    found: dict[str, list[dict[str, object]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model", arguments.preset, arguments.dim, arguments.layers)
        figures["model"] = repr(load(folder / "model"))
        for _ in range(arguments.repeats):
            for way, (workers, cluster) in WAYS.items():
                found[way].append(predicted(folder, folder / "model", arguments.rows, smiles, workers, cluster))
                loads.append(os.getloadavg()[0])
                outputs.add((folder / f"{arguments.rows}_out.csv").read_bytes())
    start = f"{arguments.rows:,} rows: "
    names = {
        "molecules/s with start-up": max,
        "molecules/s without start-up": max,
        "µs of processor time for each": min,
        "peak MB of all processes": max,
    }
    for way, repeats in found.items():
        for what, best in names.items():
            figures[f"{way}: {what}"] = best(float(str(one[start + what])) for one in repeats)
    figures["different outputs"] = len(outputs)
    figures["load of the machine (processes that want a core), from, to"] = f"{min(loads):.1f}, {max(loads):.1f}"
    report("Rows on a cluster", {**figures, **machine(torch.__version__)}, arguments.json)


if __name__ == "__main__":
    main()
