"""A recipe: all settings of a training run, as checked values (:class:`Recipe`). Their names are the keys of its YAML.

:func:`pointset.runs.recipe_files.read_recipe` reads one; it never changes, and ``None`` means "not set". The second
half explains keys to people: what each expects, and which one a wrong one may have meant. Light to import (no torch):
the command line lists recipes at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pointset.datasets.own.options import recipe_keys
from pointset.errors import SpecError, did_you_mean
from pointset.metrics import is_metric, metric_names
from pointset.registry import OWN_HINT, MatrixName, is_preset, model_matrix, preset_names


def _is_recorded(info: ValidationInfo) -> bool:
    """Whether it is the recipe of a run that is only looked at: its names need not be known here."""
    return bool((info.context or {}).get("recorded"))


def _check_preset(name: str, info: ValidationInfo) -> str:
    if not _is_recorded(info) and not is_preset(name):
        raise PydanticCustomError("unknown_name", "there is no such model")
    return name


def _check_metric(name: str, info: ValidationInfo) -> str:
    if not _is_recorded(info) and not is_metric(name):
        raise PydanticCustomError("unknown_name", "there is no such metric")
    return name


def _one_of(registry: str) -> WithJsonSchema:
    """The names are those of a registry, which grows when users add to it."""
    return WithJsonSchema({"type": "string", "registry": registry})


PresetName = Annotated[str, AfterValidator(_check_preset), _one_of("encoder")]
MetricName = Annotated[str, AfterValidator(_check_metric), _one_of("metric")]
_REGISTRIES: dict[str, Callable[[], Sequence[str]]] = {"encoder": preset_names, "metric": metric_names}
LossName = Literal["l1", "smooth_l1", "mse", "cross_entropy", "bce"]
Text = Annotated[str, StringConstraints(min_length=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
# A column by number is kept as text, and is a number to the reader where no column has that name.
ColumnName = Annotated[Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
_MOST_PROCESSES = 1024  # beyond it systems refuse to start them, and OpenMP ends the program without a word
_MOST_MEMBERS = 100  # of an ensemble
_BYTES = r"^(?i:\d+(\.\d+)?\s*([KMGT]?i?B)?)$"  # 2GB, 512MiB


def _check_plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options are written to the run's recipe.yaml and must come back as they were."""
    try:
        is_plain = json.loads(json.dumps(options, allow_nan=False)) == options
    except (TypeError, ValueError, RecursionError):
        is_plain = False
    if not is_plain:
        raise ValueError("got dataset.options with a value that YAML cannot keep; expected numbers, text, lists")
    return options


class Keys(BaseModel):
    """A group of keys: unknown ones are refused, values are never guessed from another type, nothing changes later."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)


class DatasetChoice(Keys):
    """What to learn from: a dataset by ``name``, or an own ``file``."""

    name: Text | None = None
    file: Text | None = None
    val_file: Text | None = None
    test_file: Text | None = None
    targets: Annotated[list[ColumnName], Field(min_length=1)] | None = None
    options: Annotated[dict[str, Any], AfterValidator(_check_plain)] = Field(default_factory=dict)
    weight_column: Text | None = None
    weighted_edges: Number | None = None
    edge_weight_offset: Number = 0  # added to them; without weighted_edges it does nothing
    train_graphs: Count | None = None
    fold: Number | None = None
    folds: Annotated[int, Field(ge=2)] = 10
    links: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=3, max_length=3)] | None = None

    @model_validator(mode="after")
    def _one_source(self, info: ValidationInfo) -> Self:
        if self.name is not None and self.file is not None:
            raise ValueError(
                f"got dataset.name={self.name!r} and dataset.file={self.file!r}; expected one of them: set the other "
                "to null, as in dataset.name=null"
            )
        if (self.val_file or self.test_file) is not None and (self.file is None or self.fold is not None):
            key = "dataset.val_file" if self.val_file is not None else "dataset.test_file"
            raise ValueError(
                f"got {key} without dataset.file or with dataset.fold; expected tables beside the one for training, "
                "dataset.file, instead of folds"
            )
        if self.name is not None and not _is_recorded(info):
            _check_dataset_name(self.name)
        if self.fold is not None and self.fold >= self.folds:
            raise ValueError(
                f"got dataset.fold={self.fold}; expected a whole number from 0 to {self.folds - 1}, as there are "
                f"dataset.folds={self.folds}"
            )
        return self


def _check_dataset_name(name: str) -> None:
    from pointset.datasets.loading import is_dataset, names

    if not is_dataset(name):
        hint = did_you_mean(name.lower(), list(names())) or f"; expected one of {', '.join(names())}"
        raise ValueError(f"got dataset.name={name!r}, which does not exist{hint}\nOwn data is given as dataset.file=…")


AtomReferences = Literal["never", "auto", "always"]


class ModelChoice(Keys):
    """Arguments of :meth:`pointset.PointModel.from_preset`; the dataset's card gives the others."""

    preset: PresetName = "pst"
    dim: Count = 64
    layers: Count = 4
    pooling: Literal["mean", "sum", "max", "scaled_sum"] = "mean"
    noise: NotNegative = 0.0
    descriptors: Text | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    rank: Count | None = None
    matrix: MatrixName | None = None
    decompose_minutes: Positive = 10.0
    atom_references: AtomReferences = "never"

    @model_validator(mode="after")
    def _matrix_fits(self, info: ValidationInfo) -> Self:
        if self.matrix is not None and not _is_recorded(info):
            model_matrix(self.preset, self.matrix)
        return self


