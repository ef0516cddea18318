"""pointset beside chemprop, a random forest and gradient boosting, as a chemist would compare them.

    python benchmarks/chemists.py --chemprop PATH                       # every unit that is not done
    python benchmarks/chemists.py --methods forest boosting --sets bace --seeds 0
    python benchmarks/chemists.py --methods pointset --pointset-settings "trainer.epochs=30" --label short
    python benchmarks/chemists.py --summary [--json FILE]

Nine sets of MoleculeNet and AqSolDB, three scaffold splits each; every method is given the same rows and one thread.
A unit is a set, a seed and a method: it leaves a JSON and its predictions of val and test in the output folder, is
skipped when they are there, and is claimed by a lock, so that two commands can run side by side and one that was
killed can be repeated. ``PATH`` is the program ``chemprop`` in an environment of its own; it runs with its defaults.

CPU seconds and memory are those of the programs that train and predict, with all their processes. Prediction is
measured on at least 2,000 rows (a smaller set is repeated, written as other SMILES); start-up is the same program on
one row.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chemists_data import PARTS, SETS, Molecules, Reals, load, write_prediction_tables, write_training_table
from chemists_methods import PREDICTED, TRAINING, Method, Unit, Usage, method_named, read_predictions, run
from chemists_scores import METRICS, score
from chemists_summary import summarise
from pointset.files import read_json, replacing, try_lock, write_json

METHODS = ("pointset", "chemprop", "forest", "boosting")
SEEDS = (0, 1, 2)
SCORED = ("val", "test")


def measure(
    method: Method, molecules: Molecules, unit: Unit, log_file: Path
) -> tuple[dict[str, Any], dict[str, Reals]]:
    """Train and predict: the record of the unit, and arrays of the rows of val and test."""
    write_training_table(unit.folder / TRAINING, molecules)
    many, one = unit.folder / "many.csv", unit.folder / "one.csv"
    rows = write_prediction_tables(many, one, molecules.smiles)
    environment = method.environment(unit.folder)
    with log_file.open("w", encoding="utf-8") as log:
        training = run(method.train(unit), log, environment)
        start_up = run(method.predict(unit, one, unit.folder / "one_predicted.csv"), log, environment)
        prediction = run(method.predict(unit, many, unit.folder / PREDICTED), log, environment)
    arrays, missing = _scored_rows(method, molecules, unit)
    record = {
        "kind": molecules.kind,
        "version": method.version,
        "rows": {part: int(molecules.at(part).sum()) for part in PARTS},
        "rows_digest": molecules.digest,
        "left_out": molecules.left_out,
        "without_prediction": missing,
        "scores": _scores(molecules.kind, arrays),
        **_coverage(arrays),
        **_calibration(unit.folder / "run" / "result.json"),
        "training": _rounded(training),
        "prediction": _rounded(prediction)
        | {
            "rows": rows,
            "rows_per_cpu_second": round(rows / prediction.cpu_seconds, 1),
            "rows_per_cpu_second_after_start": round(
                rows / max(prediction.cpu_seconds - start_up.cpu_seconds, 0.01), 1
            ),
        },
        "start_up": _rounded(start_up),
        "date": date.today().isoformat(),
    }
    return record, arrays


def _scored_rows(method: Method, molecules: Molecules, unit: Unit) -> tuple[dict[str, Reals], int]:
    """Row numbers, truth and predictions of val and test; a missing prediction becomes the mean of training."""
    file, count = unit.folder / PREDICTED, len(molecules.rows)
    predicted = read_predictions(file, method.column, unit.names, count)
    if predicted is None:
        raise RuntimeError(f"{PREDICTED} lacks columns named {method.column.format(unit.names[0])!r} and so on")
    wanted = molecules.at("val") | molecules.at("test")
    absent = np.isnan(predicted)
    means = np.nanmean(molecules.truth[molecules.at("train")], axis=0)
    arrays = {
        "rows": molecules.rows[wanted],
        "is_test": molecules.at("test")[wanted],
        "truth": molecules.truth[wanted],
        "predicted": np.where(absent, means, predicted)[wanted],
    }
    for name in ("lower", "upper"):
        if (bound := read_predictions(file, name + "_{}", unit.names, count)) is not None:
            arrays[name] = bound[wanted]
    return arrays, int(absent[wanted].any(axis=1).sum())


def _scores(kind: str, arrays: dict[str, Reals]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for part in SCORED:
        inside = _part(arrays, part)
        pair = arrays["truth"][inside], arrays["predicted"][inside]
        found[part] = {metric: score(metric, *pair) for metric in METRICS[kind]}
    return found


def _part(arrays: dict[str, Reals], part: str) -> NDArray[np.bool_]:
    return np.asarray(arrays["is_test"] == (part == "test"))


def _coverage(arrays: dict[str, Reals]) -> dict[str, Any]:
    """Of the test rows, how many lie in their interval, and its mean width; nothing for a method without intervals."""
    if "lower" not in arrays or "upper" not in arrays:
        return {}
    inside = _part(arrays, "test")
    truth, lower, upper = (arrays[name][inside] for name in ("truth", "lower", "upper"))
    known = ~np.isnan(truth) & ~np.isnan(lower) & ~np.isnan(upper)
    hit = (lower <= truth) & (truth <= upper)
    return {"coverage": {"share": float(hit[known].mean()), "width": float((upper - lower)[known].mean())}}


def _calibration(result: Path) -> dict[str, Any]:
    """What a run says of its intervals or sets on the test part, also by similarity; nothing for other methods."""
    if not result.exists():
        return {}
    found = read_json(result)["calibration"]
    known = [one for one in found["per_target"].values() if one["coverage"] is not None]
    rows = sum(one["rows"] for one in known)
    share = sum(one["rows"] * one["coverage"] for one in known) / rows if rows else None
    return {"held": {"kind": found["kind"], "rows": rows, "share": share, "by_similarity": found["by_similarity"]}}


def _rounded(usage: Usage) -> dict[str, float]:
    return {name: round(value, 2) for name, value in usage._asdict().items()}


def do_unit(name: str, seed: int, method: str, options: argparse.Namespace) -> str:
    """Do one unit unless it is done or another process is at it; a line that says what came of it."""
    label = options.label if method == "pointset" and options.label else method
    key = f"{name}-{seed}-{label}"
    record_file, arrays_file = options.out / f"{key}.json", options.out / f"{key}.npz"
    lock_file = options.out / f"{key}.lock"
    with lock_file.open("a") as lock:
        if not try_lock(lock):
            return f"{key}: another process is at it"
        if record_file.exists():
            lock_file.unlink()
            return f"{key}: done before"
        folder = options.out / "work" / key
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        molecules = load(name, seed, options.molecules)
        unit = Unit(molecules.kind, molecules.names, seed, folder)
        found, arrays = measure(method_named(method, options), molecules, unit, options.out / f"{key}.log")
        with replacing(arrays_file) as temporary:
            np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]
        settings = options.pointset_settings if method == "pointset" else ""
        write_json(record_file, {"set": name, "seed": seed, "method": label, "settings": settings, **found})
        shutil.rmtree(folder)
        lock_file.unlink()
    training, tests = found["training"], found["scores"]["test"]
    scores = ", ".join(f"{metric} {value:.4f}" for metric, value in tests.items())
    return f"{key}: {scores}, {training['cpu_seconds']:.0f} CPU seconds, {training['peak_mb']:.0f} MB"


def main() -> None:
    """Do all units that are asked for, seed after seed, or summarise those that are done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--chemprop", type=Path, metavar="PATH")
    parser.add_argument("--pointset-settings", default="", metavar="KEY=VALUE …", help="added to the recipe")
    parser.add_argument("--label", default="", help="of pointset with these settings, in the files and the summary")
    parser.add_argument("--molecules", type=Path, default=Path("../shared/data/molecules"), metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("runs/chemists"), metavar="FOLDER")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.summary:
        summarise(options.out, options.label or "pointset", options.json)
        return
    if options.pointset_settings and not options.label:
        parser.error("--pointset-settings needs --label NAME: results with other settings are kept apart")
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a program that runs is ended too
    units = [(name, seed, method) for seed in options.seeds for name in options.sets for method in options.methods]
    failed = 0
    for place, unit in enumerate(units, 1):
        try:
            said = do_unit(*unit, options)
        except RuntimeError as error:
            failed, said = failed + 1, f"{unit}: {error}"
        print(f"{time.strftime('%H:%M:%S')} [{place}/{len(units)}] {said}", flush=True)
    if failed:
        sys.exit(f"{failed} units failed; repeat the command for them")


if __name__ == "__main__":
    main()
