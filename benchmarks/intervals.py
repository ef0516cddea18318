"""Which difficulty gives the narrowest intervals at honest coverage, on finished runs of regressions of graphs.

    python benchmarks/intervals.py runs/esol runs/freesolv

For each choice of terms (pointset.training.difficulty) prints the coverage of 90 % intervals, their mean width and the
interval score (width + 20 · how far outside; lower is better), the latter two relative to intervals of equal width:
fitted on one half of the validation part and scored on the other (mean of 20 divisions), which is what the choice was
made by, and fitted on all of it and scored on the test part.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from pointset.arrays import Floats, Integers
from pointset.runs.folder import RunFolder
from pointset.runs.recipe_files import read_recipe
from pointset.training.bundle import read_bundle
from pointset.training.calibration import CONFIDENCE, IntervalCalibration
from pointset.training.data import TrainingData, load_data
from pointset.training.difficulty import Difficulty
from pointset.training.domain import Domain
from pointset.training.fit_uncertainty import fingerprints_of, graphs_with_errors, representations_of
from pointset.training.outputs import mean_outputs, outputs_for

DIVISIONS = 20
CHOICES = {
    "equal width": (),
    "errors of neighbours": ("errors",),
    "distance": ("distance",),
    "errors of neighbours, distance": ("errors", "distance"),
    "spread of members": ("spread",),
    "spread, errors of neighbours, distance": ("spread", "errors", "distance"),
}


def terms_of(run: Path) -> tuple[dict[str, Floats], Floats, TrainingData]:
    """Terms (G,) by name and errors (G,) of the first target, of all graphs of a run."""
    folder = RunFolder(run)
    bundle, data = read_bundle(folder.bundle), load_data(read_recipe(folder.recipe), progress=False)
    everything, known = np.arange(len(data.dataset)), graphs_with_errors(data)
    dtype = next(bundle.model.parameters()).dtype
    outputs = [data.restored(outputs_for(model, data, everything, dtype=dtype)) for model in bundle.models]
    members = torch.stack(outputs)
    errors = (data.targets(everything) - mean_outputs(members, data.card.task)).numpy()[:, 0]
    representations = representations_of(bundle.model, data, everything)
    fingerprints = fingerprints_of(data, everything)
    sizes, train = data.points.num_nodes, data.part("train")
    domain = Domain.fit(sizes[train], representations[known], None if fingerprints is None else fingerprints[train])
    if domain is None:
        raise SystemExit(f"{run} has too few graphs to train on")
    near = domain(sizes, representations, fingerprints)
    terms = {
        "errors": np.abs(errors[known])[near.neighbours].mean(1),
        "distance": near.distance if near.similarity is None else 1 - near.similarity,
    }
    if len(members) > 1:
        terms["spread"] = members.std(0).numpy()[:, 0]
    return terms, errors, data


def scored(terms: Floats, errors: Floats, fit: Integers, on: Integers) -> tuple[float, float, float]:
    """Coverage, mean width and interval score."""
    difficulty = Difficulty.fit(terms[fit], errors[fit])
    calibration = IntervalCalibration.fit(errors[fit], difficulty.sigma(terms[fit]))
    if calibration is None:
        raise SystemExit("the validation part has no targets")
    half = calibration.half_width(difficulty.sigma(terms[on]), CONFIDENCE)
    beyond = np.maximum(np.abs(errors[on]) - half, 0)
    inside = np.abs(errors[on]) <= half
    return float(inside.mean()), float(2 * half.mean()), float((2 * half + 2 / (1 - CONFIDENCE) * beyond).mean())


def compared(terms: Mapping[str, Floats], errors: Floats, data: TrainingData) -> dict[str, Floats]:
    """(6,) of each choice: coverage, width and score within the validation part, and on the test part."""
    val, test, random = data.part("val"), data.part("test"), np.random.default_rng(0)
    halves = [np.array_split(random.permutation(val), 2) for _ in range(DIVISIONS)]
    found = {}
    for name, chosen in CHOICES.items():
        if set(chosen) <= set(terms):
            stacked = np.stack([terms[one] for one in chosen], axis=1) if chosen else np.zeros((len(errors), 0))
            inner = np.mean([scored(stacked, errors, *pair) for pair in halves], axis=0)
            found[name] = np.array([*inner, *scored(stacked, errors, val, test)])
    return found


def main() -> None:
    """Print a table over all runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    found = {run.name: compared(*terms_of(run)) for run in parser.parse_args().runs}
    print("| difficulty | runs | val: coverage | width | score | test: coverage | width | score |")
    print("|---|---|---|---|---|---|---|---|")
    for name in CHOICES:
        rows = np.array([of_run[name] for of_run in found.values() if name in of_run])
        equal = np.array([of_run["equal width"] for of_run in found.values() if name in of_run])
        if not len(rows):
            continue
        ratios = np.exp(np.log(rows / equal).mean(0))  # geometric means
        cells = [rows[:, 0].mean(), ratios[1], ratios[2], rows[:, 3].mean(), ratios[4], ratios[5]]
        print(f"| {name} | {len(rows)} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
