"""Rows of fingerprints: a random forest or boosting on Morgan counts in the place of a trained model.

:func:`fingerprint_recipe` says what such a run learns from, :func:`run_fingerprints` makes it, in a folder like that of
a training, and :func:`fingerprint_note` tells which setting was chosen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pointset.arrays import Integers
from pointset.baselines.fingerprints import SETTINGS, Examples, Learner, Tuned, tuned
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import Dataset
from pointset.datasets.molecules.descriptors import morgan_matrix
from pointset.datasets.molecules.reader import smiles_of_graph
from pointset.errors import SpecError
from pointset.files import replacing, write_json
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.result import TEST_SCORED, DatasetNames, RunResult, environment, read_result
from pointset.text import duration
from pointset.training.data import read_dataset
from pointset.training.scoring import Scores, check_metric, score

_PARTS = ("train", "val", "test")


def fingerprint_recipe(recipe: Recipe, learner: Learner) -> Recipe:
    """The data, split, metric and seed of a recipe: whatever else it says is of a model and its training."""
    dataset = recipe.dataset.model_copy(update={"weighted_edges": None})
    return Recipe.from_dict(
        {
            "name": f"{recipe.name}-{fingerprint_model(learner)}",
            "dataset": dataset.model_dump(mode="json"),
            "metric": recipe.metric,
            "scale_targets": recipe.scale_targets,
            "seed": recipe.seed,
            "trainer": {"epochs": 1, "batch_size": 1, "threads": recipe.trainer.threads},
        }
    )


def fingerprint_model(learner: Learner) -> str:
    """``ecfp-forest``: what it is called among models."""
    return f"ecfp-{learner}"


def run_fingerprints(
    recipe: Recipe,
    learner: Learner,
    path: str | Path,
    *,
    minutes: float | None = None,
    data_dir: str | Path | None = None,
    progress: bool | None = False,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train and tune on the training and validation part, score the test part once, write the folder; the result.

    A finished run is only read; one that was interrupted begins anew, as it takes minutes.

    Args:
        recipe: from :func:`fingerprint_recipe`; ``trainer.threads`` is how many threads it takes, by default one.
        learner: ``"forest"`` or ``"boosting"``.
        path: the run's folder.
        minutes: a limit on the time of all three settings together.
        data_dir: where the data lies.
        progress: shows bars.
        tell: gets a line for each setting.

    Raises:
        SpecError: the data has no molecules, or no validation part.
        MissingDataError: the data is nowhere.
        MissingExtraError: RDKit or scikit-learn is not installed.
    """
    folder = RunFolder(path)
    with folder.claim(resume=True):
        if folder.is_finished:
            return read_result(folder.result)
        about = environment(device="cpu", processes=1, threads=recipe.trainer.threads or 1)
        dataset = read_dataset(recipe, data_dir, progress=progress)
        result = _trained(recipe, dataset, learner, minutes, progress, tell)
        with replacing(folder.recipe) as temporary:
            temporary.write_text(recipe.as_yaml(), encoding="utf-8")
        write_json(folder.environment, about)
        write_json(folder.result, result)
        return read_result(folder.result)


