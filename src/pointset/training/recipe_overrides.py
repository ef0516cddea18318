"""``key.path=value`` on the command line: how text becomes the value of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from pointset.errors import FileFormatError, SpecError
from pointset.training.recipe import Recipe
from pointset.training.recipe_errors import shown, unknown_key
from pointset.training.recipe_keys import choices, expectation, is_group, known_keys, takes
from pointset.training.recipe_yaml import read_texts, read_value

_NOTHING = ("null", "~", "")


def overridden(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Plain values of a recipe with ``["model.dim=96", "dataset.targets=logS"]`` set; later ones win.

    Raises:
        SpecError: there is no such key, or a value is not written as YAML.
    """
    result = deepcopy(values)
    for override in overrides:
        path, equals, text = override.partition("=")
        path, text = path.strip(), text.strip()
        if not equals or not path:
            raise SpecError(f"got {override!r}; expected key=value, such as trainer.epochs=20")
        _set(result, path, _value(_known(path), path, text))
    return result


def changed(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """The recipe with other values, by dotted key: ``{"model.dim": 96}``.

    Raises:
        SpecError: there is no such key, or a value is impossible.
    """
    plain = recipe.as_dict()
    for path, value in values.items():
        _set(plain, path, value)
    return Recipe.from_dict(plain)


def _known(path: str) -> str | None:
    """The key that says what a value must be; None below a mapping with any keys, such as ``dataset.options.seed``."""
    if path in known_keys():
        return path
    above = path
    while above := above.rpartition(".")[0]:
        if above in known_keys() and takes(above, "object") and not is_group(above):
            return None
    raise SpecError(unknown_key(path))


def _value(key: str | None, path: str, text: str) -> Any:
    if key is None:
        return _parsed(path, text)
    if text in _NOTHING and takes(key, "null"):
        return None
    if is_group(key):
        raise SpecError(
            f"got {path}={shown(text)}; expected {expectation(key)} one by one, such as {_first_below(key)}=…"
        )
    if takes(key, "array"):
        return _parsed(path, text, texts=True) if text.startswith("[") else [text]
    if takes(key, "string") or choices(key):
        return text
    return _parsed(path, text)


def _parsed(path: str, text: str, *, texts: bool = False) -> Any:
    try:
        return read_texts(text) if texts else read_value(text)
    except FileFormatError as error:
        raise SpecError(f"got {path}={shown(text)}, which is not written as YAML: {error}") from None


def _first_below(group: str) -> str:
    return next(key for key in known_keys() if key.startswith(f"{group}."))


def _set(values: dict[str, Any], path: str, value: Any) -> None:
    *groups, last = path.split(".")
    for group in groups:
        if not isinstance(values.get(group), dict):
            values[group] = {}
        values = values[group]
    values[last] = value
