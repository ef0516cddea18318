"""What changes the weights: the optimisers (:func:`make_optimizer`) and the learning rate over the steps.

SOAP (Vyas et al., 2024) is Adam in the eigenbasis of Shampoo's preconditioners. For a weight W (m, n) with gradient G,
running means L of GGᵀ and R of GᵀG have eigenvectors Q_L and Q_R. In the coordinates G' = Q_Lᵀ G Q_R the entries of the
gradient are nearly uncorrelated, so that Adam, which scales each entry by itself, scales the right things. Where a
training set is fitted to many digits, as in counting, this pays: ``benchmarks/counting_choices.py`` compares. Vectors,
and sides longer than ``LONGEST_SIDE``, are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from pointset.errors import SpecError
from pointset.runs.recipe import Optimizer, Schedule, check_schedule

LONGEST_SIDE = 1024  # beyond it a basis would cost more than it brings
_ROUNDING = 1e-9  # of a period: 0.1 · 30 is 3.0000000000000004, and belongs to the start of a period, not to its end


def make_optimizer(parameters: Iterable[Tensor], settings: Optimizer) -> torch.optim.Optimizer:
    """The optimiser that a recipe names."""
    if settings.method == "soap":
        return SOAP(parameters, settings.lr, weight_decay=settings.weight_decay)
    return torch.optim.AdamW(parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)


class SOAP(torch.optim.Optimizer):
    """AdamW's rule in a slowly turning basis.

    Args:
        parameters: what is trained.
        lr: the learning rate.
        betas: of the first moment, and of the second moment and the preconditioners.
        epsilon: added to the root of the second moment.
        weight_decay: decoupled, as in AdamW.
        every: steps from one turn of the bases to the next (one step of the power method and a QR decomposition).
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        *,
        betas: tuple[float, float] = (0.95, 0.95),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        every: int = 10,
    ):
        settings = {"lr": lr, "betas": betas, "epsilon": epsilon, "weight_decay": weight_decay, "every": every}
        super().__init__(parameters, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Change the parameters by their gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _update(parameter, parameter.grad, self.state[parameter], group)
        return loss


def _update(parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if not state:  # the first gradient only says how the bases lie
        _begin(state, gradient)
        return
    state["step"] += 1
    number = int(state["step"])
    (first, second), lr = group["betas"], group["lr"]
    state["mean"].lerp_(gradient, 1 - first)
    turned = _turned(gradient, state)
    state["square"].mul_(second).addcmul_(turned, turned, value=1 - second)
    root = (state["square"] / (1 - second**number)).sqrt_().add_(group["epsilon"])
    direction = _turned(_turned(state["mean"], state) / root, state, back=True)
    if group["weight_decay"]:
        parameter.mul_(1 - lr * group["weight_decay"])
    parameter.add_(direction, alpha=-lr / (1 - first**number))
    for side in (side for side in ("left", "right") if side in state):
        state[side].lerp_(_outer(gradient, side), 1 - second)
        if number % group["every"] == 0:
            _turn(state, side)


def _begin(state: dict[str, Any], gradient: Tensor) -> None:
    state["step"] = torch.zeros((), device="cpu")
    state["mean"], state["square"] = torch.zeros_like(gradient), torch.zeros_like(gradient)
    if gradient.dim() != 2 or min(gradient.shape) == 1:
        return
    for side, length in zip(("left", "right"), gradient.shape, strict=True):
        if length <= LONGEST_SIDE:
            state[side] = _outer(gradient, side)
            state[f"{side}_basis"] = _eigenvectors(state[side])


def _eigenvectors(matrix: Tensor) -> Tensor:
    """Of a symmetric matrix (n, n), in its columns.

    LAPACK gives NaN for some matrices of low rank in float32, or fails, such as that of a table of atom types of which
    a batch holds few; float64 then gives them.
    """
    try:
        vectors: Tensor = torch.linalg.eigh(matrix).eigenvectors
    except RuntimeError:  # its LinAlgError is one
        vectors = torch.full_like(matrix, math.nan)
    if not bool(torch.isfinite(vectors).all()):
        vectors = torch.linalg.eigh(matrix.double()).eigenvectors.to(matrix.dtype)
    return vectors.contiguous()


def _outer(gradient: Tensor, side: str) -> Tensor:
    """GGᵀ or GᵀG."""
    return gradient @ gradient.mT if side == "left" else gradient.mT @ gradient


def _turned(x: Tensor, state: dict[str, Any], *, back: bool = False) -> Tensor:
    """Q_Lᵀ x Q_R, or Q_L x Q_Rᵀ, which turns it back."""
    left, right = state.get("left_basis"), state.get("right_basis")
    if left is not None:
        x = (left if back else left.mT) @ x
    return x if right is None else x @ (right.mT if back else right)


def _turn(state: dict[str, Any], side: str) -> None:
    """One step of orthogonal iteration, in order of falling eigenvalues; the second moments follow their directions."""
    basis = state[f"{side}_basis"]
    image = state[side] @ basis
    order = (basis * image).sum(0).argsort(descending=True, stable=True)
    state[f"{side}_basis"] = torch.linalg.qr(image[:, order]).Q.contiguous()
    state["square"] = state["square"].index_select(0 if side == "left" else 1, order)


def learning_rate_factor(
    schedule: Schedule, epochs: int, steps_per_epoch: int, cycles: Sequence[int] = ()
) -> Callable[[int], float]:
    """The function step → factor, with steps from 0 and t = step / steps_per_epoch epochs.

    ``warmup`` epochs from ``start`` linearly to 1; then, by ``shape``,

    - ``anneal``: 1, and over the last ``cosine`` epochs (1 + cos πx) / 2, x from 0 to 1: the paper's schedule;
    - ``restarts``: (1 + cos πx) / 2 over ``cosine`` epochs, again and again: that of the authors' released code;
    - ``cosine``: (1 + cos πx) / 2 once, over all epochs that are left;
    - ``constant``: 1.

    ``cycles``, the epochs with which cycles end (those of snapshots), replace the shape: (1 + cos πx) / 2 from each end
    to the next, first from the end of the warm-up.

    x counts from the first step, so that the last step of a cosine is small but not zero.

    Raises:
        SpecError: the schedule does not fit the epochs (:func:`check_schedule`).
    """
    check_schedule(schedule, epochs)
    if steps_per_epoch < 1:
        raise SpecError(f"got {steps_per_epoch} steps per epoch; expected at least 1: are there graphs to train on?")

    def factor(step: int) -> float:
        epoch, warmup, cosine = step / steps_per_epoch, schedule.warmup, schedule.cosine
        if epoch < warmup:
            return schedule.start + (1 - schedule.start) * epoch / warmup
        if cycles:
            end = next((end for end in cycles if epoch < end), cycles[-1])
            start = max((one for one in cycles if one < end), default=warmup)
            return _cosine((epoch - start) / (end - start))
        if schedule.shape == "cosine":
            return _cosine((epoch - warmup) / (epochs - warmup))
        if schedule.shape == "restarts":
            periods = (epoch - warmup) / cosine
            return _cosine(periods - math.floor(periods + _ROUNDING))
        if schedule.shape == "anneal" and cosine:
            return _cosine((epoch - (epochs - cosine)) / cosine)
        return 1.0

    return factor


def _cosine(x: float) -> float:
    """From 1 at x ≤ 0 to 0 at x ≥ 1."""
    return (1 + math.cos(math.pi * min(max(x, 0.0), 1.0))) / 2
