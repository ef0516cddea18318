"""Losses with missing targets: the sums of a loop, gradients that are zero where nothing is known."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pointset.datasets.card import Task
from pointset.errors import SpecError
from pointset.training.losses import LossTargets, balanced_weights, geometric_mean_weights, loss_for
from tests.tolerances import rounding

NAN, INF = math.nan, math.inf


def term(name: str, output: float, y: float, beta: float) -> float:
    """One entry, as the formula says."""
    error = abs(output - y)
    if name == "bce":
        probability = 1 / (1 + math.exp(-output))
        return -y * math.log(probability) - (1 - y) * math.log(1 - probability)
    if name == "mse":
        return error**2
    if name == "l1" or error >= beta:
        return error - (0 if name == "l1" else beta / 2)
    return error**2 / (2 * beta)


@given(
    st.sampled_from([*((name, Task.REGRESSION) for name in ("l1", "smooth_l1", "mse")), ("bce", Task.MULTI_LABEL)]),
    st.integers(0, 6),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.integers(0, 2**32 - 1),
)
def test_sums_and_gradients_are_those_of_a_loop(
    kind: tuple[str, Task], rows: int, columns: int, beta: float, seed: int
) -> None:
    name, task = kind
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    y = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    y = y.round() if name == "bce" else y
    missing = torch.rand(rows, columns, generator=generator) < 0.4
    y[missing] = NAN
    hostile = torch.tensor([NAN, INF, 1.0], dtype=torch.float64)
    outputs[missing] = hostile[torch.randint(3, (int(missing.sum()),), generator=generator)]
    outputs.requires_grad_()
    total, count = loss_for(name, task, beta)(outputs, y)
    (gradient,) = torch.autograd.grad(total, outputs)
    pairs = [(o, t) for o, t in zip(outputs.flatten().tolist(), y.flatten().tolist(), strict=True) if not math.isnan(t)]
    assert int(count) == len(pairs)
    assert total.item() == pytest.approx(math.fsum(term(name, o, t, beta) for o, t in pairs), rel=1e-12, abs=1e-12)
    assert bool((gradient[missing] == 0).all())
    for (o, t), slope in zip(pairs, gradient[~missing].tolist(), strict=True):
        numeric = (term(name, o + 1e-6, t, beta) - term(name, o - 1e-6, t, beta)) / 2e-6
        assert slope == pytest.approx(numeric, abs=1e-4) or abs(o - t) < 1e-5


def test_cross_entropy_leaves_missing_classes_out() -> None:
    outputs = torch.tensor([[0.0, 0.0], [NAN, INF], [math.log(3.0), 0.0]], requires_grad=True)
    total, count = loss_for(None, Task.MULTI_CLASS, 1.0)(outputs, torch.tensor([1, -1, 0]))
    (gradient,) = torch.autograd.grad(total, outputs)
    assert int(count) == 2 and total.item() == pytest.approx(math.log(2) + math.log(4 / 3))
    assert torch.allclose(gradient, torch.tensor([[0.5, -0.5], [0.0, 0.0], [-0.25, 0.25]]))
    assert gradient[1].tolist() == [0, 0]


@pytest.mark.parametrize("task", list(Task), ids=lambda task: task.name)
@pytest.mark.parametrize("rows", [0, 3])
def test_nothing_known_is_zero_and_can_be_trained_on(task: Task, rows: int) -> None:
    weights = torch.ones(2, requires_grad=True)
    y = torch.full((rows,), -1) if task is Task.MULTI_CLASS else torch.full((rows, 2), NAN)
    total, count = loss_for(None, task, 1.0)(weights * torch.ones(rows, 2), y)
    (gradient,) = torch.autograd.grad(total, weights)
    assert total.item() == 0 and int(count) == 0 and gradient.tolist() == [0, 0]


def test_batches_add_up_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(1)
    outputs, y = torch.randn(10, 3, generator=generator), torch.randn(10, 3, generator=generator)
    y[y > 0.5] = NAN
    loss = loss_for("smooth_l1", Task.REGRESSION, 0.3)
    parts = [loss(outputs[rows], y[rows]) for rows in (slice(0, 1), slice(1, 7), slice(7, 10))]
    whole, count = loss(outputs, y)
    assert int(count) == sum(int(part) for _, part in parts)
    assert float(whole) == pytest.approx(sum(float(part) for part, _ in parts), rel=rounding(torch.float32, 30))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_sums_are_in_float32_or_better(dtype: torch.dtype) -> None:
    outputs, y = torch.zeros(1001, 1, dtype=dtype), torch.ones(1001, 1, dtype=torch.float64)
    total, count = loss_for("l1", Task.REGRESSION, 1.0)(outputs, y)
    assert float(total) == int(count) == 1001
    assert total.dtype == (torch.float64 if dtype is torch.float64 else torch.float32)


def test_whole_numbers_are_labels_too() -> None:
    total, count = loss_for("bce", Task.BINARY, 1.0)(torch.zeros(4, 1), torch.tensor([[0], [1], [1], [0]]))
    assert float(total) == pytest.approx(4 * math.log(2)) and int(count) == 4


def test_a_beta_of_zero_is_l1() -> None:
    outputs, y = torch.tensor([[0.5], [-2.0]]), torch.zeros(2, 1)
    totals = [loss_for(name, Task.REGRESSION, 0.0)(outputs, y)[0] for name in ("smooth_l1", "l1", None)]
    assert [float(total) for total in totals] == [2.5] * 3


@pytest.mark.parametrize(
    ("name", "task", "beta", "message"),
    [
        ("l1", Task.MULTI_CLASS, 1.0, "'l1' for multi-class classification; expected cross_entropy"),
        ("cross_entropy", Task.BINARY, 1.0, "expected bce"),
        ("smoothl1", Task.REGRESSION, 1.0, r"expected l1 or smooth_l1 or mse.*did you mean 'smooth_l1'\?"),
        ("smooth_l1", Task.REGRESSION, -1.0, "smooth_l1_beta=-1.0; expected a number from 0"),
        ("smooth_l1", Task.REGRESSION, NAN, "smooth_l1_beta=nan"),
    ],
    ids=["classes", "binary", "typo", "negative", "nan"],
)
def test_a_loss_that_does_not_fit_is_refused(name: str, task: Task, beta: float, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        loss_for(name, task, beta)


@pytest.mark.parametrize(
    ("task", "outputs", "y", "message"),
    [
        (Task.REGRESSION, torch.zeros(4, 1), torch.zeros(4), r"\(4, 1\) for targets of shape \(4,\); expected both"),
        (Task.REGRESSION, torch.zeros(4, 2), torch.zeros(4, 1), r"expected both as \(rows, targets\)"),
        (Task.REGRESSION, torch.zeros(4), torch.zeros(4), r"expected both as \(rows, targets\)"),
        (Task.BINARY, torch.zeros(2, 1), torch.tensor([[0.0], [-1.0]]), "labels from -1 to 0; expected 0, 1, or NaN"),
        (Task.MULTI_CLASS, torch.zeros(4, 2), torch.zeros(4), "whole numbers"),
        (Task.MULTI_CLASS, torch.zeros(4, 2), torch.zeros(4, 1).long(), r"expected \(rows, classes\) and \(rows,\)"),
        (Task.MULTI_CLASS, torch.zeros(2, 2), torch.tensor([1, 2]), "class 2; expected classes from 0 to 1"),
    ],
    ids=["flat", "width", "both flat", "labels", "float classes", "column of classes", "class too large"],
)
def test_other_shapes_and_values_are_refused(task: Task, outputs: Tensor, y: Tensor, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        loss_for(None, task, 1.0)(outputs, y)


class TestLabelOptions:
    def test_smoothing_by_hand(self) -> None:
        outputs = torch.tensor([[math.log(3.0)]], dtype=torch.float64)  # p = 3/4
        total, count = loss_for(None, Task.BINARY, 1.0, label_smoothing=0.2)(outputs, torch.tensor([[1.0]]))
        assert float(total) == pytest.approx(-0.9 * math.log(3 / 4) - 0.1 * math.log(1 / 4)) and int(count) == 1
        logits = torch.tensor([[math.log(2.0), 0.0, 0.0]], dtype=torch.float64)  # p = 1/2, 1/4, 1/4
        total, _ = loss_for(None, Task.MULTI_CLASS, 1.0, label_smoothing=0.3)(logits, torch.tensor([0]))
        assert float(total) == pytest.approx(-0.8 * math.log(1 / 2) - 0.2 * math.log(1 / 4))

    def test_focal_by_hand(self) -> None:
        outputs = torch.tensor([[math.log(3.0)], [math.log(3.0)]], dtype=torch.float64)  # p = 3/4
        total, _ = loss_for(None, Task.BINARY, 1.0, focal_gamma=2.0)(outputs, torch.tensor([[1.0], [0.0]]))
        assert float(total) == pytest.approx(-math.log(3 / 4) / 16 - math.log(1 / 4) * 9 / 16)
        logits = torch.tensor([[math.log(2.0), 0.0, 0.0]], dtype=torch.float64)
        total, _ = loss_for(None, Task.MULTI_CLASS, 1.0, focal_gamma=1.0)(logits, torch.tensor([1]))
        assert float(total) == pytest.approx(-math.log(1 / 4) * 3 / 4)

    @pytest.mark.parametrize("task", [Task.MULTI_LABEL, Task.MULTI_CLASS], ids=lambda task: task.name)
    @pytest.mark.parametrize("gamma", [0.5, 2.0])
    def test_certain_outputs_have_finite_gradients_and_missing_ones_none(self, task: Task, gamma: float) -> None:
        outputs = torch.tensor([[200.0, -200.0], [NAN, INF]], requires_grad=True)
        y = torch.tensor([0, -1]) if task is Task.MULTI_CLASS else torch.tensor([[1.0, 0.0], [NAN, NAN]])
        total, _ = loss_for(None, task, 1.0, focal_gamma=gamma, label_smoothing=0.1)(outputs, y)
        (gradient,) = torch.autograd.grad(total, outputs)
        assert bool(gradient.isfinite().all()) and gradient[1].tolist() == [0, 0]

    @pytest.mark.parametrize(
        ("task", "options", "message"),
        [
            (Task.REGRESSION, {"label_smoothing": 0.1}, "label_smoothing=0.1 for a regression.*Leave it out"),
            (Task.REGRESSION, {"focal_gamma": 2.0}, "focal_gamma=2 for a regression.*Leave it out"),
            (Task.BINARY, {"label_smoothing": 1.0}, "expected a number from 0 to below 1"),
            (Task.BINARY, {"focal_gamma": -1.0}, "expected a number from 0"),
        ],
    )
    def test_refused(self, task: Task, options: dict[str, float], message: str) -> None:
        with pytest.raises(SpecError, match=message):
            loss_for(None, task, 1.0, **options)  # type: ignore[arg-type]


class TestBalancedTargets:
    @given(
        name=st.sampled_from(["l1", "smooth_l1", "mse"]),
        rows=st.integers(1, 6),
        columns=st.integers(1, 4),
        seed=st.integers(0, 99),
    )
    def test_of_targets_adds_up_to_the_whole(self, name: str, rows: int, columns: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        outputs, y = (torch.randn(rows, columns, generator=generator, dtype=torch.float64) for _ in range(2))
        y[torch.rand(rows, columns, generator=generator) < 0.3] = torch.nan
        sums, numbers = loss_for(name, Task.REGRESSION, 0.3, by_target=True)(outputs, y)
        whole, number = loss_for(name, Task.REGRESSION, 0.3)(outputs, y)
        assert torch.allclose(sums.sum(), whole) and int(numbers.sum()) == int(number)

    def test_missing_targets_have_no_gradient(self) -> None:
        outputs = torch.tensor([[1.0, 5.0]], requires_grad=True)
        sums, _ = loss_for("l1", Task.REGRESSION, 0.0, by_target=True)(outputs, torch.tensor([[0.0, torch.nan]]))
        sums.sum().backward()  # type: ignore[no-untyped-call]
        assert outputs.grad is not None and outputs.grad.tolist() == [[1.0, 0.0]]

    def test_weights_give_the_gradient_of_the_geometric_mean(self) -> None:
        losses = torch.tensor([0.5, 0.02, 3.0], dtype=torch.float64, requires_grad=True)
        losses.log().mean().exp().backward()  # type: ignore[no-untyped-call]
        assert losses.grad is not None and torch.allclose(geometric_mean_weights(losses), losses.grad)

    def test_a_target_that_is_learned_does_not_divide_by_zero(self) -> None:
        assert torch.isfinite(geometric_mean_weights(torch.tensor([0.0, 1.0]))).all()


class TestLimits:
    """Targets of which only a limit is known."""

    @given(
        name=st.sampled_from(["l1", "smooth_l1", "mse"]),
        limit=st.floats(-5, 5),
        output=st.floats(-5, 5),
        above=st.booleans(),
    )
    def test_only_the_wrong_side_costs(self, name: str, limit: float, output: float, above: bool) -> None:
        outputs = torch.tensor([[output]], dtype=torch.float64, requires_grad=True)
        none, given_limit = (torch.tensor([[value]], dtype=torch.float64) for value in (NAN, limit))
        targets = LossTargets(none, given_limit, none) if above else LossTargets(none, none, given_limit)
        packed = targets.packed()
        total, count = loss_for(name, Task.REGRESSION, 0.5)(outputs, packed)
        (gradient,) = torch.autograd.grad(total, outputs)
        kept = float(packed[0, 1 if above else 2])  # in float32
        assert int(count) == 1
        if output >= kept if above else output <= kept:
            assert total.item() == 0 and gradient.item() == 0
        else:
            assert total.item() == pytest.approx(term(name, output, kept, 0.5), rel=1e-9, abs=1e-12)
            assert (gradient.item() < 0) == above or abs(output - kept) < 1e-6

    def test_beside_exact_and_missing_values(self) -> None:
        y = torch.tensor([[1.0], [NAN], [NAN], [NAN]])
        lower, upper = torch.tensor([[NAN], [3.0], [NAN], [NAN]]), torch.tensor([[NAN], [NAN], [10.0], [NAN]])
        outputs = torch.tensor([[3.0], [1.0], [10.5], [INF]], requires_grad=True)
        loss = loss_for("l1", Task.REGRESSION, 0.0, by_target=True)
        total, count = loss(outputs, LossTargets(y, lower, upper).packed())
        (gradient,) = torch.autograd.grad(total, outputs)
        assert total.tolist() == [2 + 2 + 0.5] and count.tolist() == [3]
        assert gradient.tolist() == [[1.0], [-1.0], [1.0], [0.0]]


class TestWeights:
    def test_without_any_nothing_is_packed(self) -> None:
        y = torch.tensor([[1.0]])
        assert LossTargets(y).packed() is y

    @given(
        st.sampled_from(
            [("l1", Task.REGRESSION), ("mse", Task.REGRESSION), ("bce", Task.MULTI_LABEL), (None, Task.MULTI_CLASS)]
        ),
        st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any),
        st.integers(0, 2**32 - 1),
    )
    def test_a_weight_of_2_is_the_row_twice(self, kind: tuple[str | None, Task], copies: list[int], seed: int) -> None:
        name, task = kind
        generator = torch.Generator().manual_seed(seed)
        outputs = torch.randn(len(copies), 3, generator=generator, dtype=torch.float64)
        y = torch.randint(0, 2, (len(copies), 3), generator=generator).float()
        y = y[:, 0].long() if task is Task.MULTI_CLASS else y
        often = torch.tensor(copies)
        weights = (often / often.double().mean()).reshape(-1, *[1] * (y.dim() - 1)).expand(y.shape)
        loss = loss_for(name, task, 1.0, focal_gamma=0.0 if task is Task.REGRESSION else 1.5)
        total, count = loss(outputs, LossTargets(y, weights=weights).packed())
        repeated, number = loss(outputs.repeat_interleave(often, 0), y.repeat_interleave(often, 0))
        assert float(total) / int(count) == pytest.approx(float(repeated) / int(number), rel=1e-5)

    def test_balanced_labels_by_hand(self) -> None:
        y = torch.tensor([[1.0, NAN], [0.0, 1.0], [0.0, NAN], [0.0, NAN], [1.0, 0.0]])
        train = torch.arange(4)
        weights = balanced_weights(y, torch.ones_like(y), train)
        # of the first label 1 of 4 is positive: 3 : 1, with the mean 1
        assert weights[:, 0].tolist() == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3, 2])
        assert weights[1, 1] == 1

    def test_balanced_classes_are_limited_and_others_left_alone(self) -> None:
        y = torch.tensor([0] * 99 + [1, 2, -1])
        weights = balanced_weights(y, torch.ones(102), torch.arange(100))
        assert weights[99] / weights[0] == pytest.approx(50) and weights[:100].mean() == pytest.approx(1)
        assert weights[100:].tolist() == [1, 1]

    def test_balanced_classes_count_the_same(self) -> None:
        y = torch.tensor([0, 0, 0, 1, 2, 2])
        weights = balanced_weights(y, torch.ones(6), torch.arange(6))
        assert [float(weights[y == label].sum()) for label in range(3)] == pytest.approx([2, 2, 2])
