"""What a training leaves behind: the test part scored once, predictions, examples, bundle, result (:func:`finish`).

A run ends with one model, with snapshots of it, or, where it is an ensemble, with the models of its members: all are
:class:`Trained`, and predict the mean of their members.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.card import Card, Level
from pointset.datasets.molecules.reader import OGB_READER, MoleculeReader
from pointset.datasets.own.descriptor_table import is_file
from pointset.datasets.splits import PARTS
from pointset.encoders.model import PointModel
from pointset.files import read_json, write_json
from pointset.machine import peak_bytes
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.result import TEST_SCORED, DatasetNames, RunResult
from pointset.training.baselines import baseline_scores, missing_baseline
from pointset.training.bundle import write_bundle
from pointset.training.calibration import CONFIDENCE
from pointset.training.checkpoint import ProgressRecord
from pointset.training.data import TrainingData, names_of_descriptors
from pointset.training.devices import DTYPES
from pointset.training.fit_uncertainty import fit_uncertainty, graphs_with_errors, see
from pointset.training.outputs import examples_of, mean_outputs, neutral_of, outputs_for, write_predictions
from pointset.training.scoring import Scores, check_metric, score, score_with_intervals

_MOST_TRAIN_SCORED = 5000  # graphs of the training part: enough to see overfitting, in seconds
_SAMPLE_SEED = 0


@dataclass(frozen=True, eq=False)
class Trained:
    """The models that a training ends with, and how it went. Each of several ``processes`` has the same."""

    recipe: Recipe
    data: TrainingData
    folder: RunFolder
    models: tuple[PointModel, ...]  # in evaluation mode
    names: tuple[str, ...]  # of the models, for people: ``seed 3``, ``epoch 12``
    progress: ProgressRecord
    rank: int = 0
    processes: int = 1
    bars: bool | None = None  # whether work after the training shows a bar; None: on a terminal
    is_member: bool = False  # of an ensemble: what is scored, compared and calibrated is the ensemble, at its end

    @property
    def metric(self) -> str:
        """Which chose the best epoch."""
        return check_metric(self.recipe.metric, self.data.card)

    def member_outputs(self, graphs: Integers) -> Tensor:
        """(members, rows, k) float64: numbers in the targets' own units, or logits."""
        settings: dict[str, Any] = {"dtype": DTYPES[self.recipe.trainer.precision]}
        settings |= {"rank": self.rank, "processes": self.processes}
        return torch.stack(
            [self.data.restored(outputs_for(model, self.data, graphs, **settings)) for model in self.models]
        )

    def outputs(self, graphs: Integers) -> Tensor:
        """(rows, k) of all members together: the mean, or logits of the mean probability."""
        return mean_outputs(self.member_outputs(graphs), self.data.card.task)


def finish(trained: Trained) -> dict[str, Any]:
    """Score the test part, write what the run leaves behind; the result comes last."""
    data, recipe, folder = trained.data, trained.recipe, trained.folder
    graphs = data.part("test")
    members = {part: trained.member_outputs(data.part(part)) for part in ("val", "test")}
    known = trained.member_outputs(graphs_with_errors(data))
    outputs = {part: mean_outputs(of_part, data.card.task) for part, of_part in members.items()}
    test = _scores(trained, "test", outputs["test"])
    result = _result(trained, test) | _part_scores(trained, outputs, test) | _member_scores(trained, members)
    if trained.rank:
        return result
    if recipe.trainer.baseline and not trained.is_member:
        result["baselines"] = baseline_scores(data, progress=trained.bars)
        result["warnings"] += filter(None, [missing_baseline(data)])
    uncertainty = fit_uncertainty(trained.models[0], data, {"known": known, "val": members["val"]})
    if len(graphs):
        seen = see(trained.models[0], data, graphs, members["test"], uncertainty.domain)
        answers = uncertainty(seen, threads=torch.get_num_threads())
        spread = None if data.scale is None else data.scale.std.numpy()
        result |= uncertainty.report(answers, data.targets(graphs), CONFIDENCE, spread)
        columns, numbers = uncertainty.columns(), uncertainty.numbers(answers)
        write_predictions(folder.predictions, data, graphs, answers.predictions, (columns, numbers))
        settings: dict[str, Any] = {"temperatures": uncertainty.temperatures, "descriptors": recipe.model.descriptors}
        predicted = torch.from_numpy(answers.predictions)
        write_json(folder.examples, examples_of(trained.models, data, graphs, predicted, **settings))
    write_bundle(
        folder.bundle,
        trained.models,
        data.card,
        scale=data.scale,
        weighted_edges=recipe.dataset.weighted_edges,
        edge_weight_offset=recipe.dataset.edge_weight_offset,
        molecule_reader=_reader_settings(recipe, data.card),
        neutral=neutral_of(trained.models[0], data) if data.card.molecules is not None else None,
        about={
            "recipe": recipe.name,
            "seed": recipe.seed,
            "metric": trained.metric,
            "test": test.overall,
            "descriptors": recipe.model.descriptors,
            "descriptor_columns": _columns_of_file(recipe),
        },
        uncertainty=uncertainty,
    )
    write_json(folder.result, result)
    return read_json(folder.result)