def _trained(
    recipe: Recipe,
    dataset: Dataset,
    learner: Learner,
    minutes: float | None,
    progress: bool | None,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """The result, of which the test part is scored once."""
    start, card = time.monotonic(), dataset.card
    parts = {name: np.asarray(dataset.split.get(name, ()), dtype=np.int64) for name in _PARTS}
    counts, targets = _counts(dataset, parts, progress), _targets(dataset)
    metric = check_metric(recipe.metric, card)
    sign = -1.0 if metric_named(metric).higher_is_better else 1.0
    scale = dataset.target_scale() if card.task is Task.REGRESSION else None

    def scores(part: str, answers: Any) -> Scores:
        return score(torch.from_numpy(answers), targets[torch.from_numpy(parts[part])], card, scale)

    train, val = (Examples(counts[name], targets[torch.from_numpy(parts[name])].numpy()) for name in _PARTS[:2])
    found = tuned(
        learner,
        train if dataset.weights is None else train._replace(weights=dataset.weights[parts["train"]]),
        val,
        counts["test"],
        lambda answers: sign * scores("val", answers).overall[metric],
        task=card.task,
        outputs=card.outputs,
        seed=recipe.seed,
        minutes=minutes,
        threads=recipe.trainer.threads or 1,
        tell=tell,
    )
    test = scores("test", found.answers) if len(parts["test"]) else Scores({}, {})
    return _result(recipe, dataset, metric, test, time.monotonic() - start) | {
        "val": {metric: sign * found.best.loss},
        "fingerprints": _about(learner, found, minutes, sign),
        "model": {"preset": fingerprint_model(learner), SETTINGS[learner][0]: found.best.value},
    }


def _counts(dataset: Dataset, parts: Mapping[str, Integers], progress: bool | None) -> dict[str, Any]:
    """(G, 2048) of each part."""
    return {
        name: morgan_matrix([_smiles(dataset, graph) for graph in graphs.tolist()], workers=1, progress=progress)
        for name, graphs in parts.items()
    }


def _smiles(dataset: Dataset, graph: int) -> str:
    if dataset.smiles is not None:
        return dataset.smiles[graph]
    found = smiles_of_graph(dataset.card.molecules, dataset.arrays[graph])
    if found is None or dataset.card.level is Level.NODE:
        raise SpecError(f"{dataset.card.name} has no molecules; expected some to compute fingerprints of")
    return found


def _targets(dataset: Dataset) -> torch.Tensor:
    """(G, k) float64 with NaN, or (G,) classes."""
    y = dataset.targets
    if y is None:
        raise SpecError(f"{dataset.card.name} has no targets; expected some to learn from")
    return y if dataset.card.task is Task.MULTI_CLASS else y.to(torch.float64)


def _result(recipe: Recipe, dataset: Dataset, metric: str, test: Scores, seconds: float) -> dict[str, Any]:
    """What ``result.json`` of a training holds, as far as there is such a thing."""
    card = dataset.card
    result = RunResult(
        recipe=recipe.name,
        dataset=DatasetNames(name=card.name, title=card.title),
        task=card.task,
        level=card.level.value,
        metric=metric,
        higher_is_better=metric_named(metric).higher_is_better,
        test=dict(test.overall),
        per_target={target: dict(scores) for target, scores in test.per_target.items()},
        seconds=round(seconds, 3),
        seed=recipe.seed,
        fold=recipe.dataset.fold,
        units={target.name: target.unit for target in card.targets},
        split_sizes={part: len(graphs) for part, graphs in dataset.split.items()},
        test_scored=TEST_SCORED.replace("the weights of the best epoch", "the best of three settings"),
    )
    return result.model_dump(mode="json")


def _about(learner: Learner, found: Tuned, minutes: float | None, sign: float) -> dict[str, Any]:
    """Plain values: what was tried, what was chosen, and whether the time ended it."""
    return {
        "setting": SETTINGS[learner][0],
        "value": found.best.value,
        "trees": found.best.trees,
        "minutes": minutes,
        "is_limited": found.best.is_limited,
        "tried": [
            {"value": trial.value, "val": sign * trial.loss, "trees": trial.trees, "is_limited": trial.is_limited}
            for trial in found.trials
        ],
    }


def fingerprint_note(result: Mapping[str, Any]) -> str:
    """``learning_rate 0.1, the best of 0.03, 0.1, 0.3 on validation``, and whether the time ended it."""
    about = result.get("fingerprints")
    if not isinstance(about, Mapping):
        return ""
    tried = ", ".join(f"{one['value']:g}" for one in about["tried"])
    limit = f"; limited to {duration(60 * about['minutes'])}" if about["is_limited"] else ""
    return f"{about['setting']} {about['value']:g}, the best of {tried} on validation{limit}"
