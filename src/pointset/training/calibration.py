"""How sure a prediction is: intervals of numbers, probabilities and sets of classes, from the validation part.

Split-conformal prediction (Vovk et al.): the validation part has n nonconformity scores; the ⌈(n + 1)c⌉-th smallest
bounds the score of a new row with probability at least c, whatever the model, as long as the row could as well have
been one of the validation part.

- :class:`IntervalCalibration`, of a regression: the score is |y − ŷ| / σ(x), with a difficulty σ(x) from
  :mod:`pointset.training.difficulty`, so that intervals ŷ ± q·σ(x) are wide where the model is unsure. Where there are
  enough rows, q is that of rows of like difficulty (Mondrian bins).
- :class:`ClassCalibration`, of a label or of classes: probabilities softmax(z / T) with a temperature T by likelihood;
  the score is 1 − p of the true class, q is that of each class (so a rare class is covered as often as a frequent one),
  and the prediction set holds the classes that q does not rule out.

The numbers agree with ``crepes`` (a test compares them). It is not used here, because predicting would then need
pandas, and a bundle would have to hold its objects pickled; what it holds are a few numbers and sorted scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats
from pointset.errors import SpecError

if TYPE_CHECKING:
    from pointset.training.bundle import Place

CONFIDENCE = 0.9
_MOST_SCORES = 2_000  # kept of each bin or class
_LEAST_IN_A_BIN = 40  # validation rows; of fewer, quantiles near 0.9 are too uncertain to be told apart
_MOST_BINS = 5
_ROUNDING = 1e-9  # (n + 1)c of c = 0.9 may come out a little above the whole number that it is
_LEAST_TEMPERATURE, _LARGEST_TEMPERATURE = 0.2, 10.0
_LEAST_FOR_TEMPERATURE = 10  # validation rows
_TEMPERATURE_PRIOR = 0.5  # standard deviation of ln T around 0: a few rows cannot make a model very sure

Arrays = Mapping[str, NDArray[Any]]


def check_confidence(confidence: float) -> float:
    """A probability above 0 and below 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise SpecError(f"got the confidence {confidence!r}; expected a number between 0 and 1, such as 0.9")
    return float(confidence)


@dataclass(frozen=True, eq=False)
class SortedScores:
    """Nonconformity scores of n validation rows in ascending order; of very many, some are kept."""

    kept: Floats  # (at most _MOST_SCORES,)
    count: int  # n

    @classmethod
    def of(cls, scores: Floats) -> SortedScores:
        """Of the scores (n,) in any order."""
        ranks = _kept_ranks(len(scores))
        return cls(np.sort(np.asarray(scores, dtype=np.float64))[ranks - 1], len(scores))

    def quantile(self, confidence: float) -> float:
        """The ⌈(n + 1)c⌉-th smallest score, or the next larger one that is kept; ∞ where there are fewer."""
        rank = math.ceil((self.count + 1) * check_confidence(confidence) - _ROUNDING)
        if rank > self.count:
            return math.inf
        return float(self.kept[np.searchsorted(_kept_ranks(self.count), max(rank, 1))])

    def p_value(self, scores: Floats) -> Floats:
        """(rows,) → (rows,) the share of the n scores, and this one, that are at least as large."""
        ranks = np.append(_kept_ranks(self.count), self.count + 1)
        below = ranks[np.searchsorted(self.kept, scores, side="left")] - 1
        return np.asarray((self.count - below + 1) / (self.count + 1))


