"""How fast a table of SMILES is predicted, and how much memory that takes: whole processes of `pointset predict`.

    python benchmarks/mass_prediction.py [--rows 100000] [--workers N] [--data-dir DIR] [--json FILE]

Molecules of ogbg-molhiv, again and again, one in a hundred spoiled. A small model with random weights (PST, 2 layers of
16): the model's own speed is in encoder_speed.py. Memory is the peak of the process and of its largest worker, once for
a fifth of the rows and once for all: it must not grow with them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import pointset
from common import machine, report
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.training.bundle import write_bundle

# The command, then the peak memory of itself and of its largest worker in kB.
PROGRAM = """
import resource, sys
from pathlib import Path
from pointset.cli.predict import answer_rows
from pointset.prediction.tables import PredictionOptions
run, table, output, workers = sys.argv[1:]
options = PredictionOptions(table, workers=None if workers == "None" else int(workers))
answer_rows(Path(run), options, Path(output), device="cpu", overwrite=False, restart=False, quiet=True)
print(*(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
"""


def write_model(path: Path) -> None:
    card = Card(
        "molecules", "molecules", "", Level.GRAPH, Task.REGRESSION, (Target("value"),), Metric.MAE, "", **OGB_FEATURES
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = pointset.PointModel.from_preset("pst", node=card.node, edge=card.edge, dim=16, layers=2)
    write_bundle(path, model, card)


def write_rows(path: Path, smiles: list[str], rows: int) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "smiles"])
        for number, text in enumerate(itertools.islice(itertools.cycle(smiles), rows)):
            writer.writerow([number, text if number % 100 else "C1CC(bad"])


def measured(folder: Path, rows: int, smiles: list[str], workers: int | None) -> tuple[float, float, float]:
    """Seconds, MB of the process, MB of its largest worker."""
    table, output = folder / f"{rows}.csv", folder / f"{rows}_out.csv"
    write_rows(table, smiles, rows)
    arguments = [str(folder / "model"), str(table), str(output), str(workers)]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, check=True, text=True)
    seconds = time.perf_counter() - start
    with output.open() as file:
        assert sum(1 for _ in file) == rows + 1
    own, worker = (int(number) / 1000 for number in done.stdout.split())
    return seconds, own, worker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, help="processes that read SMILES; by default as the command chooses")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("POINTSET_DATA", "../shared/data")))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    with gzip.open(arguments.data_dir / "molhiv" / "molhiv.csv.gz", "rt") as file:
        smiles = [row["smiles"] for row in itertools.islice(csv.DictReader(file), 2_000)]
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        write_model(Path(name) / "model")
        for rows in (arguments.rows // 5, arguments.rows):
            seconds, own, worker = measured(Path(name), rows, smiles, arguments.workers)
            figures[f"{rows:,} rows: seconds, rows/s"] = f"{seconds:.1f}, {rows / seconds:,.0f}"
            figures[f"{rows:,} rows: peak MB of the process, of its largest worker"] = f"{own:,.0f}, {worker:,.0f}"
    report("Mass prediction of SMILES", {**figures, **machine(torch.__version__)}, arguments.json)


if __name__ == "__main__":
    main()
