"""A trained model scored again, on a part of its own data or on other data (:func:`evaluate`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.card import Card, Level
from pointset.datasets.splits import PARTS
from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import changed, read_recipe
from pointset.runs.result import read_result
from pointset.text import counted
from pointset.training.bundle import Bundle, read_bundle
from pointset.training.calibration import CONFIDENCE
from pointset.training.data import TrainingData, load_data
from pointset.training.fit_uncertainty import see
from pointset.training.outputs import mean_outputs, outputs_for
from pointset.training.scoring import score, score_with_intervals

_ALL_PARTS = "all"
_UNDIVIDED = [1.0, 0.0, 0.0]  # shares of the parts of a file that is scored as a whole


def evaluate(
    run_dir: str | Path,
    *,
    part: str = "test",
    data_dir: str | Path | None = None,
    file: str | Path | None = None,
    targets: Sequence[str] | None = None,
    public_key: str | Path | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Scores of a run's model.

    Args:
        run_dir: the folder of a finished run, or a bundle that holds its recipe, as shipped models do (their name is
            enough).
        part: ``"test"``, ``"val"``, ``"train"`` or ``"all"``, of the run's own split.
        data_dir: where the data lies.
        file: other data of the same kind, all of it, with the same targets.
        targets: columns of the file with the true values, in the order of the model's targets; by default those that
            are called as its targets.
        public_key: the file of the key that the bundle must be signed with (:func:`pointset.load`).
        progress: whether to show bars; by default where there is a terminal.

    Returns:
        ``part``, ``graphs`` (how many were scored; of a node task the nodes), ``left_out`` (rows of own data that
        cannot be used), ``limits`` (targets such as ``>3``, which are not scored), ``metric``, ``higher_is_better``,
        ``scores``, ``intervals`` (each with ``value``, ``lower`` and ``upper``: 95 % over resamples of the rows) and
        ``per_target``; for the test part also
        ``recorded``, the scores that the run itself recorded.

    Raises:
        MissingDataError: there is no finished run, or its data cannot be found.
        SpecError: there is no such part, or the data has other targets.
        SignatureError: the bundle is not signed with this key.
    """
    known = [*PARTS, _ALL_PARTS]
    if part not in known:
        raise SpecError(f"got part {part!r}; expected one of {', '.join(known)}{did_you_mean(str(part), known)}")
    recipe, bundle, metric, recorded = _recorded(RunFolder(run_dir), public_key)
    if file is not None:
        recipe, part = _with_file(recipe, file, bundle.card, targets), _ALL_PARTS
    elif targets is not None:
        raise SpecError(f"got targets={list(targets)} without a file; expected them to be columns of one (--file)")
    data = _loaded(recipe, data_dir, file, progress)
    if targets is not None:
        data = _as_targets_of(data, bundle.card)
    _check_alike(bundle.card, data.card)
    graphs = np.arange(len(data.dataset)) if part == _ALL_PARTS else data.part(part)
    if not len(graphs):
        raise SpecError(f"{data.card.name} has no graphs in its part {part!r}; expected some to score")
    dtype = next(bundle.model.parameters()).dtype
    members = torch.stack([outputs_for(model, data, graphs, dtype=dtype) for model in bundle.models])
    members = members if bundle.scale is None else bundle.scale.restore(members)
    kept = data.rows_in_part(graphs)
    outputs, truth = mean_outputs(members, data.card.task)[kept], data.targets(graphs)[kept]
    scores = score(outputs, truth, data.card, bundle.scale)
    together = data.card.level is Level.NODE and data.within is None  # nodes of a graph
    rows = np.repeat(np.arange(len(graphs)), data.points.num_nodes[graphs]) if together else None
    intervals = score_with_intervals(outputs, truth, data.card, bundle.scale, scores=scores, groups=rows)
    return {
        "run": str(run_dir),
        "data": str(file) if file is not None else data.card.name,
        "part": part,
        "graphs": len(graphs) if data.within is None else int(kept.sum()),
        "left_out": len(data.dataset.rejected),
        "limits": data.limits(graphs),
        "metric": metric,
        "higher_is_better": metric_named(metric).higher_is_better,
        "scores": scores.overall,
        "intervals": {metric: interval._asdict() for metric, interval in intervals.items()},
        "per_target": scores.per_target,
        "recorded": recorded if part == "test" else None,
        **_coverage(bundle, data, graphs, members),
    }


