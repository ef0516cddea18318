"""How fast a table of SMILES is predicted, what each step costs, and how much memory it takes.

    python benchmarks/mass_prediction.py [--rows 100000] [--preset pst] [--dim 28] [--layers 4] [--workers N]
        [--run RUN] [--sets muv mapk1_screen] [--data-dir DIR] [--json results/mass_prediction.json]

A whole process of `pointset predict`, with random weights or with the model of a RUN (which may have descriptors,
intervals and a domain), reads a CSV of drug-like molecules: those of MUV (93,087, from
PubChem, written canonically by RDKit) and of a screen against MAPK1 (62,937, written otherwise, which takes a third
longer to read), shuffled and repeated to the number of rows, one in a hundred spoiled. Its speed without the start-up
is taken between the first and the last entry in its journal. Memory is that of the process and of all its workers
together, sampled while it runs: it must not grow. The steps are then timed one by one on one thread, in processor time.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pointset
from common import machine, report
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.datasets.molecules.parallel import read_chunk
from pointset.files import csv_lines
from pointset.prediction.engine import Outcomes
from pointset.prediction.predictor import load
from pointset.prediction.smiles import Window, in_chunks
from pointset.prediction.tables import PredictionOptions, TablePrediction
from pointset.training.bundle import write_bundle

PROGRAM = """
import sys
from pathlib import Path
from pointset.cli.predict import answer_rows
from pointset.prediction.tables import PredictionOptions
run, table, output, workers, cluster = sys.argv[1:]
options = PredictionOptions(table, workers=None if workers == "None" else int(workers))
plain = {"public_key": None, "device": "cpu", "overwrite": False, "restart": False, "quiet": True}
if __name__ == "__main__":
    answer_rows(Path(run), options, Path(output), **plain, cluster=cluster or None)
