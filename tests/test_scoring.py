"""Every metric gives scikit-learn's number, whatever is missing, tied or of one class only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as reference  # type: ignore[import-untyped]

from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.dataset import TargetScale
from pointset.errors import SpecError
from pointset.metrics import higher_is_better, metric_named, metric_names
from pointset.training import scoring
from pointset.training.scoring import Scores, check_metric, score, score_with_intervals

NAN = math.nan
Floats = NDArray[np.float64]


def card(task: Task, targets: int = 1, classes: int = 0, metric: Metric = Metric.MAE) -> Card:
    return Card(
        name="made up",
        title="Made up",
        description="",
        level=Level.GRAPH,
        task=task,
        targets=tuple(Target(f"t{column}") for column in range(targets)),
        metric=metric,
        split="",
        classes=tuple(f"class {index}" for index in range(classes)),
    )


def scored(predictions: Any, targets: Any, of: Card, scale: TargetScale | None = None) -> Scores:
    return score(torch.as_tensor(predictions), torch.as_tensor(targets), of, scale)


def same(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(got) and math.isnan(expected))


def mean_of_defined(values: list[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else NAN


@st.composite
def tables(draw: st.DrawFn, labels: bool) -> tuple[Floats, Floats]:
    """Predictions and targets (rows, k): missing targets, ties among the predictions, columns that never vary."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(0, 40)), draw(st.integers(1, 4))
    offset, spread = draw(st.sampled_from([0.0, -11_000.0])), draw(st.sampled_from([1e-6, 1.0, 1e3]))
    predictions = generator.normal(size=shape)
    if draw(st.booleans()):
        predictions = predictions.round(draw(st.integers(0, 1)))  # many ties
    if labels:
        targets = (generator.random(shape) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))).astype(np.float64)
        predictions *= draw(st.sampled_from([1.0, 100.0]))  # sigmoid(100) = sigmoid(200) in float64
    else:
        targets = (predictions + generator.normal(size=shape) * draw(st.sampled_from([1e-5, 1.0]))) * spread + offset
        predictions = predictions * spread + offset
        targets[:, generator.random(shape[1]) < 0.2] = 0.1
    targets[generator.random(shape) < draw(st.sampled_from([0.0, 0.3, 0.9]))] = NAN
    return predictions, targets


def r2_or_nan(y: Floats, predicted: Floats) -> float:
    return NAN if len(set(y)) < 2 else float(reference.r2_score(y, predicted))


def of_both_classes(metric: Callable[[Floats, Floats], float]) -> Callable[[Floats, Floats], float]:
    return lambda y, predicted: NAN if len(set(y)) < 2 else float(metric(y, predicted))


VALUE_METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "mae": reference.mean_absolute_error,
    "rmse": reference.root_mean_squared_error,
    "r2": r2_or_nan,
}
LABEL_METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "roc_auc": of_both_classes(reference.roc_auc_score),
    "average_precision": of_both_classes(reference.average_precision_score),
    "accuracy": lambda y, predicted: float(reference.accuracy_score(y, predicted > 0)),
}


def compare_columns(
    got: Scores, predictions: Floats, targets: Floats, metrics: dict[str, Callable[[Floats, Floats], float]]
) -> None:
    for name, metric in metrics.items():
        values = []
        for column in range(targets.shape[1]):
            known = ~np.isnan(targets[:, column])
            y, predicted = targets[known, column], predictions[known, column]
            values.append(metric(y, predicted) if known.any() else NAN)
            assert same(got.per_target[f"t{column}"][name], values[-1]), (name, column)
        assert same(got.overall[name], mean_of_defined(values)), name


@given(tables(labels=False))
def test_regression_scores_are_those_of_scikit_learn(table: tuple[Floats, Floats]) -> None:
    predictions, targets = table
    scale = TargetScale.of(torch.tensor(targets))
    got = scored(predictions, targets, card(Task.REGRESSION, targets.shape[1]), scale)
    compare_columns(got, predictions, targets, VALUE_METRICS)
    normalised = [got.per_target[f"t{column}"]["mae"] / float(std) for column, std in enumerate(scale.std)]
    assert same(got.overall["normalised_mae"], mean_of_defined(normalised))
    assert list(got.overall) == list(metric_names(Task.REGRESSION))


