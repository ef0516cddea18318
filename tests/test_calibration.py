"""Intervals, probabilities and prediction sets: exact answers, coverage, and the same numbers as crepes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pointset.arrays import Floats
from pointset.errors import FileFormatError, SpecError
from pointset.training.bundle import Place
from pointset.training.calibration import (
    ClassCalibration,
    IntervalCalibration,
    SortedScores,
    coverage,
    fit_temperature,
    two_classes,
)


def interval(errors: Floats, sigma: Floats | None = None) -> IntervalCalibration:
    fitted = IntervalCalibration.fit(errors, np.ones_like(errors) if sigma is None else sigma)
    assert fitted is not None
    return fitted


# --- quantiles


def test_the_quantile_is_the_score_at_rank_n_plus_1_times_confidence() -> None:
    scores = SortedScores.of(np.array([5.0, 1, 4, 2, 3, 9, 8, 7, 6]))  # n = 9: (n + 1) · 0.9 = 9 exactly
    assert scores.quantile(0.9) == 9
    assert scores.quantile(0.5) == 5
    assert scores.quantile(0.51) == 6
    assert scores.quantile(1e-6) == 1
    assert scores.quantile(0.91) == math.inf  # more than n scores can promise


@pytest.mark.parametrize("count", [9, 19, 29, 39, 99])
def test_rounding_of_n_plus_1_times_confidence_does_not_cost_a_rank(count: int) -> None:
    scores = SortedScores.of(np.arange(1.0, count + 1))
    for tenths in range(1, 10):
        assert scores.quantile(tenths / 10) == (count + 1) * tenths // 10


def test_of_very_many_scores_the_next_larger_one_that_is_kept_is_taken() -> None:
    scores = SortedScores.of(np.arange(1.0, 100_001))
    assert len(scores.kept) == 2_000 and scores.count == 100_000
    for confidence in (0.01, 0.5, 0.9, 0.99, 0.99999):
        exact = math.ceil(100_001 * confidence - 1e-9)
        assert exact <= scores.quantile(confidence) <= exact + 51


def test_ties_are_inside() -> None:
    fitted = interval(np.array([1.0] * 19))
    assert fitted.half_width(np.ones(1), 0.9).tolist() == [1.0]


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 90, math.nan, True, "0.9"])
def test_a_confidence_that_is_no_probability_is_refused(wrong: float) -> None:
    with pytest.raises(SpecError, match="expected a number between 0 and 1"):
        interval(np.ones(30)).half_width(np.ones(1), wrong)


# --- intervals


def test_intervals_of_exchangeable_rows_cover_as_often_as_they_promise() -> None:
    """Over many calibration parts, the coverage is ⌈(n + 1)c⌉ / (n + 1) on average, however errors are distributed."""
    random = np.random.default_rng(0)
    for n, confidence in ((20, 0.9), (33, 0.8), (200, 0.9)):
        exact = math.ceil((n + 1) * confidence - 1e-9) / (n + 1)
        covered = []
        for _ in range(200):
            sigma = random.lognormal(size=n + 200)
            errors = sigma * random.standard_cauchy(n + 200)
            fitted = interval(errors[:n], sigma[:n])
            covered.append(np.mean(np.abs(errors[n:]) <= fitted.half_width(sigma[n:], confidence)))
        # The bins of Mondrian have fewer rows each, so they promise a little more.
        tolerance = 4 * float(np.std(covered)) / math.sqrt(len(covered))
        assert exact - tolerance <= np.mean(covered) <= exact + tolerance + (0.02 if n >= 80 else 0)


def test_mondrian_bins_repair_a_difficulty_that_is_wrong() -> None:
    """Errors that grow with σ² instead of σ: easy and hard rows are covered alike with bins, and not without."""
    random = np.random.default_rng(1)
    sigma = random.uniform(0.2, 3, 4_000)
    errors = sigma**2 * random.normal(size=4_000)
    fitted = interval(errors[:2_000], sigma[:2_000])
    assert len(fitted.edges) == 4
    held = np.abs(errors[2_000:]) <= fitted.half_width(sigma[2_000:], 0.9)
    easy = sigma[2_000:] < 0.8
    assert abs(held[easy].mean() - 0.9) < 0.04 and abs(held[~easy].mean() - 0.9) < 0.04


def test_bins_need_enough_rows_and_different_difficulties() -> None:
    random = np.random.default_rng(2)
    assert len(interval(random.normal(size=79), random.uniform(1, 2, 79)).edges) == 0
    assert [one.count for one in interval(random.normal(size=80), random.uniform(1, 2, 80)).scores] == [40, 40, 80]
    assert len(interval(random.normal(size=1_000), random.uniform(1, 2, 1_000)).edges) == 4
    assert len(interval(random.normal(size=1_000), np.ones(1_000)).edges) == 0
    assert len(interval(random.normal(size=1_000), np.repeat([1.0, 2.0], [995, 5])).edges) == 0


def test_a_higher_confidence_never_gives_a_narrower_interval() -> None:
    random = np.random.default_rng(3)
    sigma = random.lognormal(size=300)
    fitted = interval(sigma * random.normal(size=300), sigma)
    # 0.99 is more than bins of 60 rows can promise, and not more than all 300 can
    widths = np.stack([fitted.half_width(sigma, confidence) for confidence in np.linspace(0.01, 0.99, 60)])
    assert (np.diff(widths, axis=0) >= 0).all() and np.isfinite(widths).all()


def test_too_few_rows_for_the_confidence_give_infinite_intervals() -> None:
    fitted = interval(np.ones(8))  # 0.9 needs nine
    assert np.isinf(fitted.half_width(np.ones(3), 0.9)).all()
    assert fitted.half_width(np.ones(3), 0.8).tolist() == [1.0] * 3


def test_rows_without_a_target_do_not_count_and_none_at_all_give_no_calibration() -> None:
    errors = np.array([1.0, math.nan, 2, 3, math.nan, 4, 5, 6, 7, 8, 9])
    fitted = interval(errors)
    assert fitted.scores[0].count == 9 and fitted.half_width(np.ones(1), 0.9)[0] == 9
    assert IntervalCalibration.fit(np.full(4, math.nan), np.ones(4)) is None
    assert IntervalCalibration.fit(np.zeros(0), np.zeros(0)) is None


def test_the_standard_deviation_is_that_of_the_validation_errors() -> None:
    random = np.random.default_rng(4)
    sigma = random.lognormal(size=500)
    errors = 3.5 * sigma * random.normal(size=500)
    assert np.mean((errors / interval(errors, sigma).std(sigma)) ** 2) == pytest.approx(1, rel=1e-9)


# --- the same as crepes


def test_intervals_are_those_of_crepes() -> None:
    crepes = pytest.importorskip("crepes", reason="crepes, of the extra dev, is not installed")
    random = np.random.default_rng(5)
    sigma, predicted = random.lognormal(size=437), random.normal(size=437)
    errors = sigma * random.normal(size=437)
    cut = 300
    ours = interval(errors[:cut], sigma[:cut])
    bins = np.searchsorted(ours.edges, sigma, side="right")
    theirs = crepes.ConformalRegressor().fit(errors[:cut], sigmas=sigma[:cut], bins=bins[:cut])
    for confidence in (0.51, 0.83, 0.905, 0.96):  # not such that crepes rounds (1 − c)(n + 1) down from a whole number
        bounds = theirs.predict_int(predicted[cut:], sigmas=sigma[cut:], bins=bins[cut:], confidence=confidence)
        half = ours.half_width(sigma[cut:], confidence)
        np.testing.assert_allclose(bounds[:, 0], predicted[cut:] - half, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(bounds[:, 1], predicted[cut:] + half, rtol=1e-12, atol=1e-12)


def test_prediction_sets_are_those_of_crepes() -> None:
    crepes = pytest.importorskip("crepes", reason="crepes, of the extra dev, is not installed")
    random = np.random.default_rng(6)
    logits = random.normal(size=(400, 3)) * 2
    classes = np.array([random.choice(3, p=np.exp(row) / np.exp(row).sum()) for row in logits])
    ours = ClassCalibration.fit(logits[:250], classes[:250])
    assert ours is not None
    missed = 1 - ours.probabilities(logits)
    theirs = crepes.ConformalClassifier().fit(missed[np.arange(250), classes[:250]], bins=classes[:250])
    for confidence in (0.77, 0.905, 0.95):
        sets = np.stack(  # class-conditional: the bin of a class is that class
            [
                theirs.predict_set(missed[250:, [k]], np.full(150, k), confidence=confidence, smoothing=False)[:, 0]
                for k in range(3)
            ],
            axis=1,
        ).astype(bool)
        some = sets.any(1)  # where crepes rules out all classes, ours keep one
        np.testing.assert_array_equal(ours.sets(logits[250:], confidence)[some], sets[some])


# --- classes


def test_the_temperature_that_made_the_labels_is_found() -> None:
    random = np.random.default_rng(7)
    logits = random.normal(size=20_000) * 3
    labels = (random.random(20_000) < 1 / (1 + np.exp(-logits / 2.5))).astype(np.int64)
    assert fit_temperature(two_classes(logits), labels) == pytest.approx(2.5, rel=0.05)


def test_the_temperature_is_bounded_and_one_where_the_rows_cannot_tell() -> None:
    random = np.random.default_rng(8)
    logits = two_classes(random.normal(size=400))
    right = (logits[:, 1] > 0).astype(np.int64)
    assert fit_temperature(logits, np.ones(400, dtype=np.int64)) == 1  # one class
    assert fit_temperature(logits[:9], right[:9]) == 1  # too few
    assert 0.3 < fit_temperature(logits[:12], right[:12]) < 1  # all right, but only twelve
    assert fit_temperature(1e6 * logits, 1 - right) == pytest.approx(10, rel=1e-3)  # all wrong, and sure of it
    assert fit_temperature(logits, right) == pytest.approx(0.2, rel=1e-3)  # all right, of very many


def test_probabilities_keep_the_order_of_rows_and_the_likelihood_does_not_fall() -> None:
    random = np.random.default_rng(9)
    logits = random.normal(size=300) * 4
    labels = (random.random(300) < 1 / (1 + np.exp(-logits / 3))).astype(np.int64)
    fitted = ClassCalibration.fit(two_classes(logits), labels)
    assert fitted is not None
    calibrated = fitted.probabilities(two_classes(logits))[:, 1]
    assert (np.argsort(calibrated, kind="stable") == np.argsort(logits, kind="stable")).all()

    def likelihood(p: Floats) -> float:
        return float(np.log(np.where(labels == 1, p, 1 - p)).mean())

    assert likelihood(calibrated) > likelihood(1 / (1 + np.exp(-logits)))


def test_a_rare_class_is_covered_as_often_as_a_frequent_one() -> None:
    random = np.random.default_rng(10)
    labels = (random.random(6_000) < 0.1).astype(np.int64)
    logits = random.normal(size=6_000) + 2 * labels - 3
    fitted = ClassCalibration.fit(two_classes(logits[:3_000]), labels[:3_000])
    assert fitted is not None
    held = fitted.sets(two_classes(logits[3_000:]), 0.9)
    right = held[np.arange(3_000), labels[3_000:]]
    for one in (0, 1):
        assert abs(right[labels[3_000:] == one].mean() - 0.9) < 0.05


def test_a_set_is_never_empty_and_a_class_without_rows_is_never_ruled_out() -> None:
    logits = np.array([[5.0, 0, -5]] * 30 + [[-5.0, 5, 0]] * 30)
    fitted = ClassCalibration.fit(logits, np.repeat([0, 1], 30))
    assert fitted is not None
    held = fitted.sets(np.array([[0.1, 0.0, -9.0], [9.0, -9.0, -9.0]]), 0.5)
    assert held.tolist() == [[False, False, True], [True, False, True]]
    random = np.random.default_rng(0)
    labels = (random.random(1_000) < 0.1).astype(np.int64)
    z = two_classes(random.normal(size=1_000) + 6 * labels - 3)
    sure = ClassCalibration.fit(z, labels)
    assert sure is not None
    held = sure.sets(z, 0.6)  # much lower than the accuracy: 40 % of the sets would be empty
    assert (held.sum(1) == 1).all() and held[np.arange(1_000), labels].mean() > 0.98


def test_p_values_are_shares_of_scores_that_are_at_least_as_large() -> None:
    scores = SortedScores.of(np.array([1.0, 2, 2, 4]))
    assert scores.p_value(np.array([0.5, 1, 2, 3, 4, 5])).tolist() == [1, 1, 0.8, 0.4, 0.4, 0.2]


def test_unknown_labels_do_not_count() -> None:
    logits = np.array([[1.0, 0], [0, 1], [math.nan, 0], [2, 1]])
    fitted = ClassCalibration.fit(logits, np.array([0, 1, 1, -1]))
    assert fitted is not None
    assert [one.count for one in fitted.scores] == [1, 1]
    assert ClassCalibration.fit(logits, np.full(4, -1)) is None


# --- in a bundle


def test_calibrations_survive_the_round_trip() -> None:
    random = np.random.default_rng(11)
    sigma = random.lognormal(size=5_000)
    before = interval(sigma * random.normal(size=5_000), sigma)
    plain, arrays = before.as_plain()
    after = IntervalCalibration.from_plain(Place(plain, "t"), arrays)
    for confidence in (0.5, 0.9, 0.99):
        assert (after.half_width(sigma, confidence) == before.half_width(sigma, confidence)).all()
    assert (after.std(sigma) == before.std(sigma)).all()
    logits = random.normal(size=(90, 3))
    labels = ClassCalibration.fit(logits, random.integers(0, 3, 90))
    assert labels is not None
    plain, arrays = labels.as_plain()
    again = ClassCalibration.from_plain(Place(plain, "t"), arrays, 3)
    assert (again.sets(logits, 0.8) == labels.sets(logits, 0.8)).all() and again.temperature == labels.temperature


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("edges", [2.0, 1.0]),
        ("edges", []),
        ("factor", -1.0),
        ("factor", None),
        ("counts", [10]),
        ("counts", [2**60] * 4),
    ],
)
def test_a_damaged_section_is_refused(key: str, value: object) -> None:
    random = np.random.default_rng(12)
    plain, arrays = interval(random.normal(size=120), random.uniform(1, 2, 120)).as_plain()
    with pytest.raises(FileFormatError, match="t"):
        IntervalCalibration.from_plain(Place({**plain, key: value}, "t"), arrays)


def test_damaged_scores_are_refused() -> None:
    plain, arrays = interval(np.arange(1.0, 31)).as_plain()
    for wrong in (arrays["scores"][::-1], arrays["scores"][:-1], arrays["scores"].astype(np.float32)):
        with pytest.raises(FileFormatError):
            IntervalCalibration.from_plain(Place(plain, "t"), {"scores": wrong})


def test_coverage_is_over_rows_with_a_target() -> None:
    found = coverage(np.array([True, False, True]), np.array([1.0, 3, 100]), np.array([True, True, False]))
    assert found == (0.5, 2.0, 2)
    assert math.isnan(coverage(np.zeros(2, bool), np.ones(2), np.zeros(2, bool)).coverage)
