"""One axis of a chart: which numbers it spans, where its ticks are (:class:`Axis`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.reports.run_pages.words import number

Floats = NDArray[np.float64]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LOG_FROM = 20.0  # ratio of the largest to the smallest number from which a scale is logarithmic
_MOST_TICKS = 6


@dataclass(frozen=True)
class Axis:
    """From ``low`` to ``high``, both inside; logarithmic where ``log`` is set, and both then are positive."""

    low: float
    high: float
    label: str = ""
    log: bool = False
    whole: bool = False  # only whole numbers have ticks

    @staticmethod
    def around(values: Iterable[Any], label: str = "", *, may_be_log: bool = False, margin: float = 0.04) -> Axis:
        """An axis with room for all finite numbers of the arrays given."""
        parts = [np.zeros(0), *(np.asarray(part, dtype=np.float64).ravel() for part in values)]
        numbers = np.concatenate(parts)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return Axis(0.0, 1.0, label)
        low, high = float(numbers.min()), float(numbers.max())
        if may_be_log and low > 0 and high / low > _LOG_FROM:
            room = (high / low) ** margin
            return Axis(low / room, high * room, label, log=True)
        width = (high - low) or abs(high) or 1.0
        if not math.isfinite(width) or width < 1e-12 * max(abs(low), abs(high)):
            width = max(abs(low) * 1e-3, 1e-9)
        return Axis(low - margin * width, high + margin * width, label)

    def shares(self, values: Any) -> Floats:
        """Where numbers lie: 0 at ``low``, 1 at ``high``; NaN where they have no place."""
        numbers = np.asarray(values, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.log:
                return np.asarray(np.log(numbers / self.low) / math.log(self.high / self.low))
            return np.asarray((numbers - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers inside, with their text."""
        found = self._log_ticks() if self.log else self._even_ticks()
        return [(value, _tick_text(value)) for value in found]

    def _even_ticks(self) -> list[float]:
        width = self.high - self.low
        power = 10.0 ** math.floor(math.log10(width))
        wanted = (power * scale * step for scale in (0.1, 1.0) for step in _STEPS)
        step = next(step for step in wanted if width / step <= _MOST_TICKS - 0.5)
        step = max(1.0, math.ceil(step)) if self.whole else step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{multiple * step:.12g}") for multiple in range(first, last + 1)]

    def _log_ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1,), (1, 3), (1, 2, 5)):
            every = max(1, math.ceil((last - first) / _MOST_TICKS)) if factors == (1,) else 1
            found = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
            inside = [float(f"{value:.12g}") for value in found if self.low <= value <= self.high]
            if len(inside) >= 3:
                return inside
        return inside


def _tick_text(value: float) -> str:
    """Shorter than in a sentence: ``10⁻⁵``, ``3·10⁻⁵``."""
    return number(value, 6).replace(" × ", "·").removeprefix("1·")
