"""Scores of chemists.py, of rows as they are and resampled: :func:`score`, :func:`resampled_scores`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
METRICS = {"regression": ("rmse", "mae"), "classification": ("roc_auc",)}  # the first one decides


def score(metric: str, truth: Reals, predicted: Reals) -> float:
    """rmse, mae or roc_auc, the mean over targets (n, k); missing labels, and labels of one class, are left out."""
    return float(resampled_scores(metric, truth, predicted, np.ones((1, len(truth))))[0])


def resampled_scores(metric: str, truth: Reals, predicted: Reals, counts: Reals) -> Reals:
    """(B,) the score of B samples of the rows.

    Args:
        metric: rmse, mae or roc_auc.
        truth: (n, k), NaN where a label is missing.
        predicted: (n, k).
        counts: (B, n) how often each row is in each sample.
    """
    if not np.isfinite(predicted).all():
        raise ValueError(f"got {int((~np.isfinite(predicted)).sum())} predictions that are not finite")
    each = np.full((truth.shape[1], len(counts)), np.nan)
    for target in range(truth.shape[1]):
        known = ~np.isnan(truth[:, target])
        if known.any():
            each[target] = _one_target(metric, truth[known, target], predicted[known, target], counts[:, known])
    known_scores = np.isfinite(each)
    total = np.where(known_scores, each, 0.0).sum(axis=0)
    number = known_scores.sum(axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _one_target(metric: str, truth: Reals, predicted: Reals, counts: Reals) -> Reals:
    with np.errstate(invalid="ignore", divide="ignore"):  # a sample without rows, or of one class: NaN
        if metric == "roc_auc":
            return _roc_auc(truth, predicted, counts)
        error = np.abs(truth - predicted)
        if metric == "mae":
            return np.asarray(counts @ error / counts.sum(axis=1))
        return np.asarray(np.sqrt(counts @ error**2 / counts.sum(axis=1)))


def _roc_auc(truth: Reals, predicted: Reals, counts: Reals) -> Reals:
    """(B,) the share of pairs (positive, negative) in order, ties one half, over groups of equal predictions.

    AUC = Σ_g P_g (N_{<g} + N_g / 2) / (P N), P_g and N_g the positives and negatives of group g, lowest first.
    """
    _, group = np.unique(predicted, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    positives = np.add.reduceat((counts * (truth == 1))[:, order], starts, axis=1)  # (B, groups)
    negatives = np.add.reduceat((counts * (truth == 0))[:, order], starts, axis=1)
    below = np.cumsum(negatives, axis=1) - negatives
    pairs = positives.sum(axis=1) * negatives.sum(axis=1)
    return np.asarray((positives * (below + negatives / 2)).sum(axis=1) / pairs)