"""
SAMPLES = 10  # of the memory, in the report
TIMED_ROWS = 4_096  # in the table of steps


def write_model(path: Path, preset: str, dim: int, layers: int) -> None:
    """A bundle with random weights."""
    card = Card(
        "molecules", "molecules", "", Level.GRAPH, Task.REGRESSION, (Target("value"),), Metric.MAE, "", **OGB_FEATURES
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = pointset.PointModel.from_preset(preset, node=card.node, edge=card.edge, dim=dim, layers=layers)
    write_bundle(path, model, card)


def molecules(data_dir: Path, names: list[str]) -> list[str]:
    """The SMILES of these sets, shuffled together."""
    found: list[str] = []
    for name in names:
        with gzip.open(data_dir / "molecules" / f"{name}.csv.gz", "rt") as file:
            rows = csv.reader(file)
            column = next(at for at, cell in enumerate(next(rows)) if cell.lower() == "smiles")
            found += [row[column] for row in rows]
    random.Random(0).shuffle(found)
    return found


def write_rows(path: Path, smiles: list[str], rows: int) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "smiles"])
        for number, text in enumerate(itertools.islice(itertools.cycle(smiles), rows)):
            writer.writerow([number, text if number % 100 else "C1CC(bad"])


def megabytes(process: int) -> tuple[float, float]:
    """Resident memory of a process, and of its children together."""

    def resident(number: int) -> float:
        try:
            lines = Path(f"/proc/{number}/status").read_text().splitlines()
        except OSError:  # it has just ended
            return 0.0
        return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS:")), 0.0)

    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        children = []
    return resident(process), sum(resident(int(child)) for child in children)


def predicted(
    folder: Path, run: Path, rows: int, smiles: list[str], workers: int | None, cluster: str = ""
) -> dict[str, object]:
    """A whole `pointset predict`: its speed and its memory."""
    table, output = folder / f"{rows}.csv", folder / f"{rows}_out.csv"
    output.unlink(missing_ok=True)
    write_rows(table, smiles, rows)
    arguments = [str(run), str(table), str(output), str(workers), cluster]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    memory: list[tuple[float, float, float]] = []
    entries: list[tuple[float, int]] = []
    said = folder / "stderr.txt"
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with said.open("w") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        while process.poll() is None:
            time.sleep(0.2)
            memory.append((time.perf_counter() - start, *megabytes(process.pid)))
            try:
                done = json.loads(Path(f"{output}.part.json").read_text())["progress"]["entries"]
            except (OSError, ValueError):
                continue
            if not entries or entries[-1][1] != done:
                entries.append((time.perf_counter() - start, done))
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if process.returncode:
        raise SystemExit(f"the command ended with {process.returncode}: {said.read_text()}")
    with output.open() as file:
        lines = sum(1 for _ in file)
    if lines != rows + 1:
        raise SystemExit(f"the output has {lines - 1:,} rows; expected {rows:,}")
    figures: dict[str, object] = {
        f"{rows:,} rows: seconds": round(seconds, 1),
        f"{rows:,} rows: molecules/s with start-up": round(rows / seconds),
        f"{rows:,} rows: µs of processor time for each": round(1e6 * cpu / rows),
    }
    if len(entries) > 1:
        (first, few), (last, many) = entries[0], entries[-1]
        figures[f"{rows:,} rows: molecules/s without start-up"] = round((many - few) / (last - first))
    peak = max(own + others for _, own, others in memory)
    figures[f"{rows:,} rows: peak MB of all processes"] = round(peak)
    chosen = [memory[len(memory) * part // SAMPLES] for part in range(1, SAMPLES)]
    figures[f"{rows:,} rows: MB of the process + its workers over time"] = ", ".join(
        f"{at:.0f} s {own:.0f} + {others:.0f}" for at, own, others in chosen
    )
    return figures


def step_costs(folder: Path, run: Path, smiles: list[str]) -> dict[str, object]:
    """Processor time of each step for a molecule, on one thread, the least of several tries."""
    torch.set_num_threads(1)
    table = folder / "steps.csv"
    write_rows(table, smiles, TIMED_ROWS)
    predictor = load(run)
    job = TablePrediction(predictor, PredictionOptions(str(table), workers=0))
    answering = job.answering
    engine, read, output = answering.engine, predictor.molecule_reader(fingerprint=True), answering.output
    prepare = engine.smiles_to_points(read)
    costs: dict[str, object] = {}

    def timed(step: str, work: Callable[[], Any], tries: int = 5) -> Any:
        least = float("inf")
        for _ in range(tries):
            start = time.process_time()
            result = work()
            least = min(least, time.process_time() - start)
        costs[f"µs for each: {step}"] = round(1e6 * least / TIMED_ROWS, 1)
        return result

    rows = timed("rows of the CSV", lambda: list(job.source.rows()))
    texts = list(in_chunks([row.item for row in rows], 1_024))
    timed("SMILES → molecules with features", lambda: [read_chunk(read, piece) for piece in texts])
    pieces = timed("SMILES → points, both of it", lambda: [prepare(piece) for piece in texts])
    timed("from process to process", lambda: [pickle.loads(pickle.dumps(piece, 5)) for piece in pieces])
    alone = predictor.predictions()
    nothing = alone._replace(rows=lambda batch: torch.zeros(batch.num_graphs, 1, dtype=torch.float64))
    timed("batches", lambda: [engine.outcomes(piece, nothing) for piece in pieces])
    timed("batches + model", lambda: [engine.outcomes(piece, alone) for piece in pieces], 2)
    found: list[Outcomes] = timed("the same + intervals", lambda: [engine.outcomes(one, output) for one in pieces], 2)

    def lines(start: int, window: Window, outcomes: Outcomes) -> bytes:
        of_rows = answering.columns.lines(rows[start : start + len(window.items)], window.items, outcomes)
        return "".join("".join(csv_lines(one)) for one in of_rows).encode()

    windows = list(zip(range(0, TIMED_ROWS, 1_024), pieces, found, strict=True))
    timed("lines of the output", lambda: [lines(*window) for window in windows])
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--preset", default="pst")
    parser.add_argument("--dim", type=int, default=28)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--run", type=Path, help="a finished run or a bundle, instead of random weights")
    parser.add_argument("--workers", type=int, help="processes that read SMILES; by default as the command chooses")
    parser.add_argument("--sets", nargs="+", default=["muv", "mapk1_screen"], choices=["muv", "mapk1_screen"])
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("POINTSET_DATA", "../shared/data")))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    smiles = molecules(arguments.data_dir, arguments.sets)
    figures: dict[str, object] = {"molecules": f"{', '.join(arguments.sets)}: {len(smiles):,}, one in 100 spoiled"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = arguments.run or folder / "model"
        if arguments.run is None:
            write_model(run, arguments.preset, arguments.dim, arguments.layers)
        figures["model"] = repr(load(run))
        for rows in arguments.rows:
            figures |= predicted(folder, run, rows, smiles, arguments.workers)
        figures |= step_costs(folder, run, smiles)
    report("Mass prediction of SMILES", {**figures, **machine(torch.__version__)}, arguments.json)


if __name__ == "__main__":
    main()
