"""Small models that read a quantity off features of pairs: :func:`probe`.

Features are standardised and joined by their squares. Shortest paths: multinomial logistic regression. Real quantities:
ridge regression, w = (XᵀX + λN)⁻¹ Xᵀy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from pointset.points.graphs import Floats
from pointset.studies.trained.pair_truths import CLASSES, Truths

_REACH = 8.0  # deviations: farther features are cut, lest a square of an outlier decides
_PENALTY = 1e-5  # λ, for each row
_MOST_ROWS = 10_000  # to fit the classes on; more rows only take longer
_STEPS = 200
_CONSTANT = 1e-6  # of the mean: a deviation that is rounding


def probe(fit: tuple[Tensor, Truths], test: tuple[Tensor, Truths]) -> dict[str, Any]:
    """Fit on the pairs of some graphs, score on those of others; the entries are those of PROBE in ``distances``.

    Args:
        fit: features (P, c) and the truths of P pairs.
        test: likewise, (P', c).
    """
    train, seen = _polynomials(fit[0], test[0])
    truth, asked = fit[1], test[1]
    return {
        **_path_scores(_classify(train, truth.path, seen), asked.path),
        "resistance_r2": _r2(train, truth.resistance, seen, asked.resistance),
        "commute_r2": _r2(train, truth.commute, seen, asked.commute),
        "return_r2": _r2(train, truth.returning, seen, asked.returning),
    }


def _polynomials(fit: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """(P, c), (P', c) → (P, 2c + 1), (P', 2c + 1): standardised by ``fit``, with squares and a constant 1."""
    plain = _standardised(fit.nan_to_num(0.0, 0.0, 0.0), test.nan_to_num(0.0, 0.0, 0.0))  # of a model that diverged
    squares = _standardised(plain[0].square(), plain[1].square())
    first, second = (
        torch.cat([one, square, one.new_ones(len(one), 1)], dim=1) for one, square in zip(plain, squares, strict=True)
    )
    return first, second


def _standardised(fit: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    mean, std = fit.mean(0), fit.std(0, correction=0)
    std = torch.where(std > _CONSTANT * mean.abs(), std, torch.inf)
    first, second = (((part - mean) / std).clamp(-_REACH, _REACH) for part in (fit, test))
    return first, second


def _classify(fit: Tensor, classes: Tensor, test: Tensor) -> Tensor:
    """(P',) the most probable class of each test row, by W that minimises −mean log softmax(XW)_y + λ‖W‖²."""
    stride = -(-len(fit) // _MOST_ROWS)
    rows, wanted = fit[::stride].numpy(), classes[::stride].numpy()
    shape = fit.shape[1], len(CLASSES)
    right = np.arange(len(rows)), wanted
    penalised = np.ones((shape[0], 1))
    penalised[-1] = 0.0  # the constant may be as large as it must

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        logarithms = log_softmax(rows @ weights, axis=1)  # (P, classes)
        value = -logarithms[right].mean() + _PENALTY * float((penalised * weights**2).sum())
        residual = np.exp(logarithms)
        residual[right] -= 1.0
        slope = rows.T @ residual / len(rows) + 2 * _PENALTY * penalised * weights
        return float(value), slope.ravel()

    found = minimize(
        loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS, "maxcor": 30}
    )
    return (test @ torch.from_numpy(found.x.reshape(shape))).argmax(1)


def _path_scores(named: Tensor, right: Tensor) -> dict[str, Any]:
    per_distance = {}
    for number, name in enumerate(CLASSES):
        pairs, said = int((right == number).sum()), int((named == number).sum())
        both = int(((right == number) & (named == number)).sum())
        per_distance[name] = {
            "pairs": pairs,
            "accuracy": both / pairs if pairs else None,
            "precision": both / said if said else None,
        }
    return {"accuracy": float((named == right).double().mean()), "per_distance": per_distance}


def _r2(fit: Tensor, values: Tensor, test: Tensor, wanted: Tensor) -> float | None:
    """1 − Σ(y − ŷ)² / Σ(y − ȳ)² over the pairs for which the quantity is defined; None where it does not vary."""
    fit, values = fit[~values.isnan()], values[~values.isnan()]
    test, wanted = test[~wanted.isnan()], wanted[~wanted.isnan()]
    spread = (wanted - wanted.mean()).square().sum() if len(wanted) else torch.zeros(())
    if not len(values) or float(spread) <= _CONSTANT**2 * float(wanted.square().sum()):
        return None
    penalty = _PENALTY * len(fit) * torch.eye(fit.shape[1], dtype=fit.dtype)
    penalty[-1, -1] = 1e-12 * len(fit)  # the constant may be as large as it must
    weights = torch.linalg.solve(fit.T @ fit + penalty, fit.T @ values)
    return 1 - float((wanted - test @ weights).square().sum() / spread)
