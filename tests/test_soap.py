"""SOAP: Adam in the eigenbasis of the gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pointset.training.optim import LONGEST_SIDE, SOAP


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
