"""All keys of a recipe by path, what each expects in words, and the nearest right one of a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from typing import Any

Schema = dict[str, Any]
_TYPES = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_NEAR = 0.6  # of difflib's ratio, from which a key is worth naming
# What people, and the paper's table of hyperparameters, call a key.
_ALSO_CALLED = {
    "learning_rate": "optimizer.lr",
    "wd": "optimizer.weight_decay",
    "gn": "model.noise",
    "width": "model.dim",
    "hidden_dim": "model.dim",
    "hiddim": "model.dim",
    "depth": "model.layers",
    "bs": "trainer.batch_size",
    "data": "dataset.file",
    "warm": "schedule.warmup",
    "cos": "schedule.cosine",
}


@cache
def known_keys() -> dict[str, Schema]:
    """Each key's path, groups included, with its JSON schema: ``known_keys()["model.dim"]["minimum"]`` is 1."""
    from pointset.training.recipe import Recipe

    schema = Recipe.model_json_schema()
    return dict(_flat(schema, schema["$defs"], ""))


def _flat(schema: Schema, definitions: dict[str, Schema], prefix: str) -> Iterator[tuple[str, Schema]]:
    for name, entry in schema["properties"].items():
        branches = [definitions[branch["$ref"].rsplit("/")[-1]] if "$ref" in branch else branch
                    for branch in entry.get("anyOf", [entry])]  # fmt: skip
        yield f"{prefix}{name}", entry | {"anyOf": branches}
        for branch in branches:
            if "properties" in branch:
                yield from _flat(branch, definitions, f"{prefix}{name}.")


def branches_of(path: str) -> list[Schema]:
    """The kinds of values that a key takes."""
    branches: list[Schema] = known_keys()[path]["anyOf"]
    return branches


def takes(path: str, kind: str) -> bool:
    """Whether a key takes a JSON type: ``takes("dataset.file", "null")``."""
    return any(branch.get("type") == kind for branch in branches_of(path))


def is_group(path: str) -> bool:
    """Whether a path has keys below it that are all known, as ``model`` has."""
    return any("properties" in branch for branch in branches_of(path))


def expectation(path: str) -> str:
    """What a key expects, in words: ``a whole number, at least 1, or null``."""
    return ", or ".join(_in_words(branch) for branch in branches_of(path))


def choices(path: str) -> list[str]:
    """The words that a key takes, where it takes only some."""
    return [choice for branch in branches_of(path) for choice in branch.get("enum", [])]


def _in_words(branch: Schema) -> str:
    if "enum" in branch:
        return f"one of {', '.join(branch['enum'])}"
    if "properties" in branch:
        return f"the keys {', '.join(branch['properties'])}"
    match branch["type"]:
        case "null":
            return "null"
        case "array":
            return "a list of text"
        case "object":
            return "a mapping"
        case "string" if "examples" in branch:
            return f"text such as {branch['examples'][0]}"
        case kind:
            bounds = [f"{word} {branch[bound]:,}" for bound, word in _BOUNDS.items() if bound in branch]
            return ", ".join([_TYPES[kind], *bounds])


def nearest_key(path: str) -> str:
    """``"; did you mean 'model.dim'?"`` for ``model.dmi``, ``dim`` or ``width``; empty where none is near."""
    wrong = path.lower().replace("-", "_")
    last = wrong.rsplit(".", 1)[-1]
    if last in _ALSO_CALLED:
        return f"; did you mean {_ALSO_CALLED[last]!r}?"

    def nearness(key: str) -> float:
        whole = SequenceMatcher(None, wrong, key).ratio()
        return max(whole, SequenceMatcher(None, last, key.rsplit(".", 1)[-1]).ratio()) + whole / 100

    best = max(known_keys(), key=nearness)
    return f"; did you mean {best!r}?" if nearness(best) >= _NEAR else ""
