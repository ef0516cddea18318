"""The learning rate over the steps: what torch's own schedulers give, and schedules that do not fit refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    LinearLR,
    LRScheduler,
    SequentialLR,
)

from pointset.errors import SpecError
from pointset.runs.recipe import Schedule
from pointset.training.optim import check_schedule, learning_rate_factor

EPOCHS, STEPS = 12, 5
TOTAL = EPOCHS * STEPS
Make = Callable[[torch.optim.Optimizer], LRScheduler]


def factors_of_torch(parts: list[Make], milestones: list[int]) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = SequentialLR(optimizer, [part(optimizer) for part in parts], milestones)
    factors = []
    for _ in range(TOTAL):
        factors.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return factors


def warm(steps: int) -> Make:
    return lambda optimizer: LinearLR(optimizer, start_factor=1e-3, total_iters=steps)


def flat(optimizer: torch.optim.Optimizer) -> LRScheduler:
    return ConstantLR(optimizer, factor=1.0, total_iters=TOTAL)


@pytest.mark.parametrize(
    ("schedule", "parts", "milestones"),
    [
        (
            Schedule(shape="anneal", warmup=2.0, cosine=4.0),
            [warm(10), flat, lambda optimizer: CosineAnnealingLR(optimizer, T_max=20)],
            [10, 40],
        ),
        (
            Schedule(shape="restarts", warmup=3.0, cosine=2.0),
            [warm(15), lambda optimizer: CosineAnnealingWarmRestarts(optimizer, T_0=10)],
            [15],
        ),
        (
            Schedule(shape="cosine", warmup=2.0),
            [warm(10), lambda optimizer: CosineAnnealingLR(optimizer, T_max=50)],
            [10],
        ),
        (Schedule(shape="constant", warmup=1.0), [warm(5), flat], [5]),
    ],
    ids=["anneal", "restarts", "cosine", "constant"],
)
@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step:UserWarning")  # SequentialLR's own doing
def test_the_factors_are_those_of_torch(schedule: Schedule, parts: list[Make], milestones: list[int]) -> None:
    factor = learning_rate_factor(schedule, EPOCHS, STEPS)
    assert [factor(step) for step in range(TOTAL)] == pytest.approx(factors_of_torch(parts, milestones), abs=1e-9)


def test_annealing_by_hand() -> None:
    factor = learning_rate_factor(Schedule(shape="anneal", warmup=2.0, cosine=4.0, start=0.5), 10, 2)
    assert [factor(step) for step in range(5)] == [0.5, 0.625, 0.75, 0.875, 1.0]
    assert {factor(step) for step in range(4, 13)} == {1.0}
    assert factor(16) == pytest.approx(0.5) and 0 < factor(19) < 0.05 and factor(20) == 0


def test_without_warm_up_and_cosine_the_rate_is_constant() -> None:
    factor = learning_rate_factor(Schedule(), 3, 7)
    assert {factor(step) for step in range(21)} == {1.0}


@given(
    st.sampled_from(["anneal", "restarts", "cosine", "constant"]),
    st.integers(1, 400),
    st.integers(1, 50),
    st.floats(0, 0.5),
    st.floats(0.01, 0.5),
)
def test_every_step_has_a_rate(shape: str, epochs: int, steps: int, warmup: float, cosine: float) -> None:
    """From ``start`` to 1, never above, above 0 until the end."""
    length = cosine * epochs if shape in ("anneal", "restarts") else 0.0
    schedule = Schedule.model_validate({"shape": shape, "warmup": warmup * epochs, "cosine": length})
    factor = learning_rate_factor(schedule, epochs, steps)
    factors = [factor(step) for step in range(epochs * steps)]
    assert factors[0] == (1e-3 if schedule.warmup else 1.0)
    if shape != "restarts":  # the sampling of its steps may meet no top, and comes as near to zero as it likes
        assert max(factors) <= 1 and min(factors) > 0
        top = factors.index(max(factors))
        assert factors[:top] == sorted(factors[:top]) and factors[top:] == sorted(factors[top:], reverse=True)
    assert all(0 <= value <= 1 for value in factors)


@given(st.integers(1, 60), st.integers(1, 200), st.integers(0, 30))
def test_every_restart_begins_at_the_top(period: int, steps: int, warmup: int) -> None:
    schedule = Schedule(shape="restarts", warmup=warmup / 10, cosine=period / 10)
    factor = learning_rate_factor(schedule, 100, 10 * steps)
    tops = [factor((warmup + period * turn) * steps) for turn in range(1 + (1000 - warmup) // period)]
    assert tops == pytest.approx([1.0] * len(tops), abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "epochs", "message"),
    [
        (
            Schedule(warmup=10.0, cosine=40.0),
            20,
            "10 epochs of warm-up and 40 of cosine for 20 epochs; expected at most as many: train for "
            "trainer.epochs=50, or set schedule.warmup=4 schedule.cosine=16",
        ),
        (Schedule(shape="constant", warmup=4.0), 3, "4 epochs of warm-up for 3 epochs.* or set schedule.warmup=3$"),
        (Schedule(shape="restarts"), 3, "schedule.cosine=0 for schedule.shape=restarts; expected the period"),
        (Schedule(shape="restarts", cosine=4.0), 3, "4 of cosine for 3 epochs"),
        (Schedule(shape="cosine", cosine=4.0), 9, "cosine=4 for schedule.shape=cosine, which has no use for it; set"),
        (Schedule(shape="constant", cosine=4.0), 9, "set schedule.cosine=0"),
        (Schedule(shape="cosine", warmup=9.0), 9, "set schedule.warmup below trainer.epochs"),
        (Schedule(), 0, "got 0 epochs; expected at least 1"),
    ],
    ids=["anneal", "warm-up", "no period", "long period", "cosine", "constant", "nothing left", "no epochs"],
)
def test_a_schedule_that_does_not_fit_is_refused(schedule: Schedule, epochs: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        check_schedule(schedule, epochs)
    with pytest.raises(SpecError, match=message):
        learning_rate_factor(schedule, epochs, 5)


def test_the_remedy_fits() -> None:
    for warmup, cosine, epochs in ((10.0, 40.0, 20), (3.3, 7.7, 9), (1.0, 2.0, 1)):
        with pytest.raises(SpecError) as error:
            check_schedule(Schedule(warmup=warmup, cosine=cosine), epochs)
        words = dict(word.split("=") for word in str(error.value).split() if word.startswith("schedule."))
        smaller = Schedule(warmup=float(words["schedule.warmup"]), cosine=float(words["schedule.cosine"]))
        check_schedule(smaller, epochs)
        assert math.isclose(smaller.warmup + smaller.cosine, epochs, abs_tol=0.2)


def test_an_epoch_without_steps_is_refused() -> None:
    with pytest.raises(SpecError, match="0 steps per epoch"):
        learning_rate_factor(Schedule(), 3, 0)
