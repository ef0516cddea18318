"""Whether a resumed run still has the recipe and the data that it was begun with (:func:`check_same_beginning`).

Else the weights would come from one training part and the scores from another, and nobody would see it.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

from pointset.datasets.dataset import Dataset
from pointset.datasets.splits import split_from_file
from pointset.errors import PointsetError, SpecError
from pointset.training.json_files import read_json
from pointset.training.recipe import Recipe
from pointset.training.run_folder import RunFolder

_REMEDY = "Undo the change, or begin another run in another folder"


def recipe_digest(recipe: Recipe) -> str:
    """SHA-256 over all settings but the name, which a resumed run may be called by otherwise."""
    settings = {key: value for key, value in recipe.as_dict().items() if key != "name"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def check_same_beginning(folder: RunFolder, recipe: Recipe, dataset: Dataset) -> None:
    """Refuse to go on with an edited recipe.yaml, or with data or a split that changed.

    Raises:
        SpecError: they differ from what the run noted when it began.
    """
    noted = read_json(folder.environment) if folder.environment.exists() else {}
    if noted.get("recipe_sha256", recipe_digest(recipe)) != recipe_digest(recipe):
        raise SpecError(f"{folder.recipe} was edited after the run had begun; expected it as it was. {_REMEDY}")
    source = noted.get("data")
    before = source.get("sha256") if recipe.dataset.file is not None and isinstance(source, dict) else None
    if before and before != list(dataset.provenance.sha256):
        raise SpecError(f"the data {recipe.dataset.file} changed after the run had begun; expected the same. {_REMEDY}")
    if folder.split.exists() and not _is_same_split(folder, dataset):
        raise SpecError(f"the data is split otherwise than in {folder.split}; expected the same split. {_REMEDY}")


def _is_same_split(folder: RunFolder, dataset: Dataset) -> bool:
    try:
        before = split_from_file(folder.split, len(dataset))
    except PointsetError as error:
        raise SpecError(f"the run's split does not fit the data: {error}. {_REMEDY}") from None
    parts = {*before, *dataset.split}
    return all(np.array_equal(before.get(part, ()), dataset.split.get(part, ())) for part in parts)
