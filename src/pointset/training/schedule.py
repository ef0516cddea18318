"""The learning rate over the steps, as a factor of the highest (:func:`learning_rate_factor`)."""

from __future__ import annotations

import math
from collections.abc import Callable

from pointset.errors import SpecError
from pointset.training.recipe import Schedule

_ROUNDING = 1e-9  # of a period: 0.1 · 30 is 3.0000000000000004, and belongs to the start of a period, not to its end


def learning_rate_factor(schedule: Schedule, epochs: int, steps_per_epoch: int) -> Callable[[int], float]:
    """The function step → factor, with steps from 0 and t = step / steps_per_epoch epochs.

    ``warmup`` epochs from ``start`` linearly to 1; then, by ``shape``,

    - ``anneal``: 1, and over the last ``cosine`` epochs (1 + cos πx) / 2, x from 0 to 1: the paper's schedule;
    - ``restarts``: (1 + cos πx) / 2 over ``cosine`` epochs, again and again: that of the authors' released code;
    - ``cosine``: (1 + cos πx) / 2 once, over all epochs that are left;
    - ``constant``: 1.

    x counts from the first step, so that the last step of a cosine is small but not zero.

    Raises:
        SpecError: the schedule does not fit the epochs (:func:`check_schedule`).
    """
    check_schedule(schedule, epochs)
    if steps_per_epoch < 1:
        raise SpecError(f"got {steps_per_epoch} steps per epoch; expected at least 1: are there graphs to train on?")

    def factor(step: int) -> float:
        epoch = step / steps_per_epoch
        if epoch < schedule.warmup:
            return schedule.start + (1 - schedule.start) * epoch / schedule.warmup
        return _after_warmup(schedule, epoch, epochs)

    return factor


def check_schedule(schedule: Schedule, epochs: int) -> None:
    """Whether the schedule fits into the epochs.

    Raises:
        SpecError: it does not; the message says what would.
    """
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
        smaller = [f"schedule.warmup={_floored(warmup * share)}", f"schedule.cosine={_floored(cosine * share)}"]
        raise SpecError(
            f"got a schedule of {_parts(warmup, cosine)} for {epochs} epochs; expected at most as many: train for "
            f"trainer.epochs={math.ceil(warmup + cosine)}, or set {' '.join(smaller[: 2 if cosine else 1])}"
        )
    if shape == "cosine" and warmup == epochs:
        raise SpecError(
            f"got a warm-up of {warmup:g} epochs, all there are, for schedule.shape=cosine; set schedule.warmup below "
            "trainer.epochs"
        )


def _after_warmup(schedule: Schedule, epoch: float, epochs: int) -> float:
    if schedule.shape == "cosine":
        return _cosine((epoch - schedule.warmup) / (epochs - schedule.warmup))
    if schedule.shape == "restarts":
        periods = (epoch - schedule.warmup) / schedule.cosine
        return _cosine(periods - math.floor(periods + _ROUNDING))
    if schedule.shape == "anneal" and schedule.cosine:
        return _cosine((epoch - (epochs - schedule.cosine)) / schedule.cosine)
    return 1.0


def _cosine(x: float) -> float:
    """From 1 at x ≤ 0 to 0 at x ≥ 1."""
    return (1 + math.cos(math.pi * min(max(x, 0.0), 1.0))) / 2


def _parts(warmup: float, cosine: float) -> str:
    parts = [f"{warmup:g} epochs of warm-up"] if warmup else []
    return " and ".join([*parts, f"{cosine:g} of cosine"] if cosine else parts)


def _floored(epochs: float) -> str:
    """Down to a tenth, so that the parts do not add up to more."""
    return f"{math.floor(epochs * 10 + _ROUNDING) / 10:g}"
