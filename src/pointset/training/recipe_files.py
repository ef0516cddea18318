"""Recipes by name and from files: :func:`recipe_names`, :func:`read_recipe`.

The shipped ones are families in ``recipes/*.yaml``: ``base`` is what they share, ``recipes`` what each changes. A
user's file is a plain recipe, and may say ``extends: NAME`` and only what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pointset.errors import FileFormatError, MissingDataError, PointsetError, SpecError, did_you_mean
from pointset.training.recipe import Recipe
from pointset.training.recipe_errors import shown
from pointset.training.recipe_overrides import overridden
from pointset.training.recipe_yaml import read_value

_SUFFIXES = (".yaml", ".yml")
_IN_A_RUN = "recipe.yaml"
_LARGEST = 1_000_000  # bytes; what is larger is no recipe
_DATA_KEYS = ("name", "file", "targets")  # of `dataset`: with others of these, the paper's result says nothing


def recipe_names() -> list[str]:
    """The shipped recipes: those for own data first, then in the order of the datasets."""
    return list(_shipped())


def read_recipe(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe by its name, from a YAML file, or from the folder of a run.

    Args:
        name_or_path: as ``pointset recipes`` lists it, or a path.
        overrides: ``key.path=value``, such as ``model.dim=96``.

    Raises:
        SpecError: there is no such recipe or key, or a value is impossible.
        MissingDataError: there is no such file.
        FileFormatError: the file is no YAML of a recipe.
    """
    try:
        values, place = _values_of(name_or_path)
    except PointsetError:
        raise
    except (OSError, ValueError) as error:  # no right to read it, a name too long or with a NUL
        reason = getattr(error, "strerror", None) or error
        raise MissingDataError(f"the recipe {shown(str(name_or_path))} cannot be read: {reason}") from None
    changed = overridden(values, overrides)
    if not any(override.startswith("schedule") for override in overrides):
        changed = _shortened(changed, values)
    if not any(override.startswith("expected") for override in overrides):
        changed = _without_stale_result(changed, values)
    try:
        return Recipe.from_dict(changed)
    except SpecError as error:
        raise SpecError(f"{place}{error}") from None


def _shortened(values: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Where other ``trainer.epochs`` leave no room for the schedule, its parts are shortened as the epochs are."""
    epochs, planned = _get(values.get("trainer"), "epochs"), _get(before.get("trainer"), "epochs")
    parts = {part: _get(values.get("schedule"), part) for part in ("warmup", "cosine")}
    known = {part: length for part, length in parts.items() if isinstance(length, int | float)}
    if not (isinstance(epochs, int) and isinstance(planned, int) and 0 < epochs < planned):
        return values  # nothing to shorten, or a mistake that the check of the recipe explains
    if not known or sum(known.values()) < epochs:
        return values
    return values | {
        "schedule": values["schedule"] | {part: length * epochs / planned for part, length in known.items()}
    }


def _values_of(name_or_path: str | Path) -> tuple[dict[str, Any], str]:
    """Plain values, and where they stand, for messages."""
    text = str(name_or_path)
    if isinstance(name_or_path, str) and text in _shipped():
        return deepcopy(_shipped()[text]), ""
    path = Path(name_or_path)
    if isinstance(name_or_path, Path) or path.suffix or "/" in text or "\\" in text or (text and path.exists()):
        file = _file_at(path)
        return _own(file), f"{file}: "
    raise SpecError(
        f"there is no recipe {text!r}{did_you_mean(text.lower(), recipe_names())}\n`pointset recipes` lists them"
    )


def _file_at(path: Path) -> Path:
    if path.is_dir():
        path = path / _IN_A_RUN
        if not path.is_file():
            raise MissingDataError(
                f"{path.parent} has no {_IN_A_RUN}; expected a recipe's file, or the folder of a run"
            )
    if not path.exists():
        raise MissingDataError(f"there is no file {path}; expected a recipe's name (`pointset recipes`) or YAML file")
    if path.suffix.lower() not in _SUFFIXES:
        raise FileFormatError(
            f"{path} is no recipe: expected a name that ends in .yaml\nTo learn from it: pointset train molecules "
            f"dataset.file={path} (or graphs, for graph files)"
        )
    return path


def _own(file: Path, extended: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A user's file with what it extends."""
    if file.resolve() in extended:
        raise FileFormatError(f"{file}: extends itself; expected the name of another recipe")
    changes = _read_mapping(file)
    other = changes.pop("extends", None)
    changes.setdefault("name", file.stem)
    if other is None:
        return changes
    if not isinstance(other, str):
        raise FileFormatError(f"{file}: got extends={other!r}; expected the name of a recipe or a YAML file")
    beside = file.parent / other
    if other not in _shipped() and Path(other).suffix.lower() in _SUFFIXES:
        base = _own(_file_at(beside), (*extended, file.resolve()))
    else:
        try:
            base = _values_of(other)[0]
        except SpecError as error:
            raise SpecError(f"{file}: extends: {error}") from None
    merged = _merged(base, changes)
    return merged if "schedule" in changes else _shortened(merged, base)


def _read_mapping(file: Any) -> dict[str, Any]:
    """The mapping in a YAML file."""
    content = file.read_bytes()
    if len(content) > _LARGEST:
        raise FileFormatError(f"{file} is no recipe: it has {len(content):,} bytes; expected at most {_LARGEST:,}")
    try:
        values = read_value(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{file} is no recipe: byte {error.start} is not UTF-8") from None
    except FileFormatError as error:
        raise FileFormatError(f"{file} cannot be read as YAML: {error}") from None
    if not isinstance(values, dict):
        got = "nothing" if values is None else f"a {type(values).__name__}"
        raise FileFormatError(f"{file} is no recipe: it holds {got}; expected keys such as `dataset:` and `model:`")
    return values


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    """The plain values of every shipped recipe: those for own data, then in the order of the datasets."""
    from pointset.datasets.catalogue import names

    files = [file for file in (resources.files("pointset.training") / "recipes").iterdir() if file.name[0] != "."]
    recipes: dict[str, dict[str, Any]] = {}
    for file in sorted(files, key=lambda file: file.name):
        family = _read_mapping(file)
        for name, changes in family["recipes"].items():
            base = recipes[changes["extends"]] if "extends" in changes else family["base"]
            own = {key: value for key, value in changes.items() if key != "extends"}
            recipes[name] = _merged(base, own | {"name": name})
    place = {name: number for number, name in enumerate(names())}
    return dict(sorted(recipes.items(), key=lambda item: place.get(_get(item[1].get("dataset"), "name"), -1)))


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``: groups are merged key by key, everything else is replaced."""
    merged = dict(deepcopy(base))
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else deepcopy(value)
    return merged if "expected" in changes else _without_stale_result(merged, base)


def _without_stale_result(values: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Without the paper's result where it is about other data."""
    now, then = values.get("dataset"), before.get("dataset")
    same = now == then or all(_get(now, key) == _get(then, key) for key in _DATA_KEYS)
    return values if same else values | {"expected": None}


def _get(group: Any, key: str) -> Any:
    return group.get(key) if isinstance(group, Mapping) else None