class Optimizer(Keys):
    """AdamW, or SOAP, which costs more for each step; ``clip`` is the largest norm of the gradient."""

    method: Literal["adamw", "soap"] = "adamw"
    lr: Positive = 1e-3
    weight_decay: NotNegative = 0.0
    clip: Positive | None = 1.0


class Schedule(Keys):
    """The learning rate over the epochs; ``warmup`` and ``cosine`` in epochs, ``start`` as a factor of ``lr``."""

    shape: Literal["anneal", "restarts", "cosine", "constant"] = "anneal"
    warmup: NotNegative = 0.0
    cosine: NotNegative = 0.0
    start: Annotated[float, Field(ge=0, le=1)] = 1e-3


class Trainer(Keys):
    """The loop; ``baseline`` trains a random forest on fingerprints too, where graphs are molecules."""

    epochs: Count
    min_steps: Number = 0
    batch_size: Count
    memory_budget: Annotated[str, Field(pattern=_BYTES, examples=["2GB"])] | None = None
    size_window: Count = 1
    validate_every: Count = 1
    ema: Annotated[float, Field(ge=0, lt=1)] | None = None
    patience: Count | None = None
    snapshots: Annotated[int, Field(ge=2, le=_MOST_MEMBERS)] | None = None
    feature_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    precision: Annotated[
        Literal["32", "64", "bf16"], BeforeValidator(lambda value: str(value) if type(value) is int else value)
    ] = "32"
    workers: Annotated[int, Field(ge=0, le=_MOST_PROCESSES)] = 0
    threads: Annotated[int, Field(ge=1, le=_MOST_PROCESSES)] | None = None
    checkpoint_minutes: NotNegative = 1.0
    checkpointing: bool = False
    tensorboard: bool = False
    baseline: bool = False


class Expected(Keys):
    """The paper's result, in the units of the dataset's card."""

    metric: MetricName
    value: float
    std: NotNegative | None = None
    seeds: Count | None = None
    parameters: Count | None = None
    table: str = ""
    note: str = ""
    per_target: dict[str, float] | None = None
    others: dict[str, dict[str, float]] | None = None


