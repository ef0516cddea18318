"""Recipes by name and from files: :func:`recipe_names`, :func:`read_recipe`.

The shipped ones are families in ``recipes/*.yaml``: ``base`` is what they share, ``recipes`` what each changes. A
user's file is a plain recipe, and may say ``extends: NAME`` and only what differs.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from pointset.errors import FileFormatError, MissingDataError, PointsetError, SpecError, did_you_mean
from pointset.extensions import check_needed
from pointset.files import read_bytes, read_json
from pointset.runs.recipe import Recipe, choices, expectation, is_group, known_keys, shown, takes, unknown_key

_SUFFIXES = (".yaml", ".yml")
_IN_A_RUN = "recipe.yaml"
_ENVIRONMENT = "environment.json"  # of a run
_LARGEST = 1_000_000  # bytes; what is larger is not a recipe
_NULL = ("null", "~", "")  # how a key is unset
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
        FileFormatError: the file is not the YAML of a recipe.
    """
    try:
        values, place = _values_of(name_or_path)
    except PointsetError:
        raise
    except (OSError, ValueError) as error:  # no right to read it, a name too long or with a NUL
        reason = getattr(error, "strerror", None) or error
        raise MissingDataError(f"the recipe {shown(str(name_or_path))} cannot be read: {reason}") from None
    chosen = overridden(values, overrides)
    if not any(override.startswith("schedule") for override in overrides):
        chosen = _shortened(chosen, values)
    if any(override.startswith("trainer.epochs=") for override in overrides):
        chosen = _exact_epochs(chosen, overrides)
    if not any(override.startswith("expected") for override in overrides):
        chosen = _without_stale_result(chosen, values)
    try:
        return Recipe.from_dict(chosen)
    except SpecError as error:
        raise SpecError(_unregistered(name_or_path, chosen) or f"{place}{error}") from None


def read_settings(file: Path) -> dict[str, Any]:
    """The plain values that a recipe's file states, without the defaults of what it does not mention.

    Raises:
        FileFormatError: the file is not the YAML of a recipe.
    """
    return _own(file)


