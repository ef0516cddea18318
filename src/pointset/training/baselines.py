"""What a run is measured against on the same graphs: a random forest on fingerprints, and plain means.

:func:`baseline_scores` gives ``baselines`` of the result; :func:`missing_baseline` says beforehand what it will lack.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from pointset.arrays import Floats, Integers
from pointset.baselines.forest import MOST_TRAINED, forest_outputs, mean_outputs, require_sklearn
from pointset.datasets.card import Level
from pointset.datasets.molecules.descriptors import morgan_matrix
from pointset.datasets.molecules.parsing import require_rdkit
from pointset.errors import MissingExtraError, SpecError
from pointset.training.data import TrainingData
from pointset.training.scoring import score

FOREST = "ecfp forest"
MEAN = "mean"
_SEED = 0  # of the forest, whatever the model's: seeds of a recipe are compared with the same baseline


def missing_baseline(data: TrainingData) -> str | None:
    """Why there will be no forest, in one line that says how to get it; None where there will be one or need not be."""
    if not _has_baselines(data):
        return None
    try:
        require_rdkit()
        require_sklearn()
    except MissingExtraError as error:
        return f"no {FOREST} to compare with: {error}"
    return None


def _has_baselines(data: TrainingData) -> bool:
    return data.dataset.smiles is not None and data.card.level is not Level.NODE


def baseline_scores(data: TrainingData, *, progress: bool | None = None) -> dict[str, dict[str, Any]]:
    """Scores of val and test by baseline; none where the graphs are not molecules or nodes are predicted.

    The forest learns from Morgan counts of the training part (of at most 20,000 molecules, ``train_graphs`` says of how
    many); ``val`` is only scored. Where a package is missing (:func:`missing_baseline`) there is no forest.

    Args:
        data: of the run; the targets are those of its evaluation, in their own units.
        progress: shows a bar; None shows it on a terminal.
    """
    if not _has_baselines(data):
        return {}
    asked = {part: graphs for part in ("val", "test") if len(graphs := data.part(part))}
    train = data.part("train")
    found = {MEAN: _scored(data, asked, train, _means(data, train, asked), time.monotonic())}
    if missing_baseline(data) is not None:
        return found
    begin = time.monotonic()
    if len(train) > MOST_TRAINED:
        train = np.sort(np.random.default_rng(_SEED).choice(train, MOST_TRAINED, replace=False))
    return {FOREST: _scored(data, asked, train, _forest(data, train, asked, progress), begin), **found}


def _forest(data: TrainingData, train: Integers, asked: dict[str, Integers], progress: bool | None) -> Floats:
    """(rows, outputs) for the graphs of all parts asked for, one after the other."""
    smiles = data.dataset.smiles
    if smiles is None:
        raise SpecError(f"{data.card.name} has no SMILES; expected molecules to compute fingerprints of")
    graphs = np.concatenate([train, *asked.values()])
    counts = morgan_matrix([smiles[graph] for graph in graphs], progress=progress)
    return forest_outputs(
        counts[: len(train)],
        data.targets(train).numpy(),
        counts[len(train) :],
        task=data.card.task,
        outputs=data.card.outputs,
        seed=_SEED,
        weights=_weights(data, train),
        progress=progress,
    )


def _means(data: TrainingData, train: Integers, asked: dict[str, Integers]) -> Floats:
    """As :func:`_forest`."""
    return mean_outputs(
        data.targets(train).numpy(),
        sum(map(len, asked.values())),
        task=data.card.task,
        outputs=data.card.outputs,
        weights=_weights(data, train),
    )


def _weights(data: TrainingData, train: Integers) -> Floats | None:
    return None if data.dataset.weights is None else data.dataset.weights[train]


def _scored(
    data: TrainingData, asked: dict[str, Integers], train: Integers, outputs: Floats, begin: float
) -> dict[str, Any]:
    """The entry of a baseline whose outputs are those of the parts, one after the other."""
    entry: dict[str, Any] = {}
    start = 0
    for part, graphs in asked.items():
        rows = torch.from_numpy(outputs[start : start + len(graphs)])
        entry[part] = dict(score(rows, data.targets(graphs), data.card, data.scale).overall)
        start += len(graphs)
    return entry | {"train_graphs": len(train), "seconds": round(time.monotonic() - begin, 3)}
