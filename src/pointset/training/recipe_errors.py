"""What is wrong with a recipe, in the words of its keys: got, expected, remedy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pointset.errors import did_you_mean
from pointset.training.recipe_keys import choices, expectation, known_keys, nearest_key

if TYPE_CHECKING:
    from pydantic import ValidationError

_SHOWN = 5  # lines
_LONGEST_VALUE = 60  # letters


def in_words(error: ValidationError) -> str:
    """A line for each wrong value, at most five."""
    lines = list(dict.fromkeys(_line(dict(entry)) for entry in error.errors(include_url=False)))
    more = len(lines) - _SHOWN
    return "\n".join([*lines[:_SHOWN], *([f"… and {more} more"] if more > 0 else [])])


def unknown_key(path: str) -> str:
    """For a key that does not exist."""
    group = path.rpartition(".")[0]
    hint = nearest_key(path)
    if not hint:
        hint = f"; expected {expectation(group)}" if group in known_keys() else f"; expected one of {_first_keys()}"
    return f"there is no key {path!r}{hint}"


def _first_keys() -> str:
    return ", ".join(key for key in known_keys() if "." not in key)


def _line(entry: dict[str, Any]) -> str:
    path = _path(entry["loc"])
    match entry["type"]:
        case "value_error":  # raised by a validator of ours, in whole sentences
            return str(entry["ctx"]["error"])
        case "extra_forbidden":
            return unknown_key(path)
        case "missing":
            return f"{path} is missing; expected {expectation(path)}"
        case _:
            return f"got {path}={shown(entry['input'])}; expected {_expected(path, entry['input'])}"


def _path(location: tuple[int | str, ...]) -> str:
    """``dataset.targets[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _expected(path: str, got: Any) -> str:
    if path.endswith("]"):
        return "text (put it in quotes)" if isinstance(got, int | float) else "text"
    if path not in known_keys():  # of a mapping with any keys
        return "a number"
    return expectation(path) + (did_you_mean(got.lower(), choices(path)) if isinstance(got, str) else "")


def shown(value: Any) -> str:
    """A value as YAML has it, shortened."""
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
