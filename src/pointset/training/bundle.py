"""A trained model to hand on: :func:`write_bundle`, :func:`read_bundle`.

A bundle is a folder, or one ``.zip``, of two files: ``model.safetensors`` with the weights and ``bundle.json`` with all
else that predicting needs: settings, features, targets with their scale, how SMILES are read. Nothing in it can run.
Both files have a SHA-256, so that damage is found when it is read and not in the predictions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.dataset import TargetScale
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.encoders.model import PointModel
from pointset.errors import FileFormatError, PointsetError, SpecError
from pointset.files import finite
from pointset.machine import VERSION as PACKAGE_VERSION
from pointset.specs import Categories, Reals, Spec
from pointset.training.bundle_files import (
    DESCRIPTION,
    MOST_DESCRIPTION_BYTES,
    MOST_WEIGHTS_BYTES,
    WEIGHTS,
    BundleFiles,
    write_files,
)

_FORMAT = "pointset bundle"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Bundle:
    """What is in a bundle."""

    model: PointModel  # in evaluation mode
    card: Card
    scale: TargetScale | None = None  # regression: outputs are in units of this
    weighted_edges: int | None = None  # the column of edge features that became edge weights
    molecule_reader: Mapping[str, Any] | None = None  # settings of MoleculeReader
    about: Mapping[str, Any] = field(default_factory=dict)  # recipe, scores, date: for people
    sha256: str = ""  # of the description, which holds that of the weights


def write_bundle(
    path: str | Path,
    model: PointModel,
    card: Card,
    *,
    scale: TargetScale | None = None,
    weighted_edges: int | None = None,
    molecule_reader: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write a model with all that predicting needs; the bundle appears whole or not at all.

    Args:
        path: a folder, or a file that ends in ``.zip``. An existing bundle is replaced.
        model: from :meth:`pointset.PointModel.from_preset`, trained.
        card: of the dataset that it was trained on.
        scale: by which the targets of a regression were normalised.
        weighted_edges: the column of edge features that became edge weights (``Dataset.with_weighted_edges``).
        molecule_reader: settings of :class:`~pointset.datasets.molecules.MoleculeReader` by which SMILES were read.
        about: anything else that JSON holds, for people. Numbers that are not finite become null.

    Raises:
        SpecError: the model is not from a preset, has weights that are not finite, or does not fit the card.
        FileFormatError: something other than a bundle is at this path.
    """
    if model.settings is None:
        raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
    settings = model.settings._asdict()
    _check_agreement(settings, card, scale)
    _check_reader(molecule_reader)
    del settings["noise"]  # which only training has
    weights = _weights_of(model)
    description = {
        "format": _FORMAT,
        "version": _VERSION,
        "pointset": PACKAGE_VERSION,
        "model": settings | {key: spec_as_plain(settings[key]) for key in ("node", "edge")},
        "card": _card_as_plain(card),
        "weighted_edges": weighted_edges,
        "scale": None if scale is None else {"mean": scale.mean.tolist(), "std": scale.std.tolist()},
        "molecule_reader": None if molecule_reader is None else dict(molecule_reader),
        "about": finite(dict(about or {})),
        "weights": {"file": WEIGHTS, "sha256": hashlib.sha256(weights).hexdigest()},
    }
    try:
        description["sha256"] = _digest(description)
        text = json.dumps(description, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"about= cannot be written as JSON ({error}); expected plain values") from None
    write_files(Path(path), {DESCRIPTION: text.encode(), WEIGHTS: weights})


def read_bundle(path: str | Path) -> Bundle:
    """Read a bundle: its folder, its ``.zip``, or the folder of a run that has one. Nothing in it is trusted.

    Raises:
        MissingDataError: there is nothing at this path.
        FileFormatError: it is not a bundle, is damaged, was changed, or was written by a newer pointset.
    """
    files = BundleFiles(path)
    try:
        description = _description(files.read(DESCRIPTION, MOST_DESCRIPTION_BYTES))
        place = Place(description, "")
        weights = files.read(place.at("weights").at("file").expect(str), MOST_WEIGHTS_BYTES)
        if hashlib.sha256(weights).hexdigest() != place.at("weights").at("sha256").expect(str):
            raise FileFormatError("the weights do not match their checksum; the bundle is damaged. Copy it again")
        settings, card = _settings_from(place.at("model")), _card_from(place.at("card"))
        scale, column = _scale_from(place.at("scale")), place.at("weighted_edges")
        reader, about = place.at("molecule_reader"), place.at("about")
        _check_agreement(settings, card, scale)
        _check_reader(reader.value)
        return Bundle(
            model=_model(settings, _tensors(weights)),
            card=card,
            scale=scale,
            weighted_edges=None if column.value is None else column.whole(0),
            molecule_reader=reader.value,
            about=about.value if isinstance(about.value, dict) else {},
            sha256=description["sha256"],
        )
    except FileFormatError as error:
        prefix = "" if str(files.path) in str(error) else f"{files.path}: "
        raise FileFormatError(f"{prefix}{error}") from None
    except SpecError as error:
        raise FileFormatError(f"{files.path}: {error}") from None


