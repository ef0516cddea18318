"""What ``bundle.json`` says, to JSON and back: specs, the model's settings, the card, the scale, the SMILES reader.

Every value that comes back is checked; what is wrong is named by its place: ``model.dim is "64"; expected …``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.scale import TargetScale
from pointset.encoders.model import Settings
from pointset.errors import FileFormatError, PointsetError, SpecError
from pointset.specs import Categories, Reals, Spec

Plain = Any  # what json.loads gives


class Place(NamedTuple):
    """A value of the JSON and where it stands."""

    value: Plain
    name: str

    def at(self, key: str) -> Place:
        """A value of an object."""
        name = f"{self.name}.{key}" if self.name else key
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if key not in self.value:
            raise FileFormatError(f"{name} is missing")
        return Place(self.value[key], name)

    def wrong(self, expected: str) -> FileFormatError:
        """The error that says what is here and what should be."""
        return FileFormatError(f"{self.name or 'the description'} is {self.value!r:.80}; expected {expected}")

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self.wrong("text")
        return self.value

    def whole(self, least: int) -> int:
        """A whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < least:
            raise self.wrong(f"a whole number, at least {least}")
        return self.value

    def number(self) -> float:
        """A finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)) or not math.isfinite(self.value):
            raise self.wrong("a finite number")
        return float(self.value)

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def items(self) -> list[Place]:
        """The entries of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Place(value, f"{self.name}[{at}]") for at, value in enumerate(self.value)]


def spec_as_plain(spec: Spec) -> Plain:
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


def settings_as_plain(settings: Settings) -> Plain:
    """All of them but the noise, which only training has."""
    plain = settings._asdict() | {"node": spec_as_plain(settings.node), "edge": spec_as_plain(settings.edge)}
    del plain["noise"]
    return plain


def settings_from(place: Place) -> dict[str, Any]:
    """Keyword arguments of :meth:`pointset.PointModel.from_preset`, which checks the names in them."""
    settings: dict[str, Any] = {"name": place.at("preset").text()}
    settings |= {key: place.at(key).text() for key in ("level", "pooling")}
    settings |= {key: place.at(key).whole(1) for key in ("out", "dim", "layers")}
    return settings | {key: spec_from(place.at(key)) for key in ("node", "edge")}


def card_as_plain(card: Card) -> Plain:
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


def card_from(place: Place) -> Card:
    """The card again; what the bundle does not hold (description, split, licence) is empty."""
    molecules = place.at("molecules")
    return Card(
        name=place.at("name").text(),
        title=place.at("title").text(),
        description="",
        level=_member(place.at("level"), Level),
        task=_member(place.at("task"), Task),
        targets=tuple(
            Target(**{key: target.at(key).text() for key in ("name", "unit", "meaning")})
            for target in place.at("targets").items()
        ),
        metric=_member(place.at("metric"), Metric),
        split="",
        node=spec_from(place.at("node")),
        edge=spec_from(place.at("edge")),
        positions=place.at("positions").flag(),
        classes=tuple(name.text() for name in place.at("classes").items()),
        molecules=None if molecules.value is None else molecules.text(),
    )


def _member(place: Place, kind: Any) -> Any:
    try:
        return kind(place.value)
    except ValueError:
        raise place.wrong(f"one of {', '.join(kind)}") from None


def scale_as_plain(scale: TargetScale | None) -> Plain:
    """JSON keeps every bit of a float64."""
    return None if scale is None else {"mean": scale.mean.tolist(), "std": scale.std.tolist()}


def scale_from(place: Place) -> TargetScale | None:
    """The inverse of :func:`scale_as_plain`."""
    if place.value is None:
        return None
    mean, std = ([number.number() for number in place.at(key).items()] for key in ("mean", "std"))
    if len(mean) != len(std) or min(std, default=0) <= 0:
        raise place.wrong("as many means as standard deviations, which are positive")
    return TargetScale(torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64))


def reader_from(settings: Any) -> MoleculeReader:
    """The reader of SMILES with these settings; None are the defaults.

    Raises:
        FileFormatError: there is no such setting, or its value is impossible.
    """
    known = [field.name for field in dataclasses.fields(MoleculeReader)]
    if not isinstance(settings, (Mapping, type(None))) or not set(settings or ()) <= set(known):
        raise FileFormatError(f"molecule_reader is {settings!r:.80}; expected some of {', '.join(known)}")
    try:
        return MoleculeReader(**settings or {})
    except PointsetError as error:
        raise FileFormatError(f"molecule_reader: {error}") from None


def check_agreement(settings: Mapping[str, Any], card: Card, scale: TargetScale | None) -> None:
    """That the model gives what the card promises.

    Raises:
        SpecError: it does not.
    """
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
