"""A trained model scored again, on a part of its own data or on other data (:func:`evaluate`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pointset.datasets.card import Card
from pointset.datasets.splits import PARTS
from pointset.errors import MissingDataError, SpecError, did_you_mean
from pointset.metrics import metric_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe_files import changed, read_recipe
from pointset.runs.result import read_result
from pointset.training.bundle import read_bundle
from pointset.training.data import load_data
from pointset.training.outputs import outputs_for
from pointset.training.scoring import score

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
        ``part``, ``graphs``, ``left_out`` (rows of own data that cannot be used), ``metric``, ``higher_is_better``,
        ``scores`` and ``per_target``; for the test part also ``recorded``, the scores that the run itself recorded.

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
    recipe = read_recipe(folder.recipe)
    if file is not None:
        recipe = changed(recipe, {"dataset.name": None, "dataset.file": str(file), "dataset.fold": None})
        part = _ALL_PARTS
    bundle = read_bundle(folder.bundle)
    data = load_data(recipe, data_dir, progress=progress)
    _check_alike(bundle.card, data.card)
    graphs = np.arange(len(data.dataset)) if part == _ALL_PARTS else data.part(part)
    if not len(graphs):
        raise SpecError(f"{data.card.name} has no graphs in its part {part!r}; expected some to score")
    outputs = outputs_for(bundle.model, data, graphs, dtype=next(bundle.model.parameters()).dtype)
    restored = outputs if bundle.scale is None else bundle.scale.restore(outputs)
    scores = score(restored, data.targets(graphs), data.card, bundle.scale)
    recorded = read_result(folder.result)
    return {
        "run": str(folder.path),
        "data": str(file) if file is not None else data.card.name,
        "part": part,
        "graphs": len(graphs),
        "left_out": len(data.dataset.rejected),
        "metric": recorded["metric"],
        "higher_is_better": metric_named(recorded["metric"]).higher_is_better,
        "scores": scores.overall,
        "per_target": scores.per_target,
        "recorded": recorded["test"] if part == "test" else None,
    }


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