@given(tables(labels=True), st.booleans())
def test_label_scores_are_those_of_scikit_learn(table: tuple[Floats, Floats], one: bool) -> None:
    predictions, targets = (part[:, :1] for part in table) if one else table
    task = Task.BINARY if one else Task.MULTI_LABEL
    got = scored(predictions, targets, card(task, targets.shape[1]))
    compare_columns(got, predictions, targets, LABEL_METRICS)
    assert set(got.overall) == set(metric_names(task))


@given(st.integers(0, 60), st.integers(2, 7), st.booleans(), st.integers(0, 2**32 - 1))
def test_class_scores_are_those_of_scikit_learn(rows: int, classes: int, rounded: bool, seed: int) -> None:
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, classes))
    logits = logits.round() if rounded else logits
    targets = generator.integers(-1, max(classes - 2, 1), size=rows)  # -1 is missing, the last classes never occur
    got = scored(logits, targets, card(Task.MULTI_CLASS, classes=classes))
    y, predicted = targets[targets >= 0], logits[targets >= 0].argmax(1)
    expected = [NAN, NAN]
    if len(y):
        expected = [reference.accuracy_score(y, predicted), reference.f1_score(y, predicted, average="macro")]
    assert same(got.overall["accuracy"], expected[0]) and same(got.overall["macro_f1"], expected[1])
    assert got.per_target.keys() == {"t0"} and set(got.overall) == set(metric_names(Task.MULTI_CLASS))


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_many_rows_keep_all_digits(seed: int) -> None:
    generator = np.random.default_rng(seed)
    targets = (generator.random((100_000, 1)) < 0.03).astype(np.float64)
    logits = generator.normal(size=targets.shape) + targets
    got = scored(logits, targets, card(Task.BINARY)).overall
    assert got["roc_auc"] == pytest.approx(reference.roc_auc_score(targets, logits), rel=1e-12)
    assert got["average_precision"] == pytest.approx(reference.average_precision_score(targets, logits), rel=1e-12)


def test_a_perfect_model_has_perfect_scores() -> None:
    labels = torch.arange(49, dtype=torch.float64).fmod(7).eq(0).double().unsqueeze(1)
    assert set(scored(1000 * labels - 1, labels, card(Task.BINARY)).overall.values()) == {1.0}
    values = torch.linspace(-1e-7, 1e-7, 9, dtype=torch.float64).unsqueeze(1)
    got = scored(values, values, card(Task.REGRESSION), TargetScale.of(values)).overall
    assert got == {"mae": 0, "rmse": 0, "r2": 1, "normalised_mae": 0}


def test_a_small_table_by_hand() -> None:
    """Errors 1 and 3 in the first target; one row of the second is known, with an error of 0.5."""
    predictions, targets = [[1.0, 0.5], [5.0, 9.0]], [[2.0, 1.0], [8.0, NAN]]
    scale = TargetScale(torch.zeros(2).double(), torch.tensor([4.0, 2.0]).double())
    got = scored(predictions, targets, card(Task.REGRESSION, 2), scale)
    assert got.per_target["t0"] == {
        "mae": 2,
        "rmse": pytest.approx(5**0.5, rel=1e-15),
        "r2": pytest.approx(1 - 10 / 18),
        "normalised_mae": 0.5,
    }
    assert math.isnan(got.per_target["t1"]["r2"])
    assert got.overall["mae"] == 1.25 and got.overall["rmse"] == pytest.approx((5**0.5 + 0.5) / 2)
    assert got.overall["normalised_mae"] == (0.5 + 0.25) / 2 and got.overall["r2"] == got.per_target["t0"]["r2"]


def test_a_label_of_one_class_counts_for_accuracy_only() -> None:
    targets = [[1.0, 1.0], [0.0, 1.0], [NAN, 1.0]]
    got = scored([[1.0, 1.0], [-1.0, -1.0], [5.0, 1.0]], targets, card(Task.MULTI_LABEL, 2))
    assert math.isnan(got.per_target["t1"]["roc_auc"]) and math.isnan(got.per_target["t1"]["average_precision"])
    assert got.overall["roc_auc"] == got.overall["average_precision"] == 1
    assert got.overall["accuracy"] == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize("task", list(Task), ids=lambda task: task.name)
