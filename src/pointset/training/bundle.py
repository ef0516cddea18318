"""A trained model to hand on: :func:`write_bundle`, :func:`read_bundle`.

A bundle is a folder, or one ``.zip``: ``model.safetensors`` with the weights and ``bundle.json`` with all else that
predicting needs: settings, features, targets with their scale, how SMILES are read. The other members of an ensemble,
models of the same settings, have files of their own (``member-2.safetensors``, …). What intervals and the applicability
domain need stands in ``calibration`` and ``domain`` of the JSON, their arrays in ``uncertainty.safetensors``; bundles
without them predict as before. Nothing in a bundle can run: of an encoder of a user's own it names the module that
registers it (``extensions``), which the user imports.
All files have a SHA-256, so that damage is found when it is read and not in the predictions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Array
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.dataset import TargetScale
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.encoders.attributions import Neutral
from pointset.encoders.model import PointModel
from pointset.errors import FileFormatError, PointsetError, SpecError
from pointset.extensions import check_needed, needed
from pointset.files import finite
from pointset.machine import VERSION as PACKAGE_VERSION
from pointset.registry import is_own
from pointset.specs import Categories, Reals, Spec
from pointset.training.bundle_agreement import check_agreement, check_weights
from pointset.training.bundle_files import (
    DESCRIPTION,
    MOST_DESCRIPTION_BYTES,
    MOST_UNCERTAINTY_BYTES,
    MOST_WEIGHTS_BYTES,
    UNCERTAINTY,
    WEIGHTS,
    BundleFiles,
    write_files,
)
from pointset.training.bundle_signature import verify
from pointset.training.uncertainty import Uncertainty

_FORMAT = "pointset bundle"
# A bundle's version: one model, several members, an offset of edge weights, another matrix than the preset's. Those of
# the last two would be misunderstood by a pointset that does not know them.
_SINGLE, _SEVERAL, _OFFSET, _MATRIX = 1, 2, 3, 4
MOST_MEMBERS = 1000


@dataclass(frozen=True, eq=False)
class Bundle:
    """What is in a bundle."""

    models: tuple[PointModel, ...]  # members of an ensemble, of the same settings; mostly one. In evaluation mode
    card: Card
    scale: TargetScale | None = None  # regression: outputs are in units of this
    weighted_edges: int | None = None  # the column of edge features that became edge weights
    edge_weight_offset: int = 0  # what was added to it
    molecule_reader: Mapping[str, Any] | None = None  # settings of MoleculeReader
    neutral: Neutral | None = None  # averages of the training data's features, which contributions are measured from
    about: Mapping[str, Any] = field(default_factory=dict)  # recipe, scores, date: for people
    uncertainty: Uncertainty | None = None  # intervals and applicability domain
    sha256: str = ""  # of the description, which holds that of the weights
    path: Path | None = None  # where it was read

    @property
    def model(self) -> PointModel:
        """The model; of an ensemble the first member."""
        return self.models[0]


def write_bundle(
    path: str | Path,
    models: PointModel | Sequence[PointModel],
    card: Card,
    *,
    scale: TargetScale | None = None,
    weighted_edges: int | None = None,
    edge_weight_offset: int = 0,
    molecule_reader: Mapping[str, Any] | None = None,
    neutral: Neutral | None = None,
    about: Mapping[str, Any] | None = None,
    uncertainty: Uncertainty | None = None,
) -> None:
    """Write a model with all that predicting needs; the bundle appears whole or not at all.

    Args:
        path: a folder, or a file that ends in ``.zip``. An existing bundle is replaced.
        models: from :meth:`pointset.PointModel.from_preset`, trained; or several, the members of an ensemble, which
            differ in their weights only.
        card: of the dataset that it was trained on.
        scale: by which the targets of a regression were normalised.
        weighted_edges: the column of edge features that became edge weights (``Dataset.with_weighted_edges``).
        edge_weight_offset: what was added to them; of no meaning without such a column.
        molecule_reader: settings of :class:`~pointset.datasets.molecules.MoleculeReader` by which SMILES were read.
        neutral: averages of the features of the training data, which explanations need.
        about: anything else that JSON holds, for people. Numbers that are not finite become null.
        uncertainty: what intervals and the applicability domain need.

    Raises:
        SpecError: the model is not from a preset, has weights that are not finite, or does not fit the card; or members
            differ in more than their weights.
        FileFormatError: something other than a bundle is at this path.
    """
    members = (models,) if isinstance(models, PointModel) else tuple(models)
    settings = _shared_settings(members)
    _check_reader(molecule_reader)
    del settings["noise"], settings["dropout"]  # which only training has
    if settings["matrix"] is None:
        del settings["matrix"]
    weights = {
        WEIGHTS if not at else f"member-{at + 1}.safetensors": _weights_of(one) for at, one in enumerate(members)
    }
    files = [{"file": name, "sha256": hashlib.sha256(content).hexdigest()} for name, content in weights.items()]
    description = {
        "format": _FORMAT,
        "version": _SINGLE if len(members) == 1 else _SEVERAL,
        "pointset": PACKAGE_VERSION,
        "model": settings | {key: spec_as_plain(settings[key]) for key in ("node", "edge")},
        "card": _card_as_plain(card),
        "weighted_edges": weighted_edges,
        "scale": None if scale is None else {"mean": scale.mean.tolist(), "std": scale.std.tolist()},
        "molecule_reader": None if molecule_reader is None else dict(molecule_reader),
        "about": finite(dict(about or {})),
        "weights": files[0],
    }
    if weighted_edges is not None and edge_weight_offset:  # a pointset that does not know it must not read the rest
        description |= {"version": _OFFSET, "edge_weight_offset": edge_weight_offset}
    if "matrix" in settings:
        description["version"] = _MATRIX
    metrics = [("metric", card.metric.value), ("metric", description["about"].get("metric"))]
    if own := needed(("encoder", settings["preset"]), *metrics):
        description["extensions"] = own
    if neutral is not None:
        description["neutral"] = neutral._asdict()
    if len(members) > 1:
        description["other_members"] = files[1:]
    others = {}
    if uncertainty is not None:
        plain, arrays = uncertainty.as_plain()
        others[UNCERTAINTY] = _safetensors_of(arrays)
        digest = hashlib.sha256(others[UNCERTAINTY]).hexdigest()
        description |= {**plain, "uncertainty": {"file": UNCERTAINTY, "sha256": digest}}
    check_agreement(description, settings, card, scale)
    check_weights(description, members)
    try:
        description["sha256"] = _digest(description)
        text = json.dumps(description, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"about= cannot be written as JSON ({error}); expected plain values") from None
    write_files(Path(path), {DESCRIPTION: text.encode(), **weights, **others})


def read_bundle(path: str | Path, *, public_key: str | Path | None = None) -> Bundle:
    """Read a bundle: its folder, its ``.zip``, or the folder of a run that has one. Nothing in it is trusted.

    Args:
        path: where it is, or the name of a shipped model.
        public_key: a file with the public key that it must be signed with (:mod:`pointset.training.bundle_signature`).
            The signature is checked first, and what was checked is what is loaded.

    Raises:
        MissingDataError: there is nothing at this path.
        FileFormatError: it is not a bundle, is damaged, was changed, or was written by a newer pointset.
        SignatureError: it is not signed with this key.
        MissingExtraError: a key is given, and cryptography is not installed.
    """
    files = BundleFiles(path)
    if public_key is not None:
        verify(files, public_key)
    return bundle_of(files)


def bundle_of(files: BundleFiles) -> Bundle:
    """:func:`read_bundle` of files that are found already."""
    try:
        description = _description(files.read(DESCRIPTION, MOST_DESCRIPTION_BYTES))
        place = Place(description, "")
        check_needed("the bundle", description.get("extensions"))
        settings, card = _settings_from(place.at("model")), _card_from(place.at("card"))
        scale, column = _scale_from(place.at("scale")), place.at("weighted_edges")
        weighted_edges = None if column.value is None else column.whole(0)
        reader, about = place.at("molecule_reader"), place.at("about")
        _check_reader(reader.value)
        weights = [place.at("weights")]
        weights += place.at("other_members").items() if "other_members" in description else []
        check_agreement(description, settings, card, scale)
        models = _read_models(files, weights, settings)
        check_weights(description, models)
        return Bundle(
            models=models,
            card=card,
            scale=scale,
            weighted_edges=weighted_edges,
            edge_weight_offset=place.at("edge_weight_offset").whole(0) if "edge_weight_offset" in description else 0,
            molecule_reader=reader.value,
            neutral=_neutral_from(place.at("neutral"), settings) if "neutral" in description else None,
            about=about.expect(dict),
            uncertainty=_read_uncertainty(files, place, card, models),
            sha256=description["sha256"],
            path=files.path,
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
    if type(version) is int and version > _MATRIX:
        raise FileFormatError(
            f"the bundle has version {version}, and this pointset ({PACKAGE_VERSION}) reads up to {_MATRIX}; it was "
            f"written by pointset {description.get('pointset')!s:.20}. Upgrade: pip install -U pointset"
        )
    if type(version) is not int or version < 1:
        raise FileFormatError(f"the bundle's version is {version!r:.40}; expected a number from 1 to {_MATRIX}")
    if description.get("sha256") != _digest(description):
        raise FileFormatError(f"{DESCRIPTION} does not match its checksum; it is damaged, or someone changed it")
    return description


def _digest(description: Mapping[str, Any]) -> str:
    """SHA-256 of all but itself, in a form that does not depend on blanks and order."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _shared_settings(members: Sequence[PointModel]) -> dict[str, Any]:
    """Of models that may stand in one bundle."""
    if not 1 <= len(members) <= MOST_MEMBERS:
        raise SpecError(f"got {len(members):,} models; expected at least one and at most {MOST_MEMBERS:,}")
    settings = [model.settings for model in members]
    if settings[0] is None or None in settings:
        raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
    types = {parameter.dtype for model in members for parameter in model.parameters()}
    if any(other != settings[0] for other in settings) or len(types) > 1:
        raise SpecError("the members of the ensemble differ in their settings or types; expected the same for all")
    return settings[0]._asdict()


