"""What is searched: ranges of keys (:class:`Range`, :data:`PAPER_RANGES`), all of them for a recipe (:class:`Space`).

Light to import (neither torch nor optuna).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pointset.errors import SpecError
from pointset.registry import is_baseline
from pointset.runs.recipe import Recipe, check_ready, check_schedule, known_keys, shown, takes, unknown_key
from pointset.runs.recipe_files import changed, flattened

_GROUPS = ("model.", "optimizer.", "schedule.")
_OTHERS = ("trainer.batch_size", "trainer.ema", "smooth_l1_beta")
_WIDTH_STEP = 16  # widths in steps of 16: few enough to read, and whole vectors for the processor
_WARMUP, _COSINE, _NOISE = "schedule.warmup", "schedule.cosine", "model.noise"
_NOT_COMPARED = ("name", "title", "expected")  # of the recipe: they change no result
_EXAMPLE = "such as model.dim=16:64, optimizer.lr=1e-4:3e-3:log or model.layers=2:8:2"


@dataclass(frozen=True)
class Range:
    """All numbers from ``low`` to ``high``, both included."""

    low: float
    high: float
    log: bool = False  # small ones as often as large ones; not together with ``step``
    step: float | None = None  # only low, low + step, …; by default 1 for whole numbers
    whole: bool = False  # only whole numbers

    def __post_init__(self) -> None:
        ends = f"{self.low:g}:{self.high:g}"
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise SpecError(f"got the range {ends}; expected two numbers LOW:HIGH, the lower one first")
        if self.log and self.low <= 0:
            raise SpecError(f"got the range {ends}:log; expected a lower end above 0. Raise it, or write {ends}:linear")
        if self.step is not None and (self.log or not self.step > 0 or not math.isfinite(self.step)):
            raise SpecError(
                f"got the step {self.step:g} for the range {ends}; expected one above 0, and a linear range"
            )
        if self.whole and any(value != int(value) for value in (self.low, self.high, self.step or 1)):
            raise SpecError(f"got the range {ends} for a key that takes whole numbers; expected whole ends and steps")

    @property
    def only(self) -> float | int | None:
        """The one value there is, where there is no choice."""
        return self._typed(self.low) if self.low == self.high or self.low + (self.step or 0) > self.high else None

    def nearest(self, value: float) -> float | int:
        """The number of the range that is nearest to another one."""
        inside = min(max(float(value), self.low), self.high)
        step = self.step or (1.0 if self.whole and not self.log else 0.0)
        if step:
            most = math.floor((self.high - self.low) / step + 1e-9)
            inside = self.low + step * min(round((inside - self.low) / step), most)
        return self._typed(round(inside) if self.whole else inside)

    def _typed(self, value: float) -> float | int:
        return int(value) if self.whole else float(value)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "low": self._typed(self.low),
            "high": self._typed(self.high),
            "log": self.log,
            "step": None if self.step is None else self._typed(self.step),
            "whole": self.whole,
        }

    def __str__(self) -> str:
        kind = ", logarithmic" if self.log else f", in steps of {self.step:g}" if self.step not in (None, 1) else ""
        return f"{self.low:g} to {self.high:g}{kind}"


# The paper, Appendix "Experimental Details": "tuning seven hyperparameters".
PAPER_RANGES: dict[str, Range] = {
    "model.layers": Range(4, 8, whole=True),
    "model.dim": Range(64, 256, step=_WIDTH_STEP, whole=True),
    "optimizer.lr": Range(1e-4, 3e-3, log=True),
    "schedule.warmup": Range(0, 40, whole=True),
    "schedule.cosine": Range(1, 20, whole=True),
    "model.noise": Range(1e-6, 1e-4, log=True),
    "optimizer.weight_decay": Range(1e-6, 1e-1, log=True),
}


def check_searchable(key: str) -> None:
    """Whether a key can be searched: a number of the model, the optimizer or the schedule, or one of a few others."""
    if key not in known_keys():
        raise SpecError(unknown_key(key))
    number = takes(key, "integer") or takes(key, "number")
    if not number or not (key.startswith(_GROUPS) or key in _OTHERS):
        raise SpecError(
            f"{key} cannot be searched; expected a number below model, optimizer or schedule, or one of "
            f"{', '.join(_OTHERS)}"
        )


def read_range(text: str) -> tuple[str, Range]:
    """``"model.dim=16:64"``, ``"optimizer.lr=1e-4:3e-3:log"``, ``"model.layers=2:8:2"`` as a key and its range.

    By default the scale (logarithmic or not) is that of the paper's range of the key.
    """
    key, equals, ends = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise SpecError(f"got the range {shown(text)}; expected KEY=LOW:HIGH, {_EXAMPLE}")
    check_searchable(key)
    parts = [part.strip() for part in ends.split(":")]
    if len(parts) not in (2, 3):
        raise SpecError(f"got the range {shown(text)}; expected KEY=LOW:HIGH, {_EXAMPLE}")
    low, high = _number(text, parts[0]), _number(text, parts[1])
    how = parts[2].lower() if len(parts) == 3 else ""
    paper = PAPER_RANGES.get(key)
    is_whole = low == int(low) and high == int(high)
    whole = not takes(key, "number") or (paper is not None and paper.whole and is_whole)
    log = how == "log" or (how == "" and paper is not None and paper.log)
    step = _number(text, how) if how not in ("", "log", "linear") else None
    if step is None and key == "model.dim" and whole and is_whole and not log:
        step = math.gcd(_WIDTH_STEP, int(low), int(high))
    try:
        return key, Range(low, high, log=log, step=step, whole=whole)
    except SpecError as error:
        raise SpecError(f"{key}: {error}") from None


def _number(text: str, part: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SpecError(f"got the range {shown(text)}: {part!r} is not a number; expected KEY=LOW:HIGH, {_EXAMPLE}")
    return value


@dataclass(frozen=True)
class Space:
    """What is searched."""

    recipe: Recipe  # all other settings; with the values of keys whose range has only one
    ranges: dict[str, Range]  # by key, each with a choice
    notes: tuple[str, ...] = ()  # what was done to the ranges, for people

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

    Ranges may be text as on the command line, ``"16:64"`` or ``"1e-4:3e-3:log"``; what is not searched keeps the
    recipe's own value. Raises SpecError where a key cannot be searched, is both fixed and searched, or none is left.
    """
    check_ready(recipe)
    given = {}
    for key, one in (ranges or {}).items():
        check_searchable(key)
        given[key] = read_range(f"{key}={one}")[1] if isinstance(one, str) else one
        if key in fixed:
            raise SpecError(f"{key} is both fixed and given a range; expected one of the two")
    found = {key: one for key, one in {**PAPER_RANGES, **given}.items() if key not in fixed}
    notes: list[str] = []
    if recipe.schedule.shape in ("cosine", "constant") and found.pop(_COSINE, None) is not None:
        notes.append(f"{_COSINE} is not searched: schedule.shape={recipe.schedule.shape} has no use for it")
    if is_baseline(recipe.model.preset) and found.pop(_NOISE, None) is not None:
        notes.append(f"{_NOISE} is not searched: {recipe.model.preset} has no coordinates to add it to")
    found |= _fitting(found, recipe, notes)
    only = {key: one.only for key, one in found.items() if one.only is not None}
    notes += [f"{key} is {value:g}: its range has no other value" for key, value in only.items()]
    space = Space(changed(recipe, only), {key: one for key, one in found.items() if key not in only}, tuple(notes))
    if not space.ranges:
        raise SpecError("nothing is left to search; expected at least one key. Fix fewer, or add --range KEY=LOW:HIGH")
    for end in ("low", "high"):  # both ends of all ranges make recipes that can be trained
        at_end = space.recipe_for({key: one.nearest(getattr(one, end)) for key, one in space.ranges.items()})
        check_schedule(at_end.schedule, at_end.trainer.epochs)
    return space