def settings_digest(values: Mapping[str, Any]) -> str:
    """SHA-256 over all settings but the name, which may be another when a run is resumed."""
    settings = {key: value for key, value in values.items() if key != "name"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _unregistered(name_or_path: str | Path, values: Mapping[str, Any]) -> str:
    """Of a run whose model or metric is not registered here: which module registers it; empty for any other recipe."""
    from pointset.datasets.loading import is_dataset

    folder = Path(name_or_path) if Path(name_or_path).is_dir() else Path(name_or_path).parent
    record = folder / _ENVIRONMENT
    try:
        needs = read_json(record).get("extensions") if (folder / _IN_A_RUN).is_file() and record.is_file() else None
        used = [_get(values.get("model"), "preset"), values.get("metric"), _get(values.get("dataset"), "name")]
        for kind, names in needs.items() if isinstance(needs, dict) else ():
            wanted = {name: names[name] for name in names if name in used}
            check_needed(f"the run in {folder}", {kind: wanted}, dataset=is_dataset)
    except SpecError as error:
        return str(error)
    except (PointsetError, OSError, ValueError, TypeError):  # a damaged record says nothing
        return ""
    return ""


def _exact_epochs(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Who asks for so many epochs gets them: the least number of steps does not count, unless it is asked for, too."""
    if any(override.startswith("trainer.min_steps=") for override in overrides):
        return values
    return values | {"trainer": values["trainer"] | {"min_steps": 0}} if isinstance(values["trainer"], dict) else values


def with_enough_epochs(recipe: Recipe, steps_per_epoch: int) -> Recipe:
    """As many epochs as ``trainer.min_steps`` need, where those of the recipe are fewer: small data, few steps."""
    needed = math.ceil(recipe.trainer.min_steps / max(steps_per_epoch, 1))
    return changed(recipe, {"trainer.epochs": needed}) if needed > recipe.trainer.epochs else recipe


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
        if not path.exists():
            raise MissingDataError(
                f"{path.parent} has no {_IN_A_RUN}; expected a recipe's file, or the folder of a run"
            )
    if not path.exists():
        raise MissingDataError(f"there is no file {path}; expected a recipe's name (`pointset recipes`) or YAML file")
    if path.suffix.lower() not in _SUFFIXES:
        raise FileFormatError(
            f"{path} is not a recipe: expected a name that ends in .yaml\nTo learn from it: pointset train molecules "
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
    content = read_bytes(file, _LARGEST + 1)
    if len(content) > _LARGEST:
        raise FileFormatError(f"{file} is not a recipe: it has more than {_LARGEST:,} bytes, the most expected")
    try:
        values = from_yaml(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{file} is not a recipe: byte {error.start} is not UTF-8") from None
    except FileFormatError as error:
        raise FileFormatError(f"{file} cannot be read as YAML: {error}") from None
    if not isinstance(values, dict):
        got = "nothing" if values is None else f"a {type(values).__name__}"
        raise FileFormatError(f"{file} is not a recipe: it holds {got}; expected keys such as `dataset:` and `model:`")
    return values


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    """The plain values of every shipped recipe: those for own data, then in the order of the datasets."""
    from pointset.datasets.loading import names

    files = [file for file in (resources.files("pointset.runs") / "recipes").iterdir() if file.name[0] != "."]
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


# --- other values of keys: ``key.path=value`` as text, or by dotted key


def overridden(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Plain values of a recipe with ``["model.dim=96", "dataset.targets=logS"]`` set; later ones win."""
    result = deepcopy(values)
    for override in overrides:
        path, equals, text = override.partition("=")
        path, text = path.strip(), text.strip()
        if not equals or not path:
            raise SpecError(f"got {override!r}; expected key=value, such as trainer.epochs=20")
        _set(result, path, _value(path, text))
    return result


def changed(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """The recipe with other values, by dotted key: ``{"model.dim": 96}``. They are checked again."""
    plain = recipe.as_dict()
    for path, value in values.items():
        _set(plain, path, value)
    return Recipe.from_dict(plain)


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"model": {"dim": 64}}`` → ``{"model.dim": 64}``."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def default_settings() -> dict[str, Any]:
    """Every key that has a default, by dotted key: what a recipe of an earlier version means by not mentioning it."""
    must_be_given = {"name": "any", "trainer.epochs": 1, "trainer.batch_size": 1}
    plain: dict[str, Any] = {}
    for path, value in must_be_given.items():
        _set(plain, path, value)
    values = flattened(Recipe.from_dict(plain).as_dict())
    return {key: value for key, value in values.items() if key not in must_be_given}


def _value(path: str, text: str) -> Any:
    """The value of a key that is written as ``text``: as YAML, but without quotes where the key takes text."""
    loader: Any = _Reader
    if path in known_keys():
        if text in _NULL and takes(path, "null"):
            return None
        if is_group(path):
            first = next(key for key in known_keys() if key.startswith(f"{path}."))
            raise SpecError(f"got {path}={shown(text)}; expected {expectation(path)} one by one, such as {first}=…")
        if takes(path, "array"):
            if not text.startswith("["):
                return [text]
            loader = yaml.BaseLoader
        elif takes(path, "string") or choices(path):
            return text
    elif not _is_in_open_mapping(path):
        raise SpecError(unknown_key(path))
    try:
        return from_yaml(text, loader)
    except FileFormatError as error:
        raise SpecError(f"got {path}={shown(text)}, which is not written as YAML: {error}") from None


def _is_in_open_mapping(path: str) -> bool:
    """Whether it is below a mapping with any keys, as ``dataset.options.seed`` is."""
    return any(path.startswith(f"{key}.") for key in known_keys() if takes(key, "object") and not is_group(key))


def _set(values: dict[str, Any], path: str, value: Any) -> None:
    *groups, last = path.split(".")
    for group in groups:
        if not isinstance(values.get(group), dict):
            values[group] = {}
        values = values[group]
    values[last] = value


# --- YAML: plain data only, numbers as people write them, and text that is read back exactly. YAML 1.1, which PyYAML
# reads by itself, takes 1e-3 for text and NO (nitric oxide, a target) for false. Here 1e-3 is a number, only true and
# false are truth values, and there are neither dates nor anchors.

_TAG = "tag:yaml.org,2002:"
_SCALARS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
)


class _Reader(yaml.SafeLoader):
    """Plain data without anchors; mappings with each key once, and text as keys."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (a class variable of PyYAML)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "anchors (&, *) are not read; write it out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in keys:
                fault = "stands twice" if isinstance(key, str) else "is not text"
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} {fault}", key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep=True)


class _Writer(yaml.SafeDumper):
    """Mappings as lines, short lists in one; puts into quotes what either version of YAML would not read as text."""

    def represent_list(self, data: Any) -> Any:
        inline = all(not isinstance(item, list | dict) for item in data)
        return self.represent_sequence(f"{_TAG}seq", data, flow_style=inline)

    def represent_str(self, data: str) -> Any:
        style = None if data.isprintable() else '"'  # else PyYAML loses odd line ends, such as U+0085
        return self.represent_scalar(f"{_TAG}str", data, style=style)

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Reader.add_constructor(f"{_TAG}float", lambda _, node: float(node.value))  # PyYAML's own treats 1:30 as sixtieths
_Writer.add_representer(list, _Writer.represent_list)
_Writer.add_representer(str, _Writer.represent_str)
for _name, _pattern, _first in _SCALARS:
    for _class in (_Reader, _Writer):
        _class.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), list(_first))


def from_yaml(text: str, loader: Any = _Reader) -> Any:
    """Plain data from YAML; with ``yaml.BaseLoader``, every scalar as the text that it is written as: ``[NO, 007]``.

    Raises:
        FileFormatError: it is not YAML, or more than plain data.
    """
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 (both loaders are safe ones: plain data only)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise FileFormatError(f"{where}{problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # forbidden characters, a whole number of 5,000 digits
        raise FileFormatError(" ".join(str(error).split())) from None
    except RecursionError:
        raise FileFormatError("it is nested too deeply") from None


def to_yaml(values: dict[str, Any]) -> str:
    """Plain data as YAML, in the order of its keys; :func:`from_yaml` gives it back exactly."""
    text: str = yaml.dump(values, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110)
    return text