class Recipe(Keys):
    """All settings of a run."""

    name: Text
    title: str = ""
    dataset: DatasetChoice = DatasetChoice()
    model: ModelChoice = ModelChoice()
    loss: LossName | None = None
    smooth_l1_beta: NotNegative = 1.0
    balance_targets: bool = False
    class_weights: Literal["balanced"] | None = None
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    focal_gamma: NotNegative = 0.0
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    trainer: Trainer
    metric: MetricName | None = None
    scale_targets: bool = True
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    ensemble: Annotated[int, Field(ge=2, le=_MOST_MEMBERS)] | None = None
    expected: Expected | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """A recipe from plain values, as :meth:`as_dict` gives them.

        Raises:
            SpecError: a key is unknown or missing, or a value is impossible; the message has a line for each.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise SpecError(_explained(error)) from None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        return self.model_dump(mode="json")

    def as_yaml(self) -> str:
        """The whole recipe as YAML; :func:`pointset.runs.recipe_files.read_recipe` reads it back exactly."""
        from pointset.runs.recipe_files import to_yaml

        return to_yaml(self.as_dict())


def check_ready(recipe: Recipe) -> None:
    """Refuse a recipe that says nothing to learn from: neither ``dataset.name`` nor ``dataset.file`` is set."""
    if recipe.dataset.name is None and recipe.dataset.file is None:
        raise SpecError(
            f"the recipe {recipe.name!r} needs data of your own; add dataset.file=my.csv (and dataset.targets=[…] to "
            "choose columns), or dataset.name=… for a dataset that `pointset datasets` lists"
        )


# --- the keys by path, what each expects, and messages about wrong ones

Schema = dict[str, Any]
_MOST_PROBLEMS = 5  # that a message lists
_MOST_READ = 50  # of which each is compared with all keys, to find what was meant
_LONGEST_VALUE = 60  # letters
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
def known_keys() -> dict[str, list[Schema]]:
    """Each key's path, groups included, with the JSON schemas of the values that it takes.

    ``known_keys()["model.dim"][0]["minimum"]`` is 1.
    """
    schema = Recipe.model_json_schema()
    return dict(_flat(schema, schema["$defs"], ""))


def _flat(schema: Schema, definitions: dict[str, Schema], prefix: str) -> Iterator[tuple[str, list[Schema]]]:
    for name, entry in schema["properties"].items():
        branches = [definitions[branch["$ref"].rsplit("/")[-1]] if "$ref" in branch else branch
                    for branch in entry.get("anyOf", [entry])]  # fmt: skip
        yield f"{prefix}{name}", branches
        for branch in branches:
            if "properties" in branch:
                yield from _flat(branch, definitions, f"{prefix}{name}.")


def takes(path: str, kind: str) -> bool:
    """Whether a key takes a JSON type: ``takes("dataset.file", "null")``."""
    return any(branch.get("type") == kind for branch in known_keys()[path])


def is_group(path: str) -> bool:
    """Whether a path has keys below it that are all known, as ``model`` has."""
    return any("properties" in branch for branch in known_keys()[path])


def expectation(path: str) -> str:
    """What a key expects, in words: ``a whole number, at least 1, or null``."""
    return ", or ".join(_described(branch) for branch in known_keys()[path])


def choices(path: str) -> list[str]:
    """The words that a key takes, where it takes only some."""
    return [choice for branch in known_keys()[path] for choice in _words(branch)]


def _words(branch: Schema) -> Sequence[str]:
    return _REGISTRIES[branch["registry"]]() if "registry" in branch else branch.get("enum", [])


def _described(branch: Schema) -> str:
    if words := _words(branch):
        return f"one of {', '.join(words)}"
    if "properties" in branch:
        return f"the keys {', '.join(branch['properties'])}"
    match branch["type"]:
        case "null":
            return "null"
        case "array":
            return "a list of names or numbers of columns"  # dataset.targets, the only list
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
    group, _, last = wrong.rpartition(".")
    if last in _ALSO_CALLED:
        return f"; did you mean {_ALSO_CALLED[last]!r}?"
    if group in ("", "dataset") and (option := recipe_keys().get(last)):  # of the reader of own data
        return f"; did you mean {option!r}?"

    def nearness(key: str) -> float:
        whole = SequenceMatcher(None, wrong, key).ratio()
        return max(whole, SequenceMatcher(None, last, key.rsplit(".", 1)[-1]).ratio()) + whole / 100

    best = max(known_keys(), key=nearness)
    return f"; did you mean {best!r}?" if nearness(best) >= _NEAR else ""


def _explained(error: ValidationError) -> str:
    """A line for each wrong value, at most five: got, expected, remedy."""
    entries = error.errors(include_url=False)
    lines = list(dict.fromkeys(_problem(dict(entry)) for entry in entries[:_MOST_READ]))
    others = len(lines) - _MOST_PROBLEMS + len(entries[_MOST_READ:])
    more = [f"… and {others:,} more"] if others > 0 else []
    return "\n".join(dict.fromkeys("\n".join([*lines[:_MOST_PROBLEMS], *more]).split("\n")))  # a remedy once


def unknown_key(path: str) -> str:
    """For a key that does not exist."""
    group = path.rpartition(".")[0]
    hint = nearest_key(path)
    if not hint:
        first_keys = ", ".join(key for key in known_keys() if "." not in key)
        hint = f"; expected {expectation(group) if group in known_keys() else f'one of {first_keys}'}"
    return f"there is no key {path!r}{hint}"


def _problem(entry: dict[str, Any]) -> str:
    # dataset.targets[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in entry["loc"]).lstrip(".")
    match entry["type"]:
        case "value_error":  # raised by a validator of ours, in whole sentences
            return str(entry["ctx"]["error"])
        case "extra_forbidden":
            return unknown_key(path)
        case "missing":
            return f"{path} is missing; expected {expectation(path)}"
        case "unknown_name":
            return f"got {path}={shown(entry['input'])}; expected {_expected(path, entry['input'])}{OWN_HINT}"
        case _:
            return f"got {path}={shown(entry['input'])}; expected {_expected(path, entry['input'])}"


def _expected(path: str, got: Any) -> str:
    if path.endswith("]"):
        quotes = " (in quotes)" if isinstance(got, int | float) else ""
        return f"the name of a column{quotes}, or its number counted from 0"
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


def check_schedule(schedule: Schedule, epochs: int) -> None:
    """Refuse a schedule that does not fit into the epochs; the message says what would."""
    warmup, cosine, shape = schedule.warmup, schedule.cosine, schedule.shape
    if epochs < 1:
        raise SpecError(f"got {epochs} epochs; expected at least 1")
    if shape == "restarts" and cosine == 0:
        raise SpecError(
            "got schedule.cosine=0 for schedule.shape=restarts; expected the period of the restarts in epochs"
        )
    if shape in ("cosine", "constant") and cosine:
        raise SpecError(
            f"got schedule.cosine={cosine:g} for schedule.shape={shape}, which has no use for it; set schedule.cosine=0"
            + (" (the cosine lasts from the warm-up to the end)" if shape == "cosine" else "")
        )
    if warmup + cosine > epochs:
        share = epochs / (warmup + cosine)
        parts = [f"{warmup:g} epochs of warm-up"] * bool(warmup) + [f"{cosine:g} of cosine"] * bool(cosine)
        smaller = [f"schedule.warmup={_floored(warmup * share)}", f"schedule.cosine={_floored(cosine * share)}"]
        raise SpecError(
            f"got a schedule of {' and '.join(parts)} for {epochs} epochs; expected at most as many: train for "
            f"trainer.epochs={math.ceil(warmup + cosine)}, or set {' '.join(smaller[: 2 if cosine else 1])}"
        )
    if shape == "cosine" and warmup == epochs:
        raise SpecError(
            f"got a warm-up of {warmup:g} epochs, all there are, for schedule.shape=cosine; set schedule.warmup below "
            "trainer.epochs"
        )


def snapshot_epochs(recipe: Recipe) -> list[int]:
    """After which epochs (from 1) a snapshot is taken: the ends of cycles of like length; none without snapshots."""
    count, epochs = recipe.trainer.snapshots or 0, recipe.trainer.epochs
    return [epochs * number // count for number in range(1, count + 1)]


def check_snapshots(recipe: Recipe) -> None:
    """Refuse snapshots that do not fit into the epochs, or that early stopping would cut off."""
    trainer, ends = recipe.trainer, snapshot_epochs(recipe)
    if trainer.snapshots is None:
        return
    if trainer.snapshots > trainer.epochs or ends[0] <= recipe.schedule.warmup:
        raise SpecError(
            f"got trainer.snapshots={trainer.snapshots} for {trainer.epochs} epochs with {recipe.schedule.warmup:g} of "
            "warm-up; expected cycles of at least one epoch, the first of them longer than the warm-up: take fewer "
            "snapshots, or more trainer.epochs"
        )
    if trainer.patience is not None:
        raise SpecError(
            f"got trainer.patience={trainer.patience} with trainer.snapshots={trainer.snapshots}; stopping early would "
            "cut off cycles. Set trainer.patience=null"
        )


def _floored(epochs: float) -> str:
    """Down to a tenth, so that the parts do not add up to more."""
    return f"{math.floor(epochs * 10 + 1e-9) / 10:g}"
