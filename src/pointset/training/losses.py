"""The losses to minimise, with missing targets left out (:func:`loss_for`).

A loss gives the sum over the known entries and their number: over several batches or devices the mean is the sum of
the sums over the sum of the numbers, however the missing entries are spread. Missing entries add nothing, and their
gradients are exactly zero, whatever the output was. What goes with a target, limits (``>3``) and weights, stands in
further columns behind it (:class:`LossTargets`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from pointset.datasets.card import Task
from pointset.errors import SpecError, did_you_mean
from pointset.runs.recipe import Recipe

_FITTING = {  # the first is the usual one
    Task.REGRESSION: ("l1", "smooth_l1", "mse"),
    Task.BINARY: ("bce",),
    Task.MULTI_LABEL: ("bce",),
    Task.LINK: ("bce",),
    Task.MULTI_CLASS: ("cross_entropy",),
}

_SMALLEST_LOSS = 1e-6
_SMALLEST_WRONG = 1e-6  # probability
_LARGEST_CLASS_WEIGHT = 50  # of the weight of the most frequent class


class Loss(Protocol):
    """Outputs (rows, k) and targets → the sum of the losses, with a graph, and the number of its terms, int64.

    Both are () over all targets, or (k,), for each target by itself. Targets are as they are, or
    :meth:`LossTargets.packed`.
    """

    def __call__(self, outputs: Tensor, y: Tensor, /) -> tuple[Tensor, Tensor]: ...


class LossTargets(NamedTuple):
    """Targets with what the loss has to know of each: limits instead of a value, and how much it counts.

    Batches carry one tensor of targets, so the columns are put beside each other there, and taken apart in the loss.
    """

    y: Tensor  # (rows, k), NaN where missing; or classes (rows,), negative where missing
    lower: Tensor | None = None  # (rows, k) the truth is above, as in ``>3``; NaN where there is no such limit
    upper: Tensor | None = None  # (rows, k) the truth is below, as in ``<10``
    weights: Tensor | None = None  # (rows, k), of classes (rows,); 1 on average

    def packed(self) -> Tensor:
        """(rows, 4k) float32: y, lower, upper, weights; of classes (rows, 2): y, weights; y alone without the rest."""
        if self.lower is None and self.upper is None and self.weights is None:
            return self.y
        none, one = torch.full_like(self.y, math.nan, dtype=torch.float32), torch.ones_like(self.y, dtype=torch.float32)
        weights = one if self.weights is None else self.weights
        if self.y.dim() == 1:
            columns = [self.y[:, None], weights[:, None]]
        else:
            columns = [self.y, *(none if limit is None else limit for limit in (self.lower, self.upper)), weights]
        return torch.cat([column.to(torch.float32) for column in columns], 1)

    @classmethod
    def of_numbers(cls, y: Tensor, outputs: Tensor) -> LossTargets:
        """From numbers or labels, packed or not, for outputs (rows, k)."""
        width = outputs.shape[-1] if outputs.dim() == 2 else 0
        is_packed = width > 0 and y.shape == (len(outputs), 4 * width)
        targets = cls(*(y[:, at * width : (at + 1) * width] for at in range(4))) if is_packed else cls(y)
        if outputs.dim() != 2 or outputs.shape != targets.y.shape:
            raise SpecError(
                f"got outputs of shape {tuple(outputs.shape)} for targets of shape {tuple(y.shape)}; "
                "expected both as (rows, targets)"
            )
        return targets

    @classmethod
    def of_classes(cls, y: Tensor, outputs: Tensor) -> LossTargets:
        """From classes, packed or not, for outputs (rows, classes)."""
        is_packed = y.dim() == 2 and y.shape[1] == 2 and y.is_floating_point()
        targets = cls(y[:, 0].long(), weights=y[:, 1]) if is_packed else cls(y)
        if outputs.dim() != 2 or targets.y.shape != outputs.shape[:1] or targets.y.is_floating_point():
            raise SpecError(
                f"got outputs of shape {tuple(outputs.shape)} for classes of shape {tuple(y.shape)}, {y.dtype}; "
                "expected (rows, classes) and (rows,), whole numbers"
            )
        return targets


def recipe_loss(recipe: Recipe, task: Task) -> Loss:
    """The loss that a recipe minimises; one that does not fit the task is refused."""
    return loss_for(
        recipe.loss,
        task,
        recipe.smooth_l1_beta,
        by_target=recipe.balance_targets,
        label_smoothing=recipe.label_smoothing,
        focal_gamma=recipe.focal_gamma,
    )


def loss_for(
    name: str | None,
    task: Task,
    beta: float,
    *,
    by_target: bool = False,
    label_smoothing: float = 0.0,
    focal_gamma: float = 0.0,
) -> Loss:
    """``l1``, ``smooth_l1`` with ``beta``, ``mse``, ``cross_entropy`` or ``bce``; None is the usual one of the task.

    With ``by_target``, for a regression only, the sum is that of each target by itself, to balance them;
    ``label_smoothing`` and ``focal_gamma`` are for labels and classes. What does not fit the task is refused.
    """
    if by_target and task is not Task.REGRESSION:
        raise SpecError(f"got balance_targets for {task.value}; expected a regression. Leave it out")
    for key, value in (("label_smoothing", label_smoothing), ("focal_gamma", focal_gamma)):
        if value and task is Task.REGRESSION:
            raise SpecError(f"got {key}={value:g} for a regression; expected labels or classes. Leave it out")
        if not (math.isfinite(value) and value >= 0) or (key == "label_smoothing" and value >= 1):
            raise SpecError(f"got {key}={value}; expected a number from 0{' to below 1' * (key != 'focal_gamma')}")
    fitting = list(_FITTING[task])
    name = fitting[0] if name is None else name
    if name not in fitting:
        raise SpecError(
            f"got the loss {name!r} for {task.value}; expected {' or '.join(fitting)}, or none for {fitting[0]}"
            f"{did_you_mean(str(name), fitting)}"
        )
    if name == "cross_entropy":
        return partial(cross_entropy, smoothing=label_smoothing, gamma=focal_gamma)
    if name == "bce":
        return partial(bce, smoothing=label_smoothing, gamma=focal_gamma)
    if not (math.isfinite(beta) and beta >= 0):
        raise SpecError(f"got smooth_l1_beta={beta}; expected a number from 0 (which is l1)")
    if name == "mse":
        return partial(difference_loss, each=_square, by_target=by_target)
    each = partial(_smooth_l1, beta=beta if name == "smooth_l1" else 0.0)
    return partial(difference_loss, each=each, by_target=by_target)


def difference_loss(
    outputs: Tensor, y: Tensor, /, *, each: Callable[[Tensor], Tensor], by_target: bool
) -> tuple[Tensor, Tensor]:
    """Σ w ℓ(x) of x = outputs − y, both (rows, k), y NaN where missing; with ``by_target`` (k,) sums and numbers.

    ``each`` is ℓ, entry by entry: |x|, x², or x²/2β where |x| < β and |x| − β/2 elsewhere. Of a target that is only
    known to be above a limit b, x = min(outputs − b, 0), and below, max(outputs − b, 0): no loss and no gradient on the
    right side.
    """
    targets = LossTargets.of_numbers(y, outputs)
    outputs, known = _at_least_float32(outputs), ~targets.y.isnan()
    x = torch.where(known, outputs - torch.where(known, targets.y, 0).to(outputs.dtype), 0)
    if targets.lower is not None and targets.upper is not None:
        x = torch.where(~known & (outputs < targets.lower), outputs - targets.lower, x)
        x = torch.where(~known & (outputs > targets.upper), outputs - targets.upper, x)
        known = known | ~targets.lower.isnan() | ~targets.upper.isnan()
    terms = each(x) if targets.weights is None else each(x) * targets.weights
    return (terms.sum(0), known.sum(0)) if by_target else (terms.sum(), known.sum())


def _smooth_l1(x: Tensor, *, beta: float) -> Tensor:
    return functional.smooth_l1_loss(x, torch.zeros_like(x), reduction="none", beta=beta)


def _square(x: Tensor) -> Tensor:
    return x.square()


def geometric_mean_weights(means: Tensor) -> Tensor:
    """(k,) losses L → (k,) weights G / (k L_t), G = (Π L_t)^(1/k), with which Σ w_t ∇L_t is the gradient of G.

    So every target gains by the same share, where the plain mean would look after the largest losses only.
    """
    means = means.detach().clamp(min=_SMALLEST_LOSS)
    return means.log().mean().exp() / (means.numel() * means)


def balanced_weights(y: Tensor, weights: Tensor, train: Tensor) -> Tensor:
    """Weights of labels (rows, k), or of classes (rows,), with which each class counts the same in training.

    A class with n_c of the training rows weighs min(max n / n_c, 50), divided by the mean over these rows. With the
    limit a single row of a class does not outweigh everything else.

    Args:
        y: labels 0 and 1, NaN where missing; or classes, negative where missing.
        weights: of the same shape; rows are counted with them.
        train: the rows (t,) to count.
    """
    result = torch.ones(len(y), math.prod(y.shape[1:]), dtype=torch.float64)
    columns, weights = y.reshape_as(result), weights.reshape_as(result).double()
    for column, labels in enumerate(columns.unbind(1)):
        known = labels >= 0
        rows = train[known[train]]
        counts = torch.bincount(labels[rows].long(), weights[rows, column])
        if not float(counts.sum()) > 0:
            continue
        each = (counts.max() / counts).clamp(max=_LARGEST_CLASS_WEIGHT)
        each = each * counts.sum() / (each * counts).sum()
        known &= labels < len(each)  # other classes are in no training row
        result[known, column] = each[labels[known].long()]
    return result.reshape(y.shape)


def bce(outputs: Tensor, y: Tensor, /, *, smoothing: float = 0.0, gamma: float = 0.0) -> tuple[Tensor, Tensor]:
    """Σ w |t − p|^γ (−t log p − (1 − t) log(1 − p)) of logits o and labels y, both (rows, k), y NaN where missing.

    p = σ(o); t = (1 − ε) y + ε/2 with the smoothing ε. γ > 0 (focal loss) lets entries that are right count less.
    """
    targets = LossTargets.of_numbers(y, outputs)
    known = ~targets.y.isnan()  # chosen before anything is computed: 0 · NaN would be NaN in the gradient
    outputs = _at_least_float32(outputs)[known]
    y = targets.y[known].to(outputs.dtype)
    if bool(((y < 0) | (y > 1)).any()):
        raise SpecError(f"got labels from {float(y.min()):g} to {float(y.max()):g}; expected 0, 1, or NaN for missing")
    t = (1 - smoothing) * y + smoothing / 2 if smoothing else y
    terms = functional.binary_cross_entropy_with_logits(outputs, t, reduction="none")
    if gamma:
        terms = terms * _focal((t - outputs.sigmoid()).abs(), gamma)
    terms = terms if targets.weights is None else terms * targets.weights[known]
    return terms.sum(), known.sum()


def cross_entropy(
    outputs: Tensor, y: Tensor, /, *, smoothing: float = 0.0, gamma: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Σ w (1 − p_y)^γ (−Σ_c t_c log p_c) of logits o (rows, classes) and classes y (rows,), negative where missing.

    p = softmax(o); t_c = (1 − ε) [c = y] + ε / classes with the smoothing ε. γ > 0 is the focal loss.
    """
    targets = LossTargets.of_classes(y, outputs)
    known = targets.y >= 0
    logits, classes = _at_least_float32(outputs)[known], targets.y[known].long()
    if bool((classes >= outputs.shape[1]).any()):
        raise SpecError(f"got the class {int(classes.max())}; expected classes from 0 to {outputs.shape[1] - 1}")
    terms = functional.cross_entropy(logits, classes, reduction="none", label_smoothing=smoothing)
    if gamma:
        terms = terms * _focal(1 - logits.softmax(1).gather(1, classes[:, None])[:, 0], gamma)
    terms = terms if targets.weights is None else terms * targets.weights[known]
    return terms.sum(), known.sum()


def _focal(wrong: Tensor, gamma: float) -> Tensor:
    """wrong^γ, kept off 0, where the gradient of γ < 1 would be infinite."""
    return wrong.clamp(min=_SMALLEST_WRONG) ** gamma


def _at_least_float32(outputs: Tensor) -> Tensor:
    """A sum over a batch in bfloat16 would have two digits."""
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32))