def _weights_of(model: PointModel) -> bytes:
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if strange := _not_finite(tensors):
        raise SpecError(f"the weights {strange} are not finite numbers: the training diverged. Lower its learning rate")
    return save(tensors)


def _read_models(files: BundleFiles, entries: Sequence[Place], settings: dict[str, Any]) -> tuple[PointModel, ...]:
    """All members; together their files are no larger than one may be, and each is a file of its own."""
    names = [entry.at("file").expect(str) for entry in entries]
    if len(names) > MOST_MEMBERS or len(set(names)) < len(names):
        raise FileFormatError(
            f"the bundle names {len(names):,} files of weights, {len(set(names)):,} of them different; expected one "
            f"for each member, at most {MOST_MEMBERS:,}"
        )
    models, left = [], MOST_WEIGHTS_BYTES
    for name, entry in zip(names, entries, strict=True):
        weights = files.read(name, left)
        left -= len(weights)
        if hashlib.sha256(weights).hexdigest() != entry.at("sha256").expect(str):
            raise FileFormatError(f"{name} does not match its checksum; the bundle is damaged. Copy it again")
        models.append(_model(settings, _tensors(weights, name)))
    if len({next(model.parameters()).dtype for model in models}) > 1:
        raise FileFormatError("the members have weights of different types; expected float32, or float64, for all")
    return tuple(models)


