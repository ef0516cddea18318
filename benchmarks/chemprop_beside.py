"""Chemprop on the molecules, splits and epochs of the tables qm9 and molhiv at the budget cpu, beside PST and GINE.

    python benchmarks/chemprop_beside.py --chemprop PATH [--data-dir DIR] [--json FILE]

``PATH`` is the program ``chemprop`` in an environment of its own (``pip install chemprop``), which pins other versions.
It is run with its default model, one thread, our batch size, epochs and training graphs, and is given SMILES. Its
predictions of the test part are scored here.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from rdkit import Chem, rdBase
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from pointset.datasets.dataset import Dataset
from pointset.paper.tables.plan import PlannedRun, Selection, plan_table
from pointset.paper.tables.result import Cell, Column, Row
from pointset.paper.tables.spec import table_named
from pointset.training.data import load_data
from result_tables import write_table

TABLES = ("molhiv", "qm9")


def write_molecules(path: Path, dataset: Dataset) -> int:
    """SMILES, targets and part of every molecule; how many RDKit cannot read, and chemprop so cannot either."""
    assert dataset.smiles is not None
    unread = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *(target.name for target in dataset.card.targets), "split"])
        for part, graphs in dataset.split.items():
            for graph in map(int, graphs):
                if Chem.MolFromSmiles(dataset.smiles[graph]) is None:
                    unread += 1
                else:
                    writer.writerow([dataset.smiles[graph], *dataset.graphs[graph].y.reshape(-1).tolist(), part])
    return unread


def trained(program: Path, run: PlannedRun, dataset: Dataset, folder: Path) -> tuple[list[float], int]:
    """Scores of the test part, one for each target, and how many molecules were left out."""
    unread = write_molecules(folder / "molecules.csv", dataset)
    names = [target.name for target in dataset.card.targets]
    kind = "regression" if run.task.metric == "mae" else "classification"
    settings = run.recipe.trainer
    words = [program, "train", "-i", folder / "molecules.csv", "-s", "smiles", "--splits-column", "split", "-t", kind]
    words += ["--epochs", settings.epochs, "--warmup-epochs", 1, "-b", settings.batch_size, "--pytorch-seed", run.seed]
    words += ["-n", 0, "--accelerator", "cpu", "-o", folder / "out", "--target-columns"]
    words += names
    subprocess.run([str(word) for word in words], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    truth = _columns(folder / "molecules.csv", part="test")
    predicted = _columns(folder / "out" / "model_0" / "test_predictions.csv")
    score = _mean_absolute_error if kind == "regression" else roc_auc_score
    return [float(score(truth[name], predicted[name])) for name in names], unread


def _mean_absolute_error(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.abs(truth - predicted).mean())


def _columns(path: Path, part: str | None = None) -> dict[str, np.ndarray]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if part is None or row["split"] == part]
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0] if key not in ("smiles", "split")}


def measured(table: str, arguments: argparse.Namespace) -> tuple[list[Column], dict[str, Cell]]:
    """The columns that PST fills in this table at the budget cpu, and chemprop's scores for them."""
    spec = table_named(table)
    run = plan_table(spec, "cpu", Selection(models=["pst"]), arguments.data_dir).chosen[0]
    with tempfile.TemporaryDirectory() as folder:
        dataset = load_data(run.recipe, arguments.data_dir).dataset
        scores, unread = trained(arguments.chemprop, run, dataset, Path(folder))
    keys = set(Column.model_fields)
    columns = [Column(**one.model_dump(include=keys)) for one in spec.printed_columns if one.key in run.task.columns]
    note = f"{unread} molecules could not be read" if unread else ""
    return columns, {one.key: Cell(mean=score, note=note) for one, score in zip(columns, scores, strict=True)}


def main() -> None:
    """Train on one set of molecules after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chemprop", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rdBase.DisableLog("rdApp.*")
    version = subprocess.check_output([arguments.chemprop, "--version"], text=True).strip()
    start = time.monotonic()
    columns: list[Column] = []
    cells: dict[str, Cell] = {}
    for table in TABLES:
        more, scores = measured(table, arguments)
        columns, cells = [*columns, *more], cells | scores
        print(table, {key: cell.mean for key, cell in scores.items()}, flush=True)
    if arguments.json is not None:
        write_table(
            arguments.json,
            "Chemprop on the same molecules",
            columns,
            [Row(title="chemprop", source="ours", model="chemprop", cells=cells)],
            scope=f"{version} with its default model (318,000 parameters), trained on the SMILES of the same "
            "molecules, with the splits, epochs and batches of the tables molhiv and qm9 at the budget cpu.",
            seconds=time.monotonic() - start,
            options="--chemprop PATH",
        )


if __name__ == "__main__":
    main()
