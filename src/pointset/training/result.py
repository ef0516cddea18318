"""result.json: what came out of a run (:func:`result_of`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pointset.errors import FileFormatError
from pointset.process_memory import peak_bytes
from pointset.training.data import TrainingData
from pointset.training.json_files import read_json
from pointset.training.metrics import Scores, higher_is_better
from pointset.training.progress_record import ProgressRecord
from pointset.training.recipe import Recipe

_KEPT = {  # what others rely on
    "metric": str,
    "test": dict,
    "per_target": dict,
    "model": dict,
    "expected": dict | None,
    "best_epoch": int,
    "epochs": int,
    "parameters": int,
    "seconds": float | int,
    "test_scored": str,
}
TEST_SCORED = "once, at the end, with the weights of the best epoch by validation"


def result_of(
    recipe: Recipe, data: TrainingData, progress: ProgressRecord, metric: str, test: Scores, parameters: int
) -> dict[str, Any]:
    """Plain values, for ``result.json``.

    Args:
        recipe: of the run.
        data: what it was trained on.
        progress: at its end.
        metric: the one that chose the best epoch.
        test: scores of the test part; empty where there is none.
        parameters: of the model.
    """
    card = data.card
    best = next((row for row in progress.history if row.epoch == progress.best_epoch), None)
    speeds = sorted(row.graphs_per_second for row in progress.history)
    return {
        "recipe": recipe.name,
        "title": recipe.title,
        "dataset": {"name": card.name, "title": card.title},
        "model": recipe.model.model_dump(mode="json"),
        "task": card.task.value,
        "level": card.level.value,
        "metric": metric,
        "higher_is_better": higher_is_better(metric),
        "test": test.overall,
        "val": {} if best is None else best.val,
        "per_target": test.per_target,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "stopped_early": progress.stopped_early,
        "parameters": parameters,
        "seconds": round(progress.seconds, 3),
        "graphs_per_second": speeds[len(speeds) // 2] if speeds else None,
        "peak_memory_bytes": peak_bytes(),
        "seed": recipe.seed,
        "fold": recipe.dataset.fold,
        "expected": None if recipe.expected is None else recipe.expected.model_dump(mode="json"),
        "units": {target.name: target.unit for target in card.targets},
        "classes": list(card.classes),
        "split_sizes": {part: len(indices) for part, indices in data.dataset.split.items()},
        "test_scored": TEST_SCORED if test.overall else "there is no test part",
    }


def read_result(path: Path) -> dict[str, Any]:
    """What a finished run has written.

    Raises:
        FileFormatError: it is damaged.
    """
    result = read_json(path)
    missing = [key for key, kind in _KEPT.items() if key not in result or not isinstance(result[key], kind)]
    if missing:
        raise FileFormatError(
            f"{path} is damaged: it has no {', '.join(missing)}. Delete it and resume the run, which writes it again"
        )
    return result