def _tensors(weights: bytes, name: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(weights)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{name} is not a safetensors file ({error})") from None
    if strange := _not_finite(tensors):
        raise FileFormatError(f"the weights {strange} are not finite numbers; expected a trained model")
    return tensors


def _safetensors_of(arrays: Mapping[str, Array]) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def _read_uncertainty(
    files: BundleFiles, place: Place, card: Card, models: tuple[PointModel, ...]
) -> Uncertainty | None:
    """None where the bundle has none, as older ones."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if "uncertainty" not in place.value:
        return None
    entry = place.at("uncertainty")
    content = files.read(entry.at("file").expect(str), MOST_UNCERTAINTY_BYTES)
    if hashlib.sha256(content).hexdigest() != entry.at("sha256").expect(str):
        raise FileFormatError(f"{UNCERTAINTY} does not match its checksum; the bundle is damaged. Copy it again")
    try:
        arrays = load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{UNCERTAINTY} is not a safetensors file ({error})") from None
    return Uncertainty.from_plain(place, arrays, card, len(models), models[0].readout.linear.in_features)


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
    """Fewer than any preset has: a d × d matrix in each layer, the tables of categories, the last linear map.

    An encoder of a user's own may share what it has among its layers.
    """
    dim, rows = settings["dim"], settings["out"] + settings["descriptors"]
    for spec in (settings["node"], settings["edge"]):
        rows += sum(spec.sizes) if isinstance(spec, Categories) else 0 if spec is None else spec.width
    return int(dim * rows + (settings["layers"] if is_own(settings["name"]) else settings["layers"] * dim**2))


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
    given = place.expect(dict)  # older bundles lack some
    settings["descriptors"] = place.at("descriptors").whole(0) if "descriptors" in given else 0
    settings["references"] = place.at("references").expect(bool) if "references" in given else False
    settings["rank"] = None if given.get("rank") is None else place.at("rank").whole(1)
    settings["matrix"] = place.at("matrix").expect(str) if "matrix" in given else None
    return settings | {key: spec_from(place.at(key)) for key in ("node", "edge")}


def _neutral_from(place: Place, settings: Mapping[str, Any]) -> Neutral:
    """Averages that fit the features of the model."""

    def averages(key: str) -> tuple[tuple[float, ...], ...] | None:
        spec: Spec = settings[key]
        if place.at(key).value is None:
            return None
        found = tuple(tuple(one.number() for one in column.items()) for column in place.at(key).items())
        expected = [] if spec is None else list(spec.sizes) if isinstance(spec, Categories) else [spec.width]
        if [len(column) for column in found] != expected:
            raise place.at(key).wrong(f"lists of {expected} numbers")
        return found

    return Neutral(averages("node"), averages("edge"))


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
