"""From where to where a key of a recipe is searched (:class:`Range`), and the paper's seven (:data:`PAPER_RANGES`).

Light to import (neither torch nor optuna).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pointset.errors import SpecError
from pointset.training.recipe_errors import shown, unknown_key
from pointset.training.recipe_keys import known_keys, takes

_GROUPS = ("model.", "optimizer.", "schedule.")
_OTHERS = ("trainer.batch_size", "trainer.ema", "smooth_l1_beta")
_WIDTH_STEP = 16  # widths in steps of 16: thin enough for the eye, and whole vectors for the processor
_EXAMPLE = "such as model.dim=16:64, optimizer.lr=1e-4:3e-3:log or model.layers=2:8:2"


@dataclass(frozen=True)
class Range:
    """All numbers from ``low`` to ``high``, both included; ``log``: small ones as often as large ones.

    Args:
        low: the smallest.
        high: the largest.
        log: on a logarithmic scale; not together with ``step``.
        step: only low, low + step, …; of a whole range it is 1 where nothing is said.
        whole: only whole numbers.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

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
    """Whether a key can be searched: a number of the model, the optimizer or the schedule, or one of a few others.

    Raises:
        SpecError: there is no such key, it is no number, or it says what is measured and not how to learn.
    """
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

    Where nothing else is said, the scale (logarithmic or not) is that of the paper's range of the key.

    Raises:
        SpecError: it is no range, or the key cannot be searched.
    """
    key, equals, ends = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise SpecError(f"got the range {shown(text)}; expected KEY=LOW:HIGH, {_EXAMPLE}")
    check_searchable(key)
    low, high, how = _parts(text, ends)
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


def _parts(text: str, ends: str) -> tuple[float, float, str]:
    parts = [part.strip() for part in ends.split(":")]
    if len(parts) not in (2, 3):
        raise SpecError(f"got the range {shown(text)}; expected KEY=LOW:HIGH, {_EXAMPLE}")
    return _number(text, parts[0]), _number(text, parts[1]), parts[2].lower() if len(parts) == 3 else ""


def _number(text: str, part: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SpecError(f"got the range {shown(text)}: {part!r} is no number; expected KEY=LOW:HIGH, {_EXAMPLE}")
    return value
