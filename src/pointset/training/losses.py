"""The losses to minimise, with missing targets left out (:func:`loss_for`).

A loss gives the sum over the known entries and their number: over several batches or devices the mean is the sum of
the sums over the sum of the numbers, however the missing entries are spread. Missing entries add nothing, and their
gradients are exactly zero, whatever the output was.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from pointset.datasets.card import Task
from pointset.errors import SpecError, did_you_mean
from pointset.runs.recipe import Recipe

_FITTING = {  # the first is the usual one
    Task.REGRESSION: ("l1", "smooth_l1"),
    Task.BINARY: ("bce",),
    Task.MULTI_LABEL: ("bce",),
    Task.MULTI_CLASS: ("cross_entropy",),
}

_SMALLEST_LOSS = 1e-6


class Loss(Protocol):
    """Outputs (rows, k) and targets → the sum of the losses, with a graph, and the number of its terms, int64.

    Both are () over all targets, or (k,), for each target by itself.
    """

    def __call__(self, outputs: Tensor, y: Tensor, /) -> tuple[Tensor, Tensor]: ...


def recipe_loss(recipe: Recipe, task: Task) -> Loss:
    """The loss that a recipe minimises; one that does not fit the task is refused."""
    return loss_for(recipe.loss, task, recipe.smooth_l1_beta, by_target=recipe.balance_targets)


def loss_for(name: str | None, task: Task, beta: float, *, by_target: bool = False) -> Loss:
    """``l1``, ``smooth_l1`` with its ``beta``, ``cross_entropy`` or ``bce``; None is the usual one of the task.

    With ``by_target``, for a regression only, the sum is that of each target by itself, to balance them. A loss that
    does not fit the task is refused.
    """
    if by_target and task is not Task.REGRESSION:
        raise SpecError(f"got balance_targets for {task.value}; expected a regression. Leave it out")
    fitting = list(_FITTING[task])
    name = fitting[0] if name is None else name
    if name not in fitting:
        raise SpecError(
            f"got the loss {name!r} for {task.value}; expected {' or '.join(fitting)}, or none for {fitting[0]}"
            f"{did_you_mean(str(name), fitting)}"
        )
    if name == "cross_entropy":
        return cross_entropy
    if name == "bce":
        return bce
    if not (math.isfinite(beta) and beta >= 0):
        raise SpecError(f"got smooth_l1_beta={beta}; expected a number from 0 (which is l1)")
    return partial(smooth_l1_of_targets if by_target else smooth_l1, beta=beta if name == "smooth_l1" else 0.0)


def smooth_l1(outputs: Tensor, y: Tensor, /, *, beta: float) -> tuple[Tensor, Tensor]:
    """Σ of x²/2β where |x| < β, otherwise |x| − β/2, with x = outputs − y; both (rows, k), y NaN where missing."""
    outputs, y = _known(outputs, y)
    return functional.smooth_l1_loss(outputs, y, reduction="sum", beta=beta), _number(y)


def smooth_l1_of_targets(outputs: Tensor, y: Tensor, *, beta: float) -> tuple[Tensor, Tensor]:
    """As :func:`smooth_l1`, for each target by itself: (k,) sums and (k,) numbers."""
    _check_shapes(outputs, y)
    outputs, known = _at_least_float32(outputs), ~y.isnan()
    apart = torch.where(known, outputs - torch.where(known, y, 0).to(outputs.dtype), 0)
    zero = torch.zeros_like(apart)
    return functional.smooth_l1_loss(apart, zero, reduction="none", beta=beta).sum(0), known.sum(0)


def geometric_mean_weights(means: Tensor) -> Tensor:
    """(k,) losses L → (k,) weights G / (k L_t), G = (Π L_t)^(1/k), with which Σ w_t ∇L_t is the gradient of G.

    So every target gains by the same share, where the plain mean would look after the largest losses only.
    """
    means = means.detach().clamp(min=_SMALLEST_LOSS)
    return means.log().mean().exp() / (means.numel() * means)


def bce(outputs: Tensor, y: Tensor, /) -> tuple[Tensor, Tensor]:
    """Σ −y log σ(o) − (1 − y) log(1 − σ(o)) of logits o and labels y, both (rows, k), y NaN where missing."""
    outputs, y = _known(outputs, y)
    if bool(((y < 0) | (y > 1)).any()):
        raise SpecError(f"got labels from {float(y.min()):g} to {float(y.max()):g}; expected 0, 1, or NaN for missing")
    return functional.binary_cross_entropy_with_logits(outputs, y, reduction="sum"), _number(y)


def cross_entropy(outputs: Tensor, y: Tensor, /) -> tuple[Tensor, Tensor]:
    """Σ −log softmax(o)_y of logits o (rows, classes) and classes y (rows,), whole numbers, negative where missing."""
    if outputs.dim() != 2 or y.shape != outputs.shape[:1] or y.is_floating_point():
        raise SpecError(
            f"got outputs of shape {tuple(outputs.shape)} for classes of shape {tuple(y.shape)}, {y.dtype}; "
            "expected (rows, classes) and (rows,), whole numbers"
        )
    known = y >= 0
    logits, classes = _at_least_float32(outputs)[known], y[known].long()
    if bool((classes >= outputs.shape[1]).any()):
        raise SpecError(f"got the class {int(classes.max())}; expected classes from 0 to {outputs.shape[1] - 1}")
    return functional.cross_entropy(logits, classes, reduction="sum"), _number(classes)


def _known(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The known entries of each. They are chosen before anything is computed: 0 · NaN would be NaN in the gradient."""
    _check_shapes(outputs, y)
    outputs, known = _at_least_float32(outputs), ~y.isnan()
    if not bool(known.all()):  # choosing all of them would only cost time
        outputs, y = outputs[known], y[known]
    return outputs, y.to(outputs.dtype)


def _check_shapes(outputs: Tensor, y: Tensor) -> None:
    if outputs.dim() != 2 or outputs.shape != y.shape:
        raise SpecError(
            f"got outputs of shape {tuple(outputs.shape)} for targets of shape {tuple(y.shape)}; "
            "expected both as (rows, targets)"
        )


def _at_least_float32(outputs: Tensor) -> Tensor:
    """A sum over a batch in bfloat16 would have two digits."""
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32))


def _number(entries: Tensor) -> Tensor:
    return torch.tensor(entries.numel(), device=entries.device)