def test_predictions_that_are_nan_have_no_score(task: Task) -> None:
    classes = task is Task.MULTI_CLASS
    targets = torch.tensor([0, 1, 0]) if classes else torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    predictions = torch.tensor([[1.0, 0.5], [NAN, 0.2], [0.3, 0.1]])
    got = scored(predictions, targets, card(task, 1 if classes else 2, 2 if classes else 0))
    assert all(math.isnan(value) for value in got.overall.values())


def test_what_is_not_known_may_be_nan() -> None:
    got = scored([[NAN], [1.0], [2.0]], [[NAN], [1.0], [4.0]], card(Task.REGRESSION))
    assert got.overall["mae"] == 1 and math.isnan(got.overall["normalised_mae"])


def test_the_inputs_stay_as_they_are() -> None:
    predictions, targets = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.ones(6, 2)
    before = predictions.clone(), targets.clone()
    score(predictions, targets, card(Task.MULTI_LABEL, 2), None)
    assert torch.equal(predictions, before[0]) and torch.equal(targets, before[1])


@pytest.mark.parametrize(
    ("predictions", "targets", "of", "message"),
    [
        (torch.zeros(4, 1), torch.zeros(4), card(Task.REGRESSION), r"\(4, 1\) for targets of shape \(4,\); expected"),
        (torch.zeros(4, 2), torch.zeros(4, 1), card(Task.REGRESSION), "with 1 targets"),
        (torch.zeros(4, 3), torch.zeros(4, 3), card(Task.MULTI_CLASS, classes=3), r"\(rows,\) with 3 classes"),
        (torch.zeros(4, 2), torch.full((4,), 2), card(Task.MULTI_CLASS, classes=2), "whole numbers below 2"),
        (torch.zeros(4, 1), torch.full((4, 1), 2.0), card(Task.BINARY), "labels other than 0 and 1"),
    ],
    ids=["flat", "width", "classes", "class", "labels"],
)
def test_wrong_shapes_are_refused(predictions: torch.Tensor, targets: torch.Tensor, of: Card, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        score(predictions, targets, of, None)


def test_a_scale_of_other_targets_is_refused() -> None:
    with pytest.raises(SpecError, match="scale of 2 targets; expected one of 1"):
        score(torch.zeros(3, 1), torch.zeros(3, 1), card(Task.REGRESSION), TargetScale.of(torch.zeros(3, 2)))


def test_the_metric_that_chooses_fits_the_task() -> None:
    assert check_metric(None, card(Task.REGRESSION)) == "mae"
    assert check_metric("r2", card(Task.REGRESSION)) == "r2"
    with pytest.raises(SpecError, match=r"'mea' for regression .*mae, rmse, r2, normalised_mae; did you mean 'mae'\?"):
        check_metric("mea", card(Task.REGRESSION))
    with pytest.raises(SpecError, match="expected one of accuracy, macro_f1"):
        check_metric("roc_auc", card(Task.MULTI_CLASS, classes=3))


def test_the_direction_of_metrics() -> None:
    assert [name for name in metric_names(Task.REGRESSION) if higher_is_better(name)] == ["r2"]
    assert all(higher_is_better(name) for task in list(Task)[1:] for name in metric_names(task))
    assert all(higher_is_better(metric.value) is metric.higher_is_better for metric in Metric)
    with pytest.raises(SpecError, match="did you mean 'accuracy'"):
        metric_named("acuracy")


def bootstrap(predictions: Floats, targets: Floats, of: Card, scale: TargetScale | None, groups: Any) -> dict[str, Any]:
    """The slow and obvious way: draw rows, score the drawn table, take the quantiles."""
    found: dict[str, list[float]] = {metric: [] for metric in metric_names(of.task)}
    for times in scoring._resamples(int(max(groups)) + 1):
        for one in times.astype(int):
            rows = np.repeat(np.arange(len(targets)), one[groups])
            for metric, value in scored(predictions[rows], targets[rows], of, scale).overall.items():
                found[metric].append(value)
    defined = {metric: [value for value in values if not math.isnan(value)] for metric, values in found.items()}
    return {metric: np.quantile(values, [0.025, 0.975]) for metric, values in defined.items() if values}


@pytest.mark.parametrize("task", list(Task), ids=lambda task: task.name)
@pytest.mark.parametrize("together", [1, 3], ids=["rows", "groups of rows"])
def test_intervals_are_those_of_drawing_rows_again(task: Task, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_RESAMPLES", 60)
    monkeypatch.setattr(scoring, "_DRAWS_AT_ONCE", 700)  # several batches
    generator = np.random.default_rng(int(together))
    columns = {Task.MULTI_CLASS: 4, Task.BINARY: 1}.get(task, 2)
    predictions = generator.normal(size=(36, columns)).round(1)  # with ties
    if task is Task.MULTI_CLASS:
        targets: Any = generator.integers(-1, 3, size=36)
        predictions[np.arange(36), targets] += 1.0
    elif task is Task.REGRESSION:
        targets = predictions + generator.normal(size=predictions.shape) - 500
    else:
        targets = (generator.random(predictions.shape) < 0.2 + 0.4 * (predictions > 0)).astype(np.float64)
    if task is not Task.MULTI_CLASS:
        targets[generator.random(targets.shape) < 0.2] = NAN
    of = card(task, 1 if task is Task.MULTI_CLASS else columns, columns if task is Task.MULTI_CLASS else 0)
    scale = TargetScale.of(torch.tensor(targets)) if task is Task.REGRESSION else None
    groups = np.arange(36) // together
    given = torch.tensor(predictions), torch.tensor(targets)
    got = score_with_intervals(*given, of, scale, groups=groups if together > 1 else None)
    expected = bootstrap(predictions, targets, of, scale, groups)
    assert set(got) == set(metric_names(task)) == set(expected)
    for metric, (lower, upper) in expected.items():
        assert same(got[metric].value, score(*given, of, scale).overall[metric])
        assert same(got[metric].lower, lower) and same(got[metric].upper, upper), metric
        if not metric.startswith("hits"):  # of so few pairs nearly all links are above the twentieth
            assert got[metric].lower < got[metric].value < got[metric].upper
    assert got == score_with_intervals(*given, of, scale, groups=groups)


def test_the_interval_of_a_mean_is_the_usual_one() -> None:
    """Of many rows the MAE is a mean, whose interval is ± 1.96 standard errors."""
    errors = torch.tensor(np.random.default_rng(0).exponential(size=(4000, 1)))
    got = score_with_intervals(errors, torch.zeros(4000, 1), card(Task.REGRESSION), None)["mae"]
    half = 1.96 * float(errors.std()) / 4000**0.5
    assert got.upper - got.value == pytest.approx(half, rel=0.1)
    assert got.value - got.lower == pytest.approx(half, rel=0.1)


def test_scores_without_an_interval() -> None:
    few = score_with_intervals(torch.zeros(4, 1), torch.ones(4, 1), card(Task.REGRESSION), None)
    assert few["mae"].value == 1 and math.isnan(few["mae"].lower) and math.isnan(few["mae"].upper)
    labels = torch.ones(40, 1)
    got = score_with_intervals(torch.randn(40, 1), labels, card(Task.BINARY), None)
    assert math.isnan(got["roc_auc"].lower) and not math.isnan(got["accuracy"].lower)
    broken = score_with_intervals(torch.full((40, 1), NAN), labels, card(Task.BINARY), None)
    assert all(math.isnan(number) for interval in broken.values() for number in interval)
    nothing = score_with_intervals(torch.zeros(0, 1), torch.zeros(0, 1), card(Task.REGRESSION), None)
    assert all(math.isnan(number) for interval in nothing.values() for number in interval)
    constant = score_with_intervals(torch.zeros(9, 1), torch.full((9, 1), 0.1), card(Task.REGRESSION), None)
    assert math.isnan(constant["r2"].lower) and constant["mae"].upper == pytest.approx(0.1)