def _description(text: bytes) -> dict[str, Any]:
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{DESCRIPTION} is not JSON ({error}); it is damaged. Copy the bundle again") from None
    if not isinstance(description, dict) or description.get("format") != _FORMAT:
        raise FileFormatError(f"{DESCRIPTION} does not describe a bundle; expected one that pointset wrote")
    version = description.get("version")
    if type(version) is int and version > _VERSION:
        raise FileFormatError(
            f"the bundle has version {version}, and this pointset ({PACKAGE_VERSION}) reads up to {_VERSION}; it was "
            f"written by pointset {description.get('pointset')!s:.20}. Upgrade: pip install -U pointset"
        )
    if version != _VERSION or type(version) is not int:
        raise FileFormatError(f"the bundle's version is {version!r:.40}; expected {_VERSION}")
    if description.get("sha256") != _digest(description):
        raise FileFormatError(f"{DESCRIPTION} does not match its checksum; it is damaged, or someone changed it")
    return description


def _digest(description: Mapping[str, Any]) -> str:
    """SHA-256 of all but itself, in a form that does not depend on blanks and order."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _weights_of(model: PointModel) -> bytes:
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if strange := _not_finite(tensors):
        raise SpecError(f"the weights {strange} are not finite numbers: the training diverged. Lower its learning rate")
    return save(tensors)


def _tensors(weights: bytes) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(weights)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{WEIGHTS} is not a safetensors file ({error})") from None
    if strange := _not_finite(tensors):
        raise FileFormatError(f"the weights {strange} are not finite numbers; expected a trained model")
    return tensors


def _not_finite(tensors: Mapping[str, Tensor]) -> str:
    return next((name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())), "")


def _model(settings: dict[str, Any], tensors: dict[str, Tensor]) -> PointModel:
    """The model with these weights."""
    dtypes = {tensor.dtype for tensor in tensors.values()}
    if len(dtypes) != 1 or not dtypes <= {torch.float32, torch.float64}:
        raise FileFormatError(f"the weights are of types {sorted(map(str, dtypes))}; expected float32 or float64")
    held, least = sum(tensor.numel() for tensor in tensors.values()), _least_parameters(settings)
    if least > held:  # settings can claim anything: no memory is taken before they are held against what is there
        raise FileFormatError(f"the model claims at least {least:,} weights, and the bundle holds {held:,}")
    with torch.random.fork_rng(devices=[]):  # a new model draws its weights: not from the user's generator
        model = PointModel.from_preset(**settings).to(dtypes.pop())
    given, expected = (
        {name: tuple(tensor.shape) for name, tensor in one.items()} for one in (tensors, model.state_dict())
    )
    if given != expected:
        name = next(name for name in (*expected, *given) if given.get(name) != expected.get(name))
        raise FileFormatError(
            f"the weights do not fit the model: {name} has shape {given.get(name)}; expected {expected.get(name)}"
        )
    model.load_state_dict(tensors)
    return model.eval().requires_grad_(False)


def _least_parameters(settings: Mapping[str, Any]) -> int:
    """Fewer than any preset has: a d × d matrix in each layer, the tables of categories, the last linear map."""
    dim, rows = settings["dim"], settings["out"]
    for spec in (settings["node"], settings["edge"]):
        rows += sum(spec.sizes) if isinstance(spec, Categories) else 0 if spec is None else spec.width
    return int(dim * (settings["layers"] * dim + rows))


# --- bundle.json: every value is checked, and what is wrong is named by its place: ``model.dim is "64"; expected …``


Value = TypeVar("Value")
_JSON_TYPES: dict[type, str] = {str: "text", bool: "true or false", list: "a list", dict: "an object"}


class Place(NamedTuple):
    """A value of the JSON and where it stands."""

    value: Any
    name: str

    def at(self, key: str) -> Place:
        """A value of an object."""
        name = f"{self.name}.{key}" if self.name else key
        if key not in self.expect(dict):
            raise FileFormatError(f"{name} is missing")
        return Place(self.value[key], name)

    def wrong(self, expected: str) -> FileFormatError:
        """The error that says what is here and what should be."""
        return FileFormatError(f"{self.name or 'the description'} is {self.value!r:.80}; expected {expected}")

    def expect(self, kind: type[Value]) -> Value:
        """The value, which must be text, true or false, a list or an object."""
        if not isinstance(self.value, kind):
            raise self.wrong(_JSON_TYPES[kind])
        return self.value

    def whole(self, least: int) -> int:
        """A whole number."""
        if type(self.value) is not int or self.value < least:
            raise self.wrong(f"a whole number, at least {least}")
        return self.value

    def number(self) -> float:
        """A finite number."""
        if type(self.value) not in (int, float) or not abs(self.value) <= sys.float_info.max:
            raise self.wrong("a finite number")
        return float(self.value)

    def items(self) -> list[Place]:
        """The entries of a list."""
        return [Place(value, f"{self.name}[{at}]") for at, value in enumerate(self.expect(list))]


def spec_as_plain(spec: Spec) -> Any:
    """``{"categories": [28]}``, ``{"reals": 3}`` or null."""
    if spec is None:
        return None
    return {"categories": list(spec.sizes)} if isinstance(spec, Categories) else {"reals": spec.width}


def spec_from(place: Place) -> Spec:
    """The inverse of :func:`spec_as_plain`."""
    if place.value is None:
        return None
    kind = next(iter(place.value), None) if isinstance(place.value, dict) and len(place.value) == 1 else None
    if kind == "reals":
        return Reals(place.at(kind).whole(1))
    if kind == "categories" and place.at(kind).items():
        return Categories(*(size.whole(1) for size in place.at(kind).items()))
    raise place.wrong('null, {"categories": [sizes]} or {"reals": width}')


def _settings_from(place: Place) -> dict[str, Any]:
    """Keyword arguments of :meth:`pointset.PointModel.from_preset`, which checks the names in them."""
    settings: dict[str, Any] = {"name": place.at("preset").expect(str)}
    settings |= {key: place.at(key).expect(str) for key in ("level", "pooling")}
    settings |= {key: place.at(key).whole(1) for key in ("out", "dim", "layers")}
    return settings | {key: spec_from(place.at(key)) for key in ("node", "edge")}


def _card_as_plain(card: Card) -> Any:
    """What predicting needs of a card."""
    return {
        "name": card.name,
        "title": card.title,
        "task": card.task.value,
        "level": card.level.value,
        "targets": [dataclasses.asdict(target) for target in card.targets],
        "classes": list(card.classes),
        "metric": card.metric.value,
        "node": spec_as_plain(card.node),
        "edge": spec_as_plain(card.edge),
        "positions": card.positions,
        "molecules": card.molecules,
    }


def _card_from(place: Place) -> Card:
    """The card again; what the bundle does not hold (description, split, licence) is empty."""
    molecules = place.at("molecules")
    return Card(
        name=place.at("name").expect(str),
        title=place.at("title").expect(str),
        description="",
        level=_choice(place.at("level"), Level),
        task=_choice(place.at("task"), Task),
        targets=tuple(
            Target(**{key: target.at(key).expect(str) for key in ("name", "unit", "meaning")})
            for target in place.at("targets").items()
        ),
        metric=_choice(place.at("metric"), Metric),
        split="",
        node=spec_from(place.at("node")),
        edge=spec_from(place.at("edge")),
        positions=place.at("positions").expect(bool),
        classes=tuple(name.expect(str) for name in place.at("classes").items()),
        molecules=None if molecules.value is None else molecules.expect(str),
    )


def _choice(place: Place, kind: Any) -> Any:
    try:
        return kind(place.value)
    except ValueError:
        raise place.wrong(f"one of {', '.join(kind)}") from None


def _scale_from(place: Place) -> TargetScale | None:
    """``{"mean": […], "std": […]}`` or null."""
    if place.value is None:
        return None
    mean, std = ([number.number() for number in place.at(key).items()] for key in ("mean", "std"))
    if len(mean) != len(std) or min(std, default=0) <= 0:
        raise place.wrong("as many means as standard deviations, which are positive")
    return TargetScale(torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64))


def _check_reader(settings: Any) -> None:
    """That :class:`MoleculeReader` takes these settings; None are the defaults."""
    known = [field.name for field in dataclasses.fields(MoleculeReader)]
    if not isinstance(settings, (Mapping, type(None))) or not set(settings or ()) <= set(known):
        raise FileFormatError(f"molecule_reader is {settings!r:.80}; expected some of {', '.join(known)}")
    try:
        MoleculeReader(**settings or {})
    except PointsetError as error:
        raise FileFormatError(f"molecule_reader: {error}") from None


def _check_agreement(settings: Mapping[str, Any], card: Card, scale: TargetScale | None) -> None:
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
