"""How far predictions can be trusted: calibration, and error by similarity to training (:func:`trust_section`).

All of it is computed from ``predictions.csv`` of the test part: intervals, standard deviations, probabilities,
similarity to the nearest training molecule, and whether a row is in the model's domain. A file without them has no
such charts.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from pointset.arrays import Floats, Integers
from pointset.reports.charts import Axis, Chart, Figure
from pointset.runs.records import Predictions, RunRecord
from pointset.runs.result import RunResult
from pointset.text import counted, fixed, number, percent, whole_percent

_MOST_TARGETS = 8  # that have a line of their own
_MOST_DOTS = 1500
_MOST_BINS, _LEAST_IN_BIN = 6, 8
_MOST_REACH = 0.995  # share of the errors that a chart has room for
_HEIGHT = 300.0
_Z95 = 1.959964


class TrustSection(NamedTuple):
    """What the page says under “How far to trust it”."""

    intro: str
    figures: list[Figure]


def trust_section(run: RunRecord, noun: str) -> TrustSection | None:
    """None where the run's predictions have neither intervals nor probabilities nor similarities."""
    predictions, result = run.predictions, run.result
    if predictions is None or result is None or not predictions.rows:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # a run that diverged has a report too
        return _section(predictions, result, noun)


def _section(predictions: Predictions, result: RunResult, noun: str) -> TrustSection | None:
    confidence = 0.9 if result.calibration is None else result.calibration.confidence
    if result.is_regression:
        figures = [_coverage_figure(predictions, confidence)]
    else:
        figures = [_reliability_figure(predictions)]
    errors = row_errors(predictions, result)
    figures.append(_error_by_similarity(predictions, errors, result, noun))
    if result.is_regression:
        figures.append(_coverage_by_similarity(predictions, confidence, noun))
    shown = [one for one in figures if one is not None]
    sentences = _sentences(predictions, errors, result, noun, confidence)
    return TrustSection(" ".join(sentences), shown) if shown or sentences else None


# --- in words


def _sentences(predictions: Predictions, errors: Floats, result: RunResult, noun: str, confidence: float) -> list[str]:
    text = []
    hits = _hits(predictions)[1]
    inside, rows = int(hits.sum()), len(hits)
    if rows:
        slack = _Z95 * float(np.sqrt(confidence * (1 - confidence) / rows))
        low, high = max(confidence - slack, 0.0), min(confidence + slack, 1.0)
        text.append(
            f"The {whole_percent(confidence)} intervals hold the true value in {inside:,} of {rows:,} cases, "
            f"{percent(inside / rows)}; of so many, {whole_percent(low)} to {whole_percent(high)} is to be expected."
        )
    domain = predictions.in_domain
    if domain is not None and np.isfinite(domain).any():
        within, known = int((domain == 1).sum()), int(np.isfinite(domain).sum())
        text.append(f"{within:,} of {counted(known, f'test {noun}')} are like those that the model learned from.")
        means = [
            float(np.nanmean(errors[domain == answer]))
            for answer in (1, 0)
            if np.isfinite(errors[domain == answer]).any()
        ]
        if len(means) == 2:
            text.append(f"Their mean error is {number(means[0], 3)}, that of the others {number(means[1], 3)}.")
    return text


def _hits(predictions: Predictions) -> tuple[Integers, Floats]:
    """The rows of all known true values that have an interval, target after target, and 1 where they lie in it."""
    rows, hits = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for target, (lower, upper) in predictions.intervals.items():
        true = predictions.numbers[target][0]
        known = np.flatnonzero(np.isfinite(true) & ~np.isnan(lower) & ~np.isnan(upper))
        rows.append(known)
        hits.append(((true >= lower) & (true <= upper))[known].astype(np.float64))
    return np.concatenate(rows), np.concatenate(hits)


def row_errors(predictions: Predictions, result: RunResult) -> Floats:
    """(rows,) how wrong each row is, NaN where nothing is known.

    Of one number |error| in its own unit, of several the mean of |error| / standard deviation; of labels the
    probability given to wrong answers; of classes 1 where the class is wrong.
    """
    if result.is_multi_class:
        ((names, guesses), *_) = predictions.classes.values()
        pairs = zip(names, guesses, strict=True)
        return np.array([float(one != other) if one else np.nan for one, other in pairs])
    columns = []
    for true, predicted in predictions.numbers.values():
        error = np.abs(predicted - true)
        spread = float(np.nanstd(true)) if len(predictions.numbers) > 1 and np.isfinite(true).any() else 1.0
        columns.append(error / (spread or 1.0) if result.is_regression else error)
    table = np.stack(columns)
    known = np.isfinite(table)
    counts = known.sum(0)
    return np.where(counts > 0, np.where(known, table, 0.0).sum(0) / np.maximum(counts, 1), np.nan)


