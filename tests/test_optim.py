"""The learning rate over the steps, beside torch's own schedulers; SOAP, Adam in the eigenbasis of the gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    LinearLR,
    LRScheduler,
    SequentialLR,
)

from pointset.errors import SpecError
from pointset.runs.recipe import Schedule, check_schedule
from pointset.training.optim import LONGEST_SIDE, SOAP, learning_rate_factor

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


# SOAP


def descend(optimizer: torch.optim.Optimizer, weight: Tensor, loss: Callable[[Tensor], Tensor], steps: int) -> float:
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(loss(weight))
        optimizer.step()
    return float(loss(weight).detach())


def ill_conditioned(decades: float = 1.0) -> Callable[[Tensor], Tensor]:
    """‖A (W − W*) B‖² with A and B of condition 10^(2 decades), in a basis that no axis lies along."""
    generator = torch.Generator().manual_seed(0)

    def stretched(size: int) -> Tensor:
        turn: Tensor = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
        return turn @ torch.diag(torch.logspace(-decades, decades, size, dtype=torch.float64)) @ turn.mT

    left, right = stretched(6), stretched(5)
    goal = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    return lambda weight: (left @ (weight - goal) @ right).square().sum()


def start(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64, requires_grad=True)


def test_it_goes_further_than_adam_where_directions_are_correlated() -> None:
    ours, adams = start(6, 5), start(6, 5)
    reached = descend(SOAP([ours], 0.05), ours, ill_conditioned(), 400)
    assert reached < 0.1 * descend(torch.optim.Adam([adams], 0.05), adams, ill_conditioned(), 400)


def test_turning_the_problem_turns_the_path() -> None:
    """Adam's path depends on the axes; SOAP's only on the problem."""
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).Q
    loss = ill_conditioned(0.2)  # else GGᵀ has eigenvalues that rounding hides

    def apart(kind: Callable[..., torch.optim.Optimizer]) -> float:
        plain, turned = start(6, 5), start(6, 5)
        descend(kind([plain], lr=0.05), plain, loss, 12)
        descend(kind([turned], lr=0.05), turned, lambda weight: loss(weight @ turn), 12)
        return float((turned @ turn - plain).detach().abs().max())

    assert apart(SOAP) < 1e-4 < 0.1 < apart(torch.optim.Adam)


@pytest.mark.parametrize("shape", [(7,), (1, 7), ()], ids=str)
def test_vectors_are_trained_as_adam_does(shape: tuple[int, ...]) -> None:
    """But for the first gradient, which SOAP only looks at."""
    ours, adams = start(*shape), start(*shape)

    def loss(weight: Tensor) -> Tensor:
        return ((weight - 3) ** 2).sum()

    descend(SOAP([ours], 0.1, betas=(0.9, 0.999)), ours, loss, 11)
    descend(torch.optim.Adam([adams], 0.1), adams, loss, 10)
    assert torch.allclose(ours, adams, atol=1e-9)


def test_a_long_side_has_no_basis() -> None:
    weight = torch.zeros(LONGEST_SIDE + 1, 2, requires_grad=True)
    optimizer = SOAP([weight], 0.1)
    descend(optimizer, weight, lambda w: (w - 1).square().sum(), 3)
    assert "left" not in optimizer.state[weight] and "right" in optimizer.state[weight]
    assert bool(torch.isfinite(weight).all()) and float(weight.detach().abs().max()) > 0


def test_weights_without_gradient_stay() -> None:
    """A gradient of zeros says nothing of directions, and must not become NaN."""
    weight = torch.ones(4, 4, requires_grad=True)
    descend(SOAP([weight], 0.1), weight, lambda w: (0 * w).sum(), 25)
    assert torch.equal(weight.detach(), torch.ones(4, 4))


def test_weight_decay_is_decoupled() -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    descend(SOAP([weight], 0.1, weight_decay=0.5), weight, lambda w: (0 * w).sum(), 3)
    assert torch.allclose(weight.detach(), torch.full((3, 3), 0.95**2))


def test_bases_of_matrices_for_which_float32_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from pointset.training import optim

    real = torch.linalg.eigh

    def failing(matrix: torch.Tensor) -> object:
        """As LAPACK did with the atom types of SIDER's first batch."""
        found = real(matrix)
        if matrix.dtype == torch.float32:
            found.eigenvectors.fill_(torch.nan)
        return found

    monkeypatch.setattr(torch.linalg, "eigh", failing)
    matrix = torch.diag(torch.tensor([3.0, 0.0, 0.0, 1.0]))
    basis = optim._eigenvectors(matrix)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(4))
    torch.testing.assert_close((basis.mT @ matrix @ basis).diag().sort().values, torch.tensor([0.0, 0.0, 1.0, 3.0]))


def test_a_gradient_of_low_rank_for_which_lapack_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 it gives NaN for some matrices and an error for others: a table of 119 elements of which few occur."""
    eigh, asked = torch.linalg.eigh, []

    def failing(matrix: Tensor) -> object:
        asked.append(matrix.dtype)
        if matrix.dtype == torch.float32:
            raise RuntimeError("the algorithm failed to converge")
        return eigh(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", failing)
    weight = torch.zeros(6, 4, requires_grad=True)
    assert descend(SOAP([weight], 0.1), weight, lambda w: (w[:2] - 1).square().sum(), 40) < 1  # it begins at 8
    assert asked == [torch.float32, torch.float64] * 2
