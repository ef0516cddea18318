"""A trained model scored again, on a part of its own data or on other data (:func:`evaluate`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.card import Card, Level
from pointset.datasets.splits import PARTS
from pointset.errors import MissingDataError, SpecError, did_you_mean
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe_files import changed, read_recipe
from pointset.runs.result import read_result
from pointset.training.bundle import Bundle, read_bundle
from pointset.training.calibration import CONFIDENCE
from pointset.training.data import TrainingData, load_data
from pointset.training.fit_uncertainty import see
from pointset.training.outputs import mean_outputs, outputs_for
from pointset.training.scoring import score, score_with_intervals

_ALL_PARTS = "all"


def evaluate(
    run_dir: str | Path,
    *,
    part: str = "test",
    data_dir: str | Path | None = None,
    file: str | Path | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Scores of a run's model.

    Args:
        run_dir: the folder of a finished run.
        part: ``"test"``, ``"val"``, ``"train"`` or ``"all"``, of the run's own split.
        data_dir: where the data lies.
        file: other data of the same kind, all of it, with the same targets.
        progress: whether to show bars; by default where there is a terminal.

    Returns:
        ``part``, ``graphs``, ``left_out`` (rows of own data that cannot be used), ``limits`` (targets such as ``>3``,
        which are not scored), ``metric``, ``higher_is_better``, ``scores``, ``intervals`` (each with ``value``,
        ``lower`` and ``upper``: 95 % over resamples of the rows) and ``per_target``; for the test part also
        ``recorded``, the scores that the run itself recorded.

    Raises:
        MissingDataError: there is no finished run, or its data cannot be found.
        SpecError: there is no such part, or the data has other targets.
    """
    folder = RunFolder(run_dir)
    if not folder.is_finished or not folder.has_run:
        hint = "resume it with `pointset train --resume`" if folder.has_run else "train one with `pointset train`"
        raise MissingDataError(f"there is no finished run in {folder.path}; {hint}")
    known = [*PARTS, _ALL_PARTS]
    if part not in known:
        raise SpecError(f"got part {part!r}; expected one of {', '.join(known)}{did_you_mean(str(part), known)}")
    recipe, bundle = read_recipe(folder.recipe), read_bundle(folder.bundle)
    if file is not None:
        chosen: dict[str, Any] = {"dataset.name": None, "dataset.file": str(file), "dataset.fold": None}
        chosen["dataset.weight_column"] = None  # scores have no weights
        chosen |= {"dataset.val_file": None, "dataset.test_file": None}
        if recipe.dataset.targets is None:
            chosen["dataset.targets"] = list(bundle.card.target_names)  # what the model predicts is not guessed again
        recipe = changed(recipe, chosen)
        part = _ALL_PARTS
    data = load_data(recipe, data_dir, progress=progress)
    _check_alike(bundle.card, data.card)
    graphs = np.arange(len(data.dataset)) if part == _ALL_PARTS else data.part(part)
    if not len(graphs):
        raise SpecError(f"{data.card.name} has no graphs in its part {part!r}; expected some to score")
    dtype = next(bundle.model.parameters()).dtype
    members = torch.stack([outputs_for(model, data, graphs, dtype=dtype) for model in bundle.models])
    members = members if bundle.scale is None else bundle.scale.restore(members)
    outputs = mean_outputs(members, data.card.task)
    targets, nodes = data.targets(graphs), data.points.num_nodes[graphs]
    scores = score(outputs, targets, data.card, bundle.scale)
    rows = np.repeat(np.arange(len(graphs)), nodes) if data.card.level is Level.NODE else None
    intervals = score_with_intervals(outputs, targets, data.card, bundle.scale, scores=scores, groups=rows)
    recorded = read_result(folder.result)
    return {
        "run": str(folder.path),
        "data": str(file) if file is not None else data.card.name,
        "part": part,
        "graphs": len(graphs),
        "left_out": len(data.dataset.rejected),
        "limits": data.limits(graphs),
        "metric": recorded["metric"],
        "higher_is_better": metric_named(recorded["metric"]).higher_is_better,
        "scores": scores.overall,
        "intervals": {metric: interval._asdict() for metric, interval in intervals.items()},
        "per_target": scores.per_target,
        "recorded": recorded["test"] if part == "test" else None,
        **_coverage(bundle, data, graphs, members),
    }


def _coverage(bundle: Bundle, data: TrainingData, graphs: Integers, members: Tensor) -> dict[str, Any]:
    """``calibration`` and ``domain`` as in result.json; nothing where the bundle has neither."""
    found = bundle.uncertainty
    if found is None:
        return {}
    answers = found(see(bundle.model, data, graphs, members, found.domain), threads=torch.get_num_threads())
    spread = None if bundle.scale is None else bundle.scale.std.numpy()
    return found.report(answers, data.targets(graphs), CONFIDENCE, spread)


def _check_alike(trained: Card, given: Card) -> None:
    for what, before, now in (
        ("targets", trained.target_names, given.target_names),
        ("classes", trained.classes, given.classes),
        ("a task", (trained.task.value,), (given.task.value,)),
    ):
        if before != now:
            raise SpecError(
                f"the data has {what} {', '.join(now) or 'none'}; expected {', '.join(before) or 'none'}, "
                "which the model was trained for"
            )
