"""How the defaults of ``pointset train molecules`` were chosen: variants of the recipe, on rows held out of training.

    python benchmarks/chemists_trials.py --sets freesolv delaney bace --seeds 0 1 --variants default "60 epochs"
    python benchmarks/chemists_trials.py --moleculeace FOLDER --sets CHEMBL2034_Ki CHEMBL234_Ki
    python benchmarks/chemists_trials.py --summary [--json FILE]

No test part is looked at, and Lipophilicity and Tox21 are not offered: they are reported, not chosen by. Of a set of
chemists.py the published training rows are trained on, but for a tenth of them, other scaffolds, as validation part,
and its published validation rows are scored. Of a set of MoleculeACE (its folder ``benchmark_data``; the package is on
the registry) two tenths of the training rows are drawn, one to validate and one to score. Of large sets 4,000 rows are
drawn.

A unit is a variant, a set and a seed. It leaves a JSON in the output folder and is skipped when that is there, so a
command that was stopped can be repeated, and two can run side by side.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from chemists_data import SETS, Integers, Molecules, load, scaffold_parts, write_training_table
from chemists_methods import TRAINING, Unit, pointset, run
from chemists_scores import METRICS
from pointset.files import read_json, try_lock, write_json

VARIANTS: dict[str, str] = {
    "default": "",
    "no descriptors": "model.descriptors=null",
    "Morgan counts only": "model.descriptors=morgan",
    "RDKit descriptors only": "model.descriptors=rdkit",
    "AdamW, 1e-3": "optimizer.method=adamw optimizer.lr=1e-3",
    "squared error": "loss=mse",
    "no dropout": "model.dropout=0",
    "dropout 0.4": "model.dropout=0.4",
    "learning rate 1e-3": "optimizer.lr=1e-3",
    "30 epochs": "trainer.epochs=30 trainer.min_steps=500",
    "60 epochs": "trainer.epochs=60 trainer.min_steps=1000",
    "last epoch": "trainer.validate_every=100000",
    "30 epochs, last": "trainer.epochs=30 trainer.min_steps=500 trainer.validate_every=100000",
    "batches of 64": "trainer.batch_size=64",
    "weight decay 0.1": "optimizer.weight_decay=0.1",
    "noise 0.05": "model.noise=0.05",
    "sum pooling": "model.pooling=sum",
    "96 channels": "model.dim=96",
    "6 layers": "model.layers=6",
}
NOT_OFFERED = ("lipo", "tox21")
MOST_ROWS = 4000
HELD_OUT = 0.1
METRIC = {kind: names[0] for kind, names in METRICS.items()}


def trial_rows(name: str, seed: int, options: argparse.Namespace) -> Molecules:
    """The molecules of a trial, with ``test`` for the rows that are scored."""
    draw = np.random.default_rng(seed)
    if name in SETS:
        known = load(name, seed, options.molecules)
        part = np.where(known.at("val"), "test", known.part)
        left = np.flatnonzero(~known.at("test"))
    else:
        known = _moleculeace(options.moleculeace / f"{name}.csv")
        part = known.part.copy()
        left = np.flatnonzero(known.at("train"))
        part[draw.permutation(left)[: round(HELD_OUT * len(left))]] = "test"
    rows = np.sort(draw.permutation(left)[:MOST_ROWS])
    training = rows[part[rows] == "train"]
    part[_validation(name, [known.smiles[row] for row in training], training, draw)] = "val"
    smiles = [known.smiles[row] for row in rows]
    return known._replace(rows=known.rows[rows], smiles=smiles, truth=known.truth[rows], part=part[rows])


def _validation(name: str, smiles: list[str], rows: Integers, draw: np.random.Generator) -> Integers:
    """A tenth of the rows: of other scaffolds where the part that is scored has other ones, else drawn at random."""
    if name not in SETS:
        return draw.permutation(rows)[: round(HELD_OUT * len(rows))]
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    scaffolds = [MurckoScaffoldSmiles(one) for one in smiles]  # type: ignore[no-untyped-call]
    chosen: Integers = rows[scaffold_parts(scaffolds, int(draw.integers(2**31))) == "val"]
    return chosen


def _moleculeace(path: Path) -> Molecules:
    with path.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    return Molecules(
        kind="regression",
        rows=np.arange(len(table)),
        smiles=[row["smiles"] for row in table],
        names=["y"],
        truth=np.array([[float(row["y"])] for row in table]),
        part=np.array([row["split"] for row in table], dtype="<U5"),
        left_out=0,
    )


def do_trial(variant: str, name: str, seed: int, options: argparse.Namespace) -> str:
    """Train one variant unless it is done; a line that says what came of it."""
    key = f"{variant}-{name}-{seed}".replace(" ", "_")
    record, folder = options.out / f"{key}.json", options.out / "work" / key
    with (options.out / f"{key}.lock").open("a") as lock:
        if not try_lock(lock) or record.exists():
            return f"{key}: done before, or another process is at it"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        molecules = trial_rows(name, seed, options)
        write_training_table(folder / TRAINING, molecules)
        method = pointset([*VARIANTS[variant].split(), "trainer.baseline=false"])
        unit = Unit(molecules.kind, molecules.names, seed, folder)
        with (options.out / f"{key}.log").open("w", encoding="utf-8") as log:
            used = run(method.train(unit), log, method.environment(folder))
        result = read_json(folder / "run" / "result.json")
        found: dict[str, Any] = {"variant": variant, "set": name, "seed": seed, "settings": VARIANTS[variant]}
        found |= {"metric": METRIC[molecules.kind], "score": result["test"][METRIC[molecules.kind]]}
        found |= {"val": result["val"], "best_epoch": result["best_epoch"], "coverage": result.get("calibration")}
        write_json(record, found | {"cpu_seconds": round(used.cpu_seconds, 1)})
        shutil.rmtree(folder)
        Path(lock.name).unlink()
    return f"{key}: {found['metric']} {found['score']:.4f}, {used.cpu_seconds:.0f} CPU seconds"


def summarise(folder: Path, reference: str, output: Path | None) -> None:
    """A table: the mean over seeds for each set, and all sets together relative to one variant."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    found = {(one["variant"], one["set"], one["seed"]): one for one in records}
    sets = sorted({(one["metric"], one["set"]) for one in records}, reverse=True)
    table: dict[str, Any] = {}
    for variant in VARIANTS:
        row: dict[str, Any] = {}
        for metric, name in sets:
            seeds = [seed for of, where, seed in found if of == variant and where == name]
            if seeds:
                scores = [found[variant, name, seed]["score"] for seed in seeds]
                row[name] = {"metric": metric, "mean": round(statistics.fmean(scores), 4), "seeds": seeds}
        if row:
            table[variant] = {"sets": row, **_against(reference, variant, found)}
    if output is not None:
        write_json(output, {"settings": VARIANTS, "reference": reference, "variants": table})
    names = [name for _, name in sets]
    print("| variant | " + " | ".join(names) + f" | error against {reference} | CPU time |")
    print("|---" * (len(names) + 3) + "|")
    for variant, row in table.items():
        cells = [f"{row['sets'][name]['mean']:.3f}" if name in row["sets"] else "–" for name in names]
        print(f"| {variant} | " + " | ".join(cells) + f" | {row['error']:.3f} ({row['runs']}) | {row['cpu']:.2f} |")