def _kept_ranks(count: int) -> NDArray[np.int64]:
    """Ranks, from 1, of the scores that are kept of so many: all, or equally spaced ones from the first to the last."""
    return np.unique(np.linspace(1, count, min(count, _MOST_SCORES)).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class IntervalCalibration:
    """Intervals of one target of a regression, given predictions and their difficulty σ, (rows,) each."""

    edges: Floats  # (bins − 1,) ascending: σ at which the next bin begins
    scores: tuple[SortedScores, ...]  # of each bin; last of all rows
    factor: float  # standard deviation of the error, in units of σ

    @classmethod
    def fit(cls, errors: Floats, sigma: Floats) -> IntervalCalibration | None:
        """From the errors y − ŷ (n,) of the validation part; NaN where there is no target. None without any.

        The bins have equally many rows, as far as ties allow.
        """
        known = np.isfinite(errors) & np.isfinite(sigma)
        errors, sigma = errors[known], sigma[known]
        if not len(errors):
            return None
        scores = np.abs(errors) / sigma
        bins = int(np.clip(len(errors) // _LEAST_IN_A_BIN, 1, _MOST_BINS))
        edges = np.unique(np.quantile(sigma, np.arange(1, bins) / bins)) if bins > 1 else np.zeros(0)
        place = np.searchsorted(edges, sigma, side="right")
        sizes = np.bincount(place, minlength=len(edges) + 1)
        if sizes.min() < _LEAST_IN_A_BIN // 2:  # equal difficulties: the edges do not divide the rows
            edges, place = np.zeros(0), np.zeros(len(sigma), dtype=np.int64)
        parts = [scores[place == bin_] for bin_ in range(len(edges) + 1)]
        return cls(edges, tuple(map(SortedScores.of, [*parts, scores])), float(np.sqrt(np.mean(scores**2))))

    def half_width(self, sigma: Floats, confidence: float = CONFIDENCE) -> Floats:
        """(rows,) q·σ: the interval is ŷ ± this. ∞ where the validation part is too small for the confidence.

        A bin that is too small has the quantile of all rows, and at least its own largest score.
        """
        *bins, together = self.scores
        of_all = together.quantile(confidence)
        quantiles = [scores.quantile(confidence) for scores in bins]
        finite = [
            quantile if quantile < math.inf else max(of_all, float(scores.kept[-1]))
            for quantile, scores in zip(quantiles, bins, strict=True)
        ]
        return np.asarray(np.array(finite)[np.searchsorted(self.edges, sigma, side="right")] * sigma)

    @property
    def rows(self) -> int:
        """Of the validation part, with a target."""
        return self.scores[-1].count

    def std(self, sigma: Floats) -> Floats:
        """(rows,) the standard deviation of the error; on the validation part, the mean of (error / this)² is 1."""
        return self.factor * sigma

    def as_plain(self) -> tuple[dict[str, Any], Arrays]:
        """Values for JSON, and the scores of all bins one after the other."""
        plain = {"edges": self.edges.tolist(), "factor": self.factor, "counts": [one.count for one in self.scores]}
        return plain, {"scores": np.concatenate([one.kept for one in self.scores])}

    @classmethod
    def from_plain(cls, place: Place, arrays: Arrays) -> IntervalCalibration:
        """The inverse of :meth:`as_plain`; raises FileFormatError where it is not what :meth:`as_plain` gave."""
        edges = np.array([edge.number() for edge in place.at("edges").items()])
        scores = _scores_from(place, arrays)
        factor = place.at("factor").number()
        counts = [one.count for one in scores]
        divided = len(counts) == len(edges) + 2 and min(counts) > 0 and sum(counts[:-1]) == counts[-1]
        if not divided or (np.diff(edges) <= 0).any() or factor < 0:
            raise place.wrong("ascending edges, counts of one bin more and of all, a factor that is not negative")
        return cls(edges, scores, factor)


@dataclass(frozen=True, eq=False)
class ClassCalibration:
    """Probabilities and prediction sets of a label (two classes) or of classes, given logits (rows, classes)."""

    temperature: float
    scores: tuple[SortedScores, ...]  # 1 − p of the rows of each class

    @classmethod
    def fit(cls, logits: Floats, classes: NDArray[np.int64]) -> ClassCalibration | None:
        """From logits (n, classes) and the true classes (n,) of the validation part, negative where unknown."""
        known = (classes >= 0) & np.isfinite(logits).all(1)
        logits, classes = logits[known], classes[known]
        if not len(classes):
            return None
        temperature = fit_temperature(logits, classes)
        missed = 1 - _softmax(logits / temperature)[np.arange(len(classes)), classes]
        return cls(temperature, tuple(SortedScores.of(missed[classes == one]) for one in range(logits.shape[1])))

    def probabilities(self, logits: Floats) -> Floats:
        """softmax(z / T), (rows, classes). The order of classes and of rows by one label's probability stays."""
        return _softmax(logits / self.temperature)

    def sets(self, logits: Floats, confidence: float = CONFIDENCE) -> NDArray[np.bool_]:
        """(rows, classes) which classes the prediction set holds.

        A class with too few validation rows cannot be ruled out. Where all are ruled out, the set holds the one with
        the largest p-value: an empty set would only say that the confidence is lower than the model's accuracy.
        """
        missed = 1 - self.probabilities(logits)
        held = np.asarray(missed <= np.array([scores.quantile(confidence) for scores in self.scores]))
        empty = np.flatnonzero(~held.any(1))
        if len(empty):
            p_values = [scores.p_value(missed[empty, one]) for one, scores in enumerate(self.scores)]
            held[empty, np.argmax(p_values, axis=0)] = True
        return held

    def as_plain(self) -> tuple[dict[str, Any], Arrays]:
        """Values for JSON, and the scores of all classes one after the other."""
        plain = {"temperature": self.temperature, "counts": [one.count for one in self.scores]}
        return plain, {"scores": np.concatenate([one.kept for one in self.scores])}

    @classmethod
    def from_plain(cls, place: Place, arrays: Arrays, classes: int) -> ClassCalibration:
        """The inverse of :meth:`as_plain`; raises FileFormatError where it is not what :meth:`as_plain` gave."""
        temperature, scores = place.at("temperature").number(), _scores_from(place, arrays)
        if temperature <= 0 or len(scores) != classes:
            raise place.wrong(f"a positive temperature and the scores of {classes} classes")
        return cls(temperature, scores)


def fit_temperature(logits: Floats, classes: NDArray[np.int64]) -> float:
    """T > 0 that makes softmax(z / T) most likely on n rows, logits (n, classes); 1 where they cannot tell.

    Minimises Σ −ln p(true class) + ½ (ln T / 0.5)², bounded; the second term keeps T near 1 where n is small. One class
    alone would make T as small as it may be, or as large.
    """
    if len(classes) < _LEAST_FOR_TEMPERATURE or (classes == classes[0]).all():
        return 1.0

    def cost(log_temperature: float) -> float:
        scaled = logits * math.exp(-log_temperature)
        top = scaled.max(1)
        normaliser = top + np.log(np.exp(scaled - top[:, None]).sum(1))
        likelihood = (normaliser - scaled[np.arange(len(classes)), classes]).sum()
        return float(likelihood + 0.5 * (log_temperature / _TEMPERATURE_PRIOR) ** 2)

    grid = np.linspace(math.log(_LEAST_TEMPERATURE), math.log(_LARGEST_TEMPERATURE), 40)
    best = int(np.argmin([cost(one) for one in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(40):  # thirds: the cost falls and then rises between the neighbours of the best
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if cost(left) <= cost(right) else (left, high)
    return math.exp((low + high) / 2)


def _softmax(logits: Floats) -> Floats:
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(1, keepdims=True))


def two_classes(logits: Floats) -> Floats:
    """Logits of a label (rows,) → (rows, 2), of no and of yes: softmax([0, z]) = (1 − sigmoid(z), sigmoid(z))."""
    return np.stack([np.zeros_like(logits), logits], axis=1)


def _scores_from(place: Place, arrays: Arrays) -> tuple[SortedScores, ...]:
    """The scores of ``counts`` rows each, from one array of all."""
    counts = [count.whole(0) for count in place.at("counts").items()]
    kept = arrays.get("scores")
    sizes = [len(_kept_ranks(count)) if count < 2**40 else -1 for count in counts]
    if kept is None or kept.dtype != np.float64 or kept.shape != (sum(sizes),) or -1 in sizes:
        raise place.at("counts").wrong("the numbers of the scores in the bundle")
    parts = np.split(kept, np.cumsum(sizes)[:-1]) if sizes else []
    if any((np.diff(part) < 0).any() or not np.isfinite(part).all() or (part < 0).any() for part in parts):
        raise place.wrong("finite scores in ascending order")
    return tuple(SortedScores(part, count) for part, count in zip(parts, counts, strict=True))


class Coverage(NamedTuple):
    """How often intervals or sets hold the truth, over rows with a known target."""

    coverage: float  # NaN without rows
    width: float  # mean of upper − lower, or of the number of classes in a set
    rows: int


def coverage(held: NDArray[np.bool_], widths: Floats, known: NDArray[np.bool_]) -> Coverage:
    """Of rows, (rows,) each: whether the truth is inside, how wide, whether there is a truth."""
    if not known.any():
        return Coverage(math.nan, math.nan, 0)
    return Coverage(float(held[known].mean()), float(widths[known].mean()), int(known.sum()))