# --- calibration


def coverages(true: Floats, predicted: Floats, std: Floats, confidences: Floats) -> Floats:
    """Share of rows with |y − ŷ| ≤ z(c)·σ for each confidence c, where z(c) is that of the normal distribution."""
    known = np.isfinite(true) & np.isfinite(predicted) & (std > 0)
    sizes = np.sort(np.abs(true - predicted)[known] / std[known])
    bounds = [NormalDist().inv_cdf((1 + float(c)) / 2) for c in confidences]
    return np.searchsorted(sizes, bounds, side="right") / max(len(sizes), 1)


def _coverage_figure(predictions: Predictions, confidence: float) -> Figure | None:
    """Share of true values inside intervals over the confidence of these: on the diagonal both are equal."""
    hits = _hits(predictions)[1]
    inside, rows = float(hits.sum()), len(hits)
    std = _expected_errors(predictions, confidence)
    if not std:
        return None
    chart = Chart(
        Axis(0, 1, "confidence"), Axis(0, 1.02, "share inside"), "Coverage against confidence", height=_HEIGHT
    )
    grid = np.linspace(0.02, 0.98, 49)
    if rows:
        slack = _Z95 * np.sqrt(grid * (1 - grid) / rows)
        for sign in (-1, 1):
            chart.line(grid, np.clip(grid + sign * slack, 0, 1), "reference dotted")
    chart.line([0, 1], [0, 1], "reference")
    one = len(std) == 1
    for index, (target, spread) in enumerate(std.items()):
        chart.line(grid, coverages(*predictions.numbers[target], spread, grid), f"c{index}", "" if one else target)
    if rows:
        chart.ring(confidence, inside / rows, f"{whole_percent(confidence)} intervals: {percent(inside / rows)}")
    caption = (
        "Share of true values within the predicted standard deviations, for every confidence. On the diagonal the "
        "model is as sure as it should be, above it too careful, below it too sure."
    )
    caption += " Between the dotted lines is chance." if rows else ""
    return chart.figure("Calibration", caption + (" The ring is that of the intervals." if rows else ""))


def _expected_errors(predictions: Predictions, confidence: float) -> dict[str, Floats]:
    """σ of each target: the column of standard deviations, or what the half-width of the intervals makes of it."""
    found = {target: spread for target, spread in predictions.std.items() if (spread > 0).any()}
    bound = NormalDist().inv_cdf((1 + confidence) / 2)
    for target, (lower, upper) in predictions.intervals.items():
        half = (upper - lower) / 2 / bound
        if target not in found and np.isfinite(half).any():
            found[target] = np.where(np.isfinite(half), half, np.nan)
    return dict(list(found.items())[:_MOST_TARGETS])