def value_at(recipe: Recipe, key: str) -> Any:
    """The recipe's value of a dotted key."""
    return flattened(recipe.as_dict())[key]


def _fitting(found: Mapping[str, Range], recipe: Recipe, notes: list[str]) -> dict[str, Range]:
    """Warm-up and cosine together must fit the epochs: their upper ends are lowered by the same share."""
    epochs = recipe.trainer.epochs - (1 if recipe.schedule.shape == "cosine" else 0)  # which needs one epoch of its own
    parts = {key: found[key] for key in (_WARMUP, _COSINE) if key in found}
    others = sum(value_at(recipe, key) for key in (_WARMUP, _COSINE) if key not in found)
    room, wanted = epochs - others, sum(one.high for one in parts.values())
    if not parts or wanted <= room:
        return {}
    least = sum(one.low for one in parts.values())
    if least > room:
        raise SpecError(
            f"{' and '.join(parts)} cannot fit {recipe.trainer.epochs} epochs: their ranges begin at "
            f"{' and '.join(f'{one.low:g}' for one in parts.values())}. Lower them, or train for more epochs"
        )
    share = (room - least) / (wanted - least)
    fitted = {}
    for key, one in parts.items():
        high = one.low + (one.high - one.low) * share
        fitted[key] = dataclasses.replace(one, high=math.floor(high + 1e-9) if one.whole else high)
        notes.append(f"{key}: {fitted[key]} instead of {one}, to fit {recipe.trainer.epochs} epochs")
    return fitted
