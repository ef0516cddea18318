"""What is searched for a recipe: which keys, from where to where, within its epochs (:func:`search_space`).

Light to import (neither torch nor optuna).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pointset.errors import SpecError
from pointset.training.recipe import Recipe, check_ready
from pointset.training.recipe_overrides import changed
from pointset.training.schedule import check_schedule
from pointset.training.tuning.ranges import PAPER_RANGES, Range, check_searchable, read_range

_WARMUP, _COSINE, _NOISE = "schedule.warmup", "schedule.cosine", "model.noise"
_WITH_COORDINATES = ("pst", "psds")  # how the presets of the paper begin; peers have no coordinates to add noise to
_NOT_COMPARED = ("name", "title", "expected")  # of the recipe: they change no result


@dataclass(frozen=True)
class Space:
    """What is searched.

    Args:
        recipe: all other settings; with the values of keys whose range has only one.
        ranges: by key, each with a choice.
        notes: what was done to the ranges, for people.
    """

    recipe: Recipe
    ranges: dict[str, Range]
    notes: tuple[str, ...] = ()

    def own_values(self) -> dict[str, float | int]:
        """The recipe's own values, each moved to the nearest one of its range: the first trial."""
        return {key: one.nearest(value_at(self.recipe, key) or 0.0) for key, one in self.ranges.items()}

    def recipe_for(self, values: Mapping[str, float | int]) -> Recipe:
        """The recipe with values for what is searched."""
        return changed(self.recipe, values)

    def as_dict(self) -> dict[str, Any]:
        """What makes a study this one and no other: the settings that are not searched, and the ranges."""
        plain = {key: value for key, value in self.recipe.as_dict().items() if key not in _NOT_COMPARED}
        for key in self.ranges:
            *groups, last = key.split(".")
            group = plain
            for name in groups:
                group = group[name]
            del group[last]
        return {"recipe": plain, "ranges": {key: one.as_dict() for key, one in self.ranges.items()}}


def search_space(recipe: Recipe, ranges: Mapping[str, Range | str] | None = None, fixed: Collection[str] = ()) -> Space:
    """The paper's ranges with ``ranges`` instead or besides, without the keys in ``fixed``, within the epochs.

    Args:
        recipe: its own values hold for all that is not searched.
        ranges: by key; text is as on the command line, ``"16:64"`` or ``"1e-4:3e-3:log"``.
        fixed: keys that keep the recipe's own value.

    Raises:
        SpecError: a key cannot be searched, is both fixed and searched, or nothing is left to search.
    """
    check_ready(recipe)
    given = {key: _given(key, one) for key, one in (ranges or {}).items()}
    for key in fixed:
        if key in given:
            raise SpecError(f"{key} is both fixed and given a range; expected one of the two")
    found = {key: one for key, one in {**PAPER_RANGES, **given}.items() if key not in fixed}
    notes: list[str] = []
    if recipe.schedule.shape in ("cosine", "constant") and found.pop(_COSINE, None) is not None:
        notes.append(f"{_COSINE} is not searched: schedule.shape={recipe.schedule.shape} has no use for it")
    if not recipe.model.preset.startswith(_WITH_COORDINATES) and found.pop(_NOISE, None) is not None:
        notes.append(f"{_NOISE} is not searched: {recipe.model.preset} has no coordinates to add it to")
    found |= _fitting(found, recipe, notes)
    only = {key: one.only for key, one in found.items() if one.only is not None}
    notes += [f"{key} is {value:g}: its range has no other value" for key, value in only.items()]
    space = Space(changed(recipe, only), {key: one for key, one in found.items() if key not in only}, tuple(notes))
    if not space.ranges:
        raise SpecError("nothing is left to search; expected at least one key. Fix fewer, or add --range KEY=LOW:HIGH")
    _check_ends(space)
    return space


def value_at(recipe: Recipe, key: str) -> Any:
    """The recipe's value of a dotted key."""
    value: Any = recipe.as_dict()
    for part in key.split("."):
        value = value[part]
    return value


def _given(key: str, one: Range | str) -> Range:
    if isinstance(one, str):
        return read_range(f"{key}={one}")[1]
    check_searchable(key)
    return one


def _fitting(found: Mapping[str, Range], recipe: Recipe, notes: list[str]) -> dict[str, Range]:
    """Warm-up and cosine together must fit the epochs: their upper ends are lowered by the same share."""
    epochs = recipe.trainer.epochs - (1 if recipe.schedule.shape == "cosine" else 0)  # which needs one epoch of its own
    parts = {key: found[key] for key in (_WARMUP, _COSINE) if key in found}
    others = sum(value_at(recipe, key) for key in (_WARMUP, _COSINE) if key not in found)
    room, wanted = epochs - others, sum(one.high for one in parts.values())
    if not parts or wanted <= room:
        return {}
    if sum(one.low for one in parts.values()) > room:
        raise SpecError(
            f"{' and '.join(parts)} cannot fit {recipe.trainer.epochs} epochs: their ranges begin at "
            f"{' and '.join(f'{one.low:g}' for one in parts.values())}. Lower them, or train for more epochs"
        )
    spare = room - sum(one.low for one in parts.values())
    share = spare / (wanted - sum(one.low for one in parts.values()))
    fitted = {}
    for key, one in parts.items():
        high = one.low + (one.high - one.low) * share
        fitted[key] = dataclasses.replace(one, high=math.floor(high + 1e-9) if one.whole else high)
        notes.append(f"{key}: {fitted[key]} instead of {one}, to fit {recipe.trainer.epochs} epochs")
    return fitted


def _check_ends(space: Space) -> None:
    """Both ends of all ranges make recipes that can be trained; the message names the key that does not."""
    for end in ("low", "high"):
        values = {key: one.nearest(getattr(one, end)) for key, one in space.ranges.items()}
        recipe = space.recipe_for(values)
        check_schedule(recipe.schedule, recipe.trainer.epochs)
