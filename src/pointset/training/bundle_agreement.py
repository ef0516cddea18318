"""Whether the parts of a bundle agree: its model, card, scale, reader of molecules, recorded recipe and model card.

A bundle says some things twice: the model takes the features that the card describes, and the recipe that it was
trained by names the same preset. Whoever edits one of them by hand, checksums included, would get predictions that
are wrong in silence, or an error far from its cause. :func:`check_agreement` refuses such a bundle when it is written
and when it is read. What is said once only (the mean of the targets, say) cannot contradict anything: a signature
protects it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pointset.datasets.card import Card, Task
from pointset.datasets.dataset import TargetScale
from pointset.datasets.molecules.descriptors import descriptor_names
from pointset.datasets.molecules.features import OGB_FEATURES
from pointset.encoders.model import PointModel
from pointset.errors import SpecError
from pointset.metrics import is_metric, metric_named, metric_names
from pointset.models import derived
from pointset.registry import model_matrix, preset_named

_REMEDY = "Take the bundle as it was written, or train the model again"


def check_agreement(
    description: Mapping[str, Any], settings: Mapping[str, Any], card: Card, scale: TargetScale | None
) -> None:
    """That what a bundle says twice is the same.

    Args:
        description: ``bundle.json``.
        settings: of the model, with ``node`` and ``edge`` as specs.
        card: of the data that it was trained on.
        scale: of the targets.

    Raises:
        SpecError: two parts contradict each other; the message names both.
    """
    _check_outputs(settings, card, scale)
    _check_features(description, settings, card)
    _check_descriptors(description, settings)
    _check_files(description)
    _check_names(description, card)
    about = _group(description, "about")
    if isinstance(recipe := about.get("settings"), Mapping):
        _check_recipe(recipe, description, card, scale)
    if isinstance(about.get("card"), Mapping):
        _check_model_card(about["card"], description)


def check_weights(description: Mapping[str, Any], models: Sequence[PointModel]) -> None:
    """That the weights are those that the recorded recipe and the model card describe."""
    about = _group(description, "about")
    count = sum(model.num_parameters for model in models)
    stated = _group(about, "card").get("parameters", count)
    _agree("about.card.parameters", stated, "the number of weights", count)
    precision = _group(_group(about, "settings"), "trainer").get("precision")
    double = next(models[0].parameters()).dtype == torch.float64
    if precision is not None:
        _agree("about.settings.trainer.precision == 64", precision == "64", "whether the weights have 64 bits", double)


def _agree(first: str, value: Any, second: str, other: Any) -> None:
    """That two places of the bundle have the same value; of lists and objects the part that differs is named."""
    if value != other:
        if isinstance(value, Mapping) and isinstance(other, Mapping) and set(value) == set(other):
            for key in value:
                _agree(f"{first}.{key}", value[key], f"{second}.{key}", other[key])
        if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
            for at, (one, another) in enumerate(zip(value, other, strict=True)):
                _agree(f"{first}[{at}]", one, f"{second}[{at}]", another)
        raise SpecError(
            f"the bundle contradicts itself: {first} is {_shown(value)}, but {second} is {_shown(other)}. {_REMEDY}"
        )


def _shown(value: Any) -> str:
    return f"{value!r:.80}"


def _group(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object in an object; empty where there is none, as in bundles of older versions."""
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


# --- model and card


def _check_outputs(settings: Mapping[str, Any], card: Card, scale: TargetScale | None) -> None:
    """That the model gives what the card promises."""
    if not card.targets or card.outputs < 1:
        raise SpecError(f"the card of {card.name} names no targets; expected what the model predicts")
    if settings["out"] != card.outputs or settings["level"] != card.level.value:
        raise SpecError(
            f"the model gives {settings['out']} numbers for each {settings['level']}, and the card of {card.name} "
            f"names {card.outputs} for each {card.level.value}; expected the same"
        )
    if scale is not None and (card.task is not Task.REGRESSION or scale.mean.shape != (card.outputs,)):
        raise SpecError(
            f"the scale has shape {tuple(scale.mean.shape)} for a {card.task.value} with {card.outputs} outputs; "
            "expected one number for each target of a regression, or no scale"
        )
    if (card.task is not Task.MULTI_CLASS and card.classes) or (
        card.task in (Task.BINARY, Task.MULTI_CLASS) and len(card.targets) != 1
    ):
        raise SpecError(
            f"the card of {card.name} names {len(card.targets)} targets and {len(card.classes)} classes for a "
            f"{card.task.value}; expected classes for a {Task.MULTI_CLASS.value} alone, and one target where one class "
            "is chosen"
        )
    if card.task not in card.metric.tasks:
        raise SpecError(
            f"the card of {card.name} has the metric {card.metric.value} for a {card.task.value}; expected one of "
            f"{', '.join(metric_names(card.task))}"
        )