class _Recorded(NamedTuple):
    """What scoring a model again needs to know of its training."""

    recipe: Recipe
    bundle: Bundle
    metric: str
    test: Mapping[str, float | None]


def _recorded(folder: RunFolder, public_key: str | Path | None) -> _Recorded:
    """Of a finished run, or of a bundle with its recipe."""
    if folder.has_run and folder.is_finished:
        bundle, result = read_bundle(folder.bundle, public_key=public_key), read_result(folder.result)
        return _Recorded(read_recipe(folder.recipe), bundle, result["metric"], result["test"])
    if folder.has_run:
        raise MissingDataError(f"there is no finished run in {folder.path}; resume it with `pointset train --resume`")
    bundle = read_bundle(folder.path, public_key=public_key)
    recipe, test = recipe_of(bundle), bundle.about.get("test")
    if recipe is None:
        raise MissingDataError(
            f"{folder.path} is a model without the recipe of its run, so its data is not known; expected the folder of "
            "a finished run"
        )
    metric = metric_named(str(bundle.about.get("metric"))).value
    return _Recorded(recipe, bundle, metric, test if isinstance(test, dict) else {})


def recipe_of(bundle: Bundle) -> Recipe | None:
    """The recipe that a bundle holds, as shipped ones do; others have it in the folder of their run.

    Raises:
        FileFormatError: it is not a recipe.
    """
    settings = bundle.about.get("settings")
    if settings is None:
        return None
    try:
        return Recipe.from_dict(settings)
    except (SpecError, TypeError, ValueError) as error:
        raise FileFormatError(f"the recipe in the bundle cannot be read: {error}") from None


def _with_file(recipe: Recipe, file: str | Path, trained: Card, targets: Sequence[str] | None) -> Recipe:
    """The recipe with other data, all of it in one part."""
    chosen: dict[str, Any] = {"dataset.name": None, "dataset.file": str(file), "dataset.fold": None}
    chosen["dataset.weight_column"] = None  # scores have no weights
    chosen |= {"dataset.val_file": None, "dataset.test_file": None}
    chosen["dataset.options"] = {**recipe.dataset.options, "split": _UNDIVIDED}
    if targets is not None or recipe.dataset.targets is None:  # what the model predicts is not guessed again
        chosen["dataset.targets"] = list(trained.target_names if targets is None else targets)
    return changed(recipe, chosen)


def _loaded(
    recipe: Recipe, data_dir: str | Path | None, file: str | Path | None, progress: bool | None
) -> TrainingData:
    try:
        return load_data(recipe, data_dir, progress=progress)
    except MissingDataError as error:
        if file is not None:
            raise
        raise MissingDataError(f"{error}\nOr score the model on other data: --file my.csv (file=…)") from None


def _as_targets_of(data: TrainingData, trained: Card) -> TrainingData:
    """The data whose columns are the true values of the model's targets, whatever they are called."""
    columns, wanted = data.card.target_names, trained.target_names
    if len(columns) != len(wanted):
        raise SpecError(
            f"got {counted(len(columns), 'column')} of true values ({', '.join(columns)}); expected {len(wanted)}, in "
            f"the order of the model's targets {', '.join(wanted)}"
        )
    card = dataclasses.replace(data.card, targets=trained.targets)
    return dataclasses.replace(data, dataset=dataclasses.replace(data.dataset, card=card))


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