def _reliability_figure(predictions: Predictions) -> Figure | None:
    """How often a yes, or the predicted class, is right, over the probability that the model gave it."""
    if predictions.classes:
        if predictions.sureness is None:
            return None
        ((true, predicted), *_) = predictions.classes.values()
        known = np.array([bool(one) for one in true]) & np.isfinite(predictions.sureness)
        probability = predictions.sureness[known]
        is_so = np.array([float(one == other) for one, other in zip(true, predicted, strict=True)])[known]
        label, what = "probability of the predicted class", "how often the predicted class is right"
    else:
        pairs = list(predictions.numbers.values())
        flat = np.concatenate([np.stack(pair) for pair in pairs], axis=1)
        is_so, probability = flat[:, np.isfinite(flat).all(0)]
        label, what = "predicted probability", "how often the answer is yes"
    if not len(probability):
        return None
    chart = Chart(Axis(0, 1, label), Axis(0, 1.02, "share that is so"), "Reliability diagram", height=_HEIGHT)
    chart.line([0, 1], [0, 1], "reference")
    places, shares, counts = _by_tenths(probability, is_so)
    low, high = wilson(shares, counts)
    chart.spans(places, low, high, "c0 pale")
    chart.line(places, shares, "c0 thin")
    chart.dots(places, shares, "c0 large")
    chart.rug(probability[:: 1 + len(probability) // _MOST_DOTS])
    difference = float((np.abs(places - shares) * counts).sum() / counts.sum())
    caption = (
        f"Predictions in tenths of the probability: {what}. On the diagonal probabilities mean what they say. The mean "
        f"distance from it is {fixed(difference, 3)} (expected calibration error). Strokes are 95 % intervals; those "
        "at the bottom are the predictions."
    )
    return chart.figure("Calibration", caption)


def _by_tenths(probability: Floats, is_so: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean probability, share of yes and number of rows in each tenth of the probability that has any."""
    tenth = np.clip((probability * 10).astype(np.int64), 0, 9)
    counts = np.bincount(tenth, minlength=10).astype(np.float64)
    there = counts > 0
    means = [np.bincount(tenth, weights=values, minlength=10)[there] / counts[there] for values in (probability, is_so)]
    return means[0], means[1], counts[there]


def wilson(shares: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """The 95 % interval of a share p of n rows: (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n)."""
    z2 = _Z95**2
    middle = shares + z2 / (2 * counts)
    half = _Z95 * np.sqrt(shares * (1 - shares) / counts + z2 / (4 * counts**2))
    return (middle - half) / (1 + z2 / counts), (middle + half) / (1 + z2 / counts)


# --- by similarity to the training part


def _bins(similarity: Floats) -> list[Integers]:
    """Rows in groups of equal size, from the least similar to the most; equal similarities stay together."""
    order: Integers = np.argsort(similarity, kind="stable")
    number_of = int(np.clip(len(order) // _LEAST_IN_BIN, 1, _MOST_BINS))
    starts = [len(order) * at // number_of for at in range(number_of)]
    firsts = sorted({int(np.searchsorted(similarity[order], similarity[order][start])) for start in starts})
    return [part for part in np.split(order, firsts[1:]) if len(part)]


def _error_by_similarity(predictions: Predictions, errors: Floats, result: RunResult, noun: str) -> Figure | None:
    if predictions.similarity is None:
        return None
    known = np.isfinite(predictions.similarity) & np.isfinite(errors)
    similarity, wrong = predictions.similarity[known], errors[known]
    if not len(wrong):
        return None
    inside = np.ones(len(wrong), dtype=np.bool_)
    if predictions.in_domain is not None:
        inside = predictions.in_domain[known] != 0
    unit = result.units.get(next(iter(predictions.numbers), "")) if len(predictions.numbers) == 1 else None
    named = "share of wrong answers" if result.is_multi_class else "probability of the wrong answer"
    if result.is_regression:
        named = f"|error| ({unit})" if unit else "|error|"
    reach = float(np.quantile(wrong, _MOST_REACH)) if result.is_regression else 1.0
    x, y = Axis(0, 1, "similarity to the nearest training molecule"), Axis(0, 1.05 * (reach or 1.0), named)
    chart = Chart(x, y, f"Error of each {noun} over its similarity to training", height=_HEIGHT)
    some = slice(None, None, 1 + len(wrong) // _MOST_DOTS)
    shown = np.where(wrong <= y.high, wrong, np.nan)
    if not result.is_multi_class:  # 0 and 1 are no cloud
        named_groups = ((inside, "c0", "inside the domain"), (~inside, "c1", "outside")) if not inside.all() else ()
        for chosen, style, label in named_groups or ((inside, "c0", ""),):
            chart.dots(similarity[some][chosen[some]], shown[some][chosen[some]], style, label)
    groups = _bins(similarity)
    places = [float(similarity[group].mean()) for group in groups]
    means = np.array([float(wrong[group].mean()) for group in groups])
    chart.line(places, means, "c7 thin")
    chart.dots(places, means, "c7 large", "mean")
    caption = f"The line is the mean of {noun}s of like similarity (Tanimoto of Morgan fingerprints)."
    beyond = int((wrong > y.high).sum())
    if beyond:
        verb = "is" if beyond == 1 else "are"
        caption += f" {counted(beyond, noun)} with errors above {number(y.high, 2)} {verb} not drawn."
    return chart.figure("Error by similarity", caption)


def _coverage_by_similarity(predictions: Predictions, confidence: float, noun: str) -> Figure | None:
    if predictions.similarity is None or not predictions.intervals:
        return None
    rows, hits = _hits(predictions)
    places = predictions.similarity[rows]
    places, hits = places[np.isfinite(places)], hits[np.isfinite(places)]
    if not len(hits):
        return None
    groups = _bins(places)
    shares, counts = (
        np.array([function(hits[group]) for group in groups], dtype=np.float64) for function in (np.mean, len)
    )
    low, high = wilson(shares, counts)
    middles = [float(places[group].mean()) for group in groups]
    chart = Chart(
        Axis(0, 1, "similarity to the nearest training molecule"),
        Axis(min(0.5, float(low.min()) - 0.02), 1.02, "share inside"),
        "Coverage of the intervals by similarity",
        height=_HEIGHT,
    )
    chart.line([0, 1], [confidence, confidence], "reference")
    chart.spans(middles, low, high, "c0 pale")
    chart.line(middles, shares, "c0 thin")
    chart.dots(middles, shares, "c0 large")
    caption = (
        f"How often the {whole_percent(confidence)} intervals hold the true value, for {noun}s of like similarity; "
        "the dashed line is what they promise. Strokes are 95 % intervals."
    )
    return chart.figure("Coverage by similarity", caption)