def _scores(trained: Trained, part: str, outputs: Tensor) -> Scores:
    """Of outputs (rows, k) for a part; empty where the part is."""
    data, graphs = trained.data, trained.data.part(part)
    return score(outputs, data.targets(graphs), data.card, data.scale) if len(graphs) else Scores({}, {})


def _result(trained: Trained, test: Scores) -> dict[str, Any]:
    """The content of ``result.json``; ``test`` is empty where there is no test part."""
    recipe, progress, card = trained.recipe, trained.progress, trained.data.card
    best = next((row for row in progress.history if row.epoch == progress.best_epoch), None)
    speeds = sorted(row.graphs_per_second for row in progress.history)
    several = len(trained.models) > 1
    scored = TEST_SCORED if not several else f"once, at the end, with the mean of {len(trained.models)} members"
    result = RunResult(
        recipe=recipe.name,
        title=recipe.title,
        dataset=DatasetNames(name=card.name, title=card.title),
        model=recipe.model.model_dump(mode="json"),
        task=card.task,
        level=card.level.value,
        metric=trained.metric,
        higher_is_better=metric_named(trained.metric).higher_is_better,
        test=dict(test.overall),
        val={} if best is None else dict(best.val),
        per_target={target: dict(scores) for target, scores in test.per_target.items()},
        best_epoch=None if several else progress.best_epoch,
        epochs=progress.epoch,
        stopped_early=progress.stopped_early,
        parameters=sum(model.num_parameters for model in trained.models),
        seconds=round(progress.seconds, 3),
        graphs_per_second=speeds[len(speeds) // 2] if speeds else None,
        peak_memory_bytes=peak_bytes(),
        seed=recipe.seed,
        fold=recipe.dataset.fold,
        expected=recipe.expected,
        units={target.name: target.unit for target in card.targets},
        classes=list(card.classes),
        split_sizes={part: len(indices) for part, indices in trained.data.given.split.items()},
        split_of=trained.data.given.split_of.value,
        test_scored=scored if test.overall else "there is no test part",
        left_out=len(trained.data.dataset.rejected),
        warnings=trained.data.warnings,
    )
    return result.model_dump(mode="json")


def _member_scores(trained: Trained, members: Mapping[str, Tensor]) -> dict[str, Any]:
    """``members`` of the result, each scored alone, and ``val`` of their mean; nothing where there is one model.

    ``members`` gives (members, rows, k) of each part.
    """
    if len(trained.models) == 1:
        return {}
    mean = mean_outputs(members["val"], trained.data.card.task)
    found = []
    for at, name in enumerate(trained.names):
        scores = {part: dict(_scores(trained, part, outputs[at]).overall) for part, outputs in members.items()}
        found.append({"name": name, **scores})
    return {"members": found, "val": dict(_scores(trained, "val", mean).overall)}


def _part_scores(trained: Trained, outputs: Mapping[str, Tensor], test: Scores) -> dict[str, Any]:
    """``parts`` and ``part_graphs`` of the result: every part with intervals; the test part is not scored again."""
    data, parts, counts = trained.data, {}, {}
    for part in PARTS:
        graphs = data.part(part)
        if len(graphs) > _MOST_TRAIN_SCORED and part == "train":
            chosen = np.random.default_rng(_SAMPLE_SEED).choice(len(graphs), _MOST_TRAIN_SCORED, replace=False)
            graphs = graphs[np.sort(chosen)]
        if not len(graphs):
            continue
        rows = data.rows_in_part(graphs)
        nodes = data.points.num_nodes[graphs] if data.card.level is Level.NODE else np.ones_like(graphs)
        groups = np.repeat(np.arange(len(graphs)), nodes)  # nodes of a graph are drawn together
        found = score_with_intervals(
            (outputs[part] if part in outputs else trained.outputs(graphs))[rows],
            data.targets(graphs)[rows],
            data.card,
            data.scale,
            scores=test if part == "test" else None,
            groups=groups if data.within is None else None,  # unless they are in different parts
        )
        parts[part] = {metric: interval._asdict() for metric, interval in found.items()}
        counts[part] = len(graphs) if data.within is None else int(rows.sum())
    return {"parts": parts, "part_graphs": counts}


def _columns_of_file(recipe: Recipe) -> list[str] | None:
    """Of a table of descriptors, which predicting needs again; None where there is none."""
    descriptors = recipe.model.descriptors
    return list(names_of_descriptors(recipe)) if descriptors is not None and is_file(descriptors) else None


def _reader_settings(recipe: Recipe, card: Card) -> dict[str, Any] | None:
    """How the molecules were read: own ones by the options, benchmarks as OGB does."""
    if card.molecules is None:
        return None
    descriptors = recipe.model.descriptors
    described = {} if descriptors is None or is_file(descriptors) else {"descriptors": descriptors}
    if recipe.dataset.name is not None:
        return dataclasses.asdict(OGB_READER) | described
    known = [field.name for field in dataclasses.fields(MoleculeReader)]
    return {key: value for key, value in recipe.dataset.options.items() if key in known} | described