def _against(reference: str, variant: str, found: dict[tuple[str, str, int], dict[str, Any]]) -> dict[str, Any]:
    """Geometric means over the runs that both have: error (1 − ROC-AUC of classes) and CPU seconds, as ratios."""
    errors, times = [], []
    for (name, where, seed), one in found.items():
        base = found.get((reference, where, seed))
        if name == variant and base is not None:
            errors.append(math.log(_error(one) / _error(base)))
            times.append(math.log(one["cpu_seconds"] / base["cpu_seconds"]))
    means = [math.exp(statistics.fmean(logs)) if logs else math.nan for logs in (errors, times)]
    return {"error": round(means[0], 4), "cpu": round(means[1], 3), "runs": len(errors)}


def _error(record: dict[str, Any]) -> float:
    score = float(record["score"])
    return score if record["metric"] == "rmse" else 1 - score


def main() -> None:
    """Do all trials that are asked for, or summarise those that are done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    offered = [name for name in SETS if name not in NOT_OFFERED]
    parser.add_argument("--sets", nargs="+", default=["freesolv", "delaney", "bace"], metavar="SET")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--molecules", type=Path, default=Path("../shared/data/molecules"), metavar="FOLDER")
    parser.add_argument("--moleculeace", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("runs/chemists_trials"), metavar="FOLDER")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--reference", choices=VARIANTS, default="default", metavar="NAME", help="of the summary")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.summary:
        summarise(options.out, options.reference, options.json)
        return
    for name in options.sets:
        if name not in offered and (options.moleculeace is None or not (options.moleculeace / f"{name}.csv").exists()):
            parser.error(f"got the set {name!r}; expected one of {', '.join(offered)}, or a file in --moleculeace")
    options.out.mkdir(parents=True, exist_ok=True)
    units = [(variant, name, seed) for seed in options.seeds for variant in options.variants for name in options.sets]
    failed = 0
    for place, unit in enumerate(units, 1):
        try:
            said = do_trial(*unit, options)
        except RuntimeError as error:
            failed, said = failed + 1, f"{unit}: {error}"
        print(f"{time.strftime('%H:%M:%S')} [{place}/{len(units)}] {said}", flush=True)
    if failed:
        sys.exit(f"{failed} trials failed; repeat the command for them")


if __name__ == "__main__":
    main()