def _check_features(description: Mapping[str, Any], settings: Mapping[str, Any], card: Card) -> None:
    """That the model takes features that the card describes; it need not take all of them."""
    for key, known in (("node", card.node), ("edge", card.edge)):
        if settings[key] is not None:
            _agree(f"model.{key}", settings[key], f"card.{key}", known)
    preset, column = description["model"]["preset"], description.get("weighted_edges")
    if preset_named(preset).uses_positions and not card.positions:
        raise SpecError(f"the model {preset} needs positions in space, and the card of {card.name} has none")
    if column is not None and card.edge is not None and not column < card.edge.width:
        raise SpecError(
            f"weighted_edges is {column}, and the card of {card.name} has {card.edge.width} columns of edge features; "
            "expected one of them, counted from 0"
        )
    if card.molecules is None and description.get("molecule_reader") is not None:
        raise SpecError("molecule_reader says how SMILES are read, and card.molecules is null; expected both or none")
    if card.molecules == OGB_FEATURES["molecules"]:
        for key in ("node", "edge"):
            _agree(f"card.{key}", getattr(card, key), "that of OGB's molecules", OGB_FEATURES[key])


def _check_descriptors(description: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """That as many descriptors are computed, or read from a table, as the model takes."""
    about, count = _group(description, "about"), settings["descriptors"]
    computed, columns = _group(description, "molecule_reader").get("descriptors"), about.get("descriptor_columns")
    if columns is not None:
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise SpecError(f"about.descriptor_columns is {_shown(columns)}; expected a list of names, or null")
        _agree("the number of about.descriptor_columns", len(columns), "model.descriptors", count)
    if computed is not None:
        names = descriptor_names(computed)
        _agree(f"the number of descriptors called {computed}", len(names), "model.descriptors", count)
    if "descriptors" in about and columns is None:
        _agree("about.descriptors", about["descriptors"], "molecule_reader.descriptors", computed)


def _check_files(description: Mapping[str, Any]) -> None:
    """That parts which belong together are there together."""
    version, several = description["version"], "other_members" in description
    if (several and version == 1) or (version == 2 and not several):
        raise SpecError(
            f"version is {version}, and other_members is {'there' if several else 'missing'}; expected them in version "
            "2, and none in version 1"
        )
    if version < 4:
        _agree("version > 2", version > 2, "whether edge_weight_offset is there", "edge_weight_offset" in description)
    _agree("version > 3", version > 3, "whether model.matrix is there", "matrix" in description["model"])
    uncertainty = {"calibration", "domain", "uncertainty"}
    if missing := uncertainty - set(description) if uncertainty & set(description) else set():
        raise SpecError(f"{', '.join(sorted(missing))} is missing; expected {', '.join(sorted(uncertainty))} or none")


def _check_names(description: Mapping[str, Any], card: Card) -> None:
    """That the metric suits the task, and extensions are of names that the bundle has."""
    metric = _group(description, "about").get("metric")
    metric = metric if isinstance(metric, str) and is_metric(metric) else card.metric.value
    if card.task not in metric_named(metric).tasks:
        raise SpecError(
            f"about.metric is {metric}, and the card of {card.name} is of a {card.task.value}; expected one of "
            f"{', '.join(metric_names(card.task))}"
        )
    named = {"encoder": {description["model"]["preset"]}, "metric": {card.metric.value, metric}}
    for kind, own in _group(description, "extensions").items():
        if strange := set(own if isinstance(own, Mapping) else {}) - named.get(kind, set()):
            raise SpecError(f"extensions names the {kind} {sorted(strange)[0]!r:.80}, which the bundle does not use")


# --- what was recorded


def _check_recipe(
    recipe: Mapping[str, Any], description: Mapping[str, Any], card: Card, scale: TargetScale | None
) -> None:
    """That the recorded recipe is one of this model; what it does not say is not compared."""
    about, built = _group(description, "about"), description["model"]
    learner, data = _group(recipe, "model"), _group(recipe, "dataset")
    pairs = [(f"model.{key}", learner, key, f"model.{key}", built.get(key))
             for key in ("preset", "dim", "layers", "pooling", "rank")]  # fmt: skip
    pairs += [
        ("name", recipe, "name", "about.recipe", about.get("recipe", recipe.get("name"))),
        ("seed", recipe, "seed", "about.seed", about.get("seed", recipe.get("seed"))),
        (
            "model.descriptors",
            learner,
            "descriptors",
            "about.descriptors",
            about.get("descriptors", learner.get("descriptors")),
        ),
        ("dataset.weighted_edges", data, "weighted_edges", "weighted_edges", description.get("weighted_edges")),
    ]
    if data.get("weighted_edges") is not None:
        offset = description.get("edge_weight_offset", 0)
        pairs.append(("dataset.edge_weight_offset", data, "edge_weight_offset", "edge_weight_offset", offset))
    if recipe.get("metric") is not None:
        pairs.append(("metric", recipe, "metric", "about.metric", about.get("metric", recipe["metric"])))
    if data.get("name") is not None:
        pairs.append(("dataset.name", data, "name", "card.name", card.name))
    for name, group, key, place, value in pairs:
        if key in group:
            _agree(f"about.settings.{name}", group[key], place, value)
    _check_targets(recipe, data, card, scale, references=bool(built.get("references")))
    if {"model": learner.get("atom_references"), "built": built.get("references")} in _IMPOSSIBLE_REFERENCES:
        _agree("about.settings.model.atom_references", learner["atom_references"], "model.references",
               built.get("references"))  # fmt: skip
    if "matrix" in learner:  # null in either place is the preset's own
        wanted, taken = (model_matrix(built["preset"], place.get("matrix")) for place in (learner, built))
        _agree("about.settings.model.matrix", wanted, "the matrix of the model", taken)
    if not _group(recipe, "trainer").get("snapshots") and "ensemble" in recipe:
        members = 1 + len(description.get("other_members", ()))
        _agree("about.settings.ensemble", recipe["ensemble"] or 1, "the number of members", members)


_IMPOSSIBLE_REFERENCES = ({"model": "never", "built": True}, {"model": "always", "built": False})


def _check_targets(
    recipe: Mapping[str, Any], data: Mapping[str, Any], card: Card, scale: TargetScale | None, *, references: bool
) -> None:
    """That the model predicts the columns that the recipe names, scaled or not as it says."""
    columns = data.get("targets")
    if isinstance(columns, list):  # a column may be given by its number
        names = [card.target_names[at] if str(name).isdecimal() and at < len(card.targets) else name
                 for at, name in enumerate(columns)]  # fmt: skip
        _agree("about.settings.dataset.targets", names, "the names of card.targets", list(card.target_names))
    if card.task is Task.REGRESSION and "scale_targets" in recipe and not references:
        _agree("about.settings.scale_targets", recipe["scale_targets"], "whether there is a scale", scale is not None)


_TOLD_AT = {"test": "about.test", "recipe": "about.recipe"} | {
    key: f"card.{key}" for key in ("task", "level", "targets")
}


def _check_model_card(stated: Mapping[str, Any], description: Mapping[str, Any]) -> None:
    """That the card for people (``pointset models show``) is of this model."""
    about = _group(description, "about")
    for key, value in derived(description).items():
        _agree(f"about.card.{key}", stated.get(key, value), _TOLD_AT.get(key, "what follows from the rest"), value)
    title = _group(stated, "data").get("title", description["card"]["title"])
    _agree("about.card.data.title", title, "card.title", description["card"]["title"])
    names = [target["name"] for target in description["card"]["targets"]]
    scored = _group(_group(stated, "per_target"), "test")
    if scored:
        _agree("about.card.per_target.test", sorted(scored), "the names of card.targets", sorted(names))
    metric, interval = stated.get("metric"), _group(stated, "test_interval")
    if interval and isinstance(metric, str) and metric in _group(about, "test"):
        _agree("about.card.test_interval.value", interval.get("value"), f"about.test.{metric}",
               about["test"][metric])  # fmt: skip
    domain, known = _group(stated, "domain"), _group(description, "domain")
    for key, other in (("nodes", "nodes"), ("largest_distance", "largest_distance"), ("threshold", "least_similarity")):
        if key in domain and known:
            _agree(f"about.card.domain.{key}", domain[key], f"domain.{other}", known.get(other))
