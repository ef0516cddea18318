"""Intervals, sets and the domain of whole models: what is fitted, answered, reported and kept in a bundle."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.errors import FileFormatError, SpecError
from pointset.training import bundle
from pointset.training.bundle import Place, read_bundle, write_bundle
from pointset.training.domain import Domain
from pointset.training.outputs import cells
from pointset.training.uncertainty import Seen, Uncertainty
from tests.small_models import model_of

CLASSES = ("red", "green", "blue")


def card_for(task: Task, targets: int = 2) -> Card:
    names = ("a", "b")[: 1 if task is Task.MULTI_CLASS else targets]
    metric = {Task.REGRESSION: Metric.MAE, Task.MULTI_CLASS: Metric.ACCURACY}.get(task, Metric.ROC_AUC)
    classes = CLASSES if task is Task.MULTI_CLASS else ()
    return Card("made up", "", "", Level.GRAPH, task, tuple(map(Target, names)), metric, "", classes=classes)


class Made:
    """Rows whose errors grow with their representation's first number, which is what neighbours share."""

    def __init__(self, task: Task, rows: int, seed: int, *, members: int = 1, missing: bool = True):
        random = np.random.default_rng(seed)
        self.hidden = random.uniform(0, 1, (rows, 1))
        width = len(CLASSES) if task is Task.MULTI_CLASS else 2
        truth = random.normal(size=(rows, width)) * 2
        noise = random.normal(size=(members, rows, width)) * (0.1 + 2 * self.hidden)
        packed = np.packbits(random.random((rows, 2048)) < 0.03, axis=1)
        representations = np.concatenate([self.hidden, 0.01 * random.normal(size=(rows, 3))], axis=1)
        self.seen = Seen(
            torch.from_numpy(truth + noise), random.integers(4, 9, rows), representations.astype(np.float32), packed
        )
        if task is Task.REGRESSION:
            y = truth
        elif task is Task.MULTI_CLASS:
            y = np.array([random.choice(3, p=np.exp(row) / np.exp(row).sum()) for row in truth])
        else:
            y = (random.random((rows, 2)) < 1 / (1 + np.exp(-truth))).astype(np.float64)
        if missing and task is not Task.MULTI_CLASS:
            y[::5, 1] = math.nan
        self.targets: Tensor = torch.from_numpy(y)


def fitted(task: Task, *, members: int = 1, domain: bool = True, val: int = 200) -> Uncertainty:
    known, held_out = Made(task, 300, 0, members=members), Made(task, val, 1, members=members)
    near = None
    if domain:
        assert known.seen.representations is not None
        near = Domain.fit(known.seen.num_nodes, known.seen.representations, known.seen.fingerprints)
    return Uncertainty.fit(card_for(task), held_out.seen, held_out.targets, known.seen.members, known.targets, near)


TASKS = [Task.REGRESSION, Task.BINARY, Task.MULTI_CLASS]


def test_intervals_of_a_regression_are_wide_where_errors_of_neighbours_are_large() -> None:
    uncertainty, test = fitted(Task.REGRESSION), Made(Task.REGRESSION, 1_000, 2, missing=False)
    answers = uncertainty(test.seen, 0.9)
    assert answers.lower is not None and answers.upper is not None and answers.std is not None
    width = answers.upper - answers.lower
    hard = test.hidden[:, 0] > 0.5
    assert width[hard].mean() > 1.5 * width[~hard].mean()
    truth = test.targets.numpy()
    for rows in (hard, ~hard):
        inside = ((truth >= answers.lower) & (truth <= answers.upper))[rows]
        assert abs(inside.mean() - 0.9) < 0.06
    errors = truth - answers.predictions
    assert np.mean((errors / answers.std) ** 2) == pytest.approx(1, rel=0.35)


def test_the_spread_of_members_is_a_measure_of_difficulty() -> None:
    """Without a domain the members alone tell hard rows from easy ones."""
    uncertainty = fitted(Task.REGRESSION, members=5, domain=False)
    test = Made(Task.REGRESSION, 600, 3, members=5)
    answers = uncertainty(test.seen)
    assert answers.lower is not None and answers.upper is not None and answers.in_domain is None
    width, hard = (answers.upper - answers.lower)[:, 0], test.hidden[:, 0] > 0.5
    assert width[hard].mean() > 1.3 * width[~hard].mean()
    np.testing.assert_allclose(answers.predictions, test.seen.members.mean(0).numpy())


@pytest.mark.parametrize("task", [Task.BINARY, Task.MULTI_CLASS])
@pytest.mark.parametrize("members", [1, 4])
def test_sets_hold_the_class_as_often_as_they_promise(task: Task, members: int) -> None:
    uncertainty, test = fitted(task, members=members, val=600), Made(task, 2_000, 4, members=members, missing=False)
    answers = uncertainty(test.seen, 0.8)
    assert answers.lower is None and answers.sets is not None and (answers.std is None) is (members == 1)
    report = uncertainty.report(answers, test.targets, 0.8, None)
    for found in report["calibration"]["per_target"].values():
        assert abs(found["coverage"] - 0.8) < 0.06 and found["rows"] == 2_000
    wanted = [
        f"{kind}_{name}" for name in uncertainty.card.target_names for kind in ("set", "std")[: 1 + (members > 1)]
    ]
    assert [column.name for column in uncertainty.columns()] == [*wanted, "similarity", "in_domain"]


def test_probabilities_of_a_model_that_is_too_sure_come_down() -> None:
    made = Made(Task.BINARY, 800, 5, missing=False)
    sure = made.seen._replace(members=made.seen.members * 6)
    uncertainty = Uncertainty.fit(card_for(Task.BINARY), sure, made.targets, sure.members, made.targets, None)
    calibrated, labels = uncertainty(sure).predictions, made.targets.numpy()
    plain = torch.sigmoid(sure.members[0]).numpy()
    assert np.mean((calibrated - labels) ** 2) < np.mean((plain - labels) ** 2)
    assert ((calibrated > 0.5) == (plain > 0.5)).all()


def test_columns_are_texts_of_their_numbers() -> None:
    uncertainty, test = fitted(Task.REGRESSION), Made(Task.REGRESSION, 3, 6)
    columns, answers = uncertainty.columns(), uncertainty(test.seen)
    assert [column.name for column in columns] == [
        "lower_a", "upper_a", "std_a", "lower_b", "upper_b", "std_b", "similarity", "in_domain",
    ]  # fmt: skip
    texts = cells(columns, uncertainty.numbers(answers)[0].tolist())
    assert answers.lower is not None and texts[0] == f"{answers.lower[0, 0]:.6g}" and texts[-1] in ("yes", "no")
    labels = fitted(Task.BINARY)
    row = labels.numbers(labels(Made(Task.BINARY, 1, 7).seen))[0].tolist()
    assert all(text in ("0", "1", "0|1") for text in cells(labels.columns(), row)[:2])


def test_too_few_validation_rows_give_empty_cells_and_a_line_that_says_so() -> None:
    uncertainty = fitted(Task.REGRESSION, val=10)  # of target b two are missing
    answers = uncertainty(Made(Task.REGRESSION, 4, 8).seen, 0.9)
    assert answers.lower is not None and answers.std is not None
    assert np.isfinite(answers.lower[:, 0]).all() and np.isnan(answers.lower[:, 1]).all()
    assert np.isfinite(answers.std).all()
    said = uncertainty.too_few(0.9)
    assert said is not None and "b (8)" in said and "a (" not in said and "at least 9" in said
    assert uncertainty.too_few(0.8) is None
    assert cells(uncertainty.columns(), uncertainty.numbers(answers)[0].tolist())[3:5] == ["", ""]


def test_no_validation_part_gives_predictions_without_intervals() -> None:
    for task in TASKS:
        uncertainty = fitted(task, val=0)
        answers = uncertainty(Made(task, 4, 9).seen)
        assert np.isfinite(answers.predictions).all() and answers.in_domain is not None
        if answers.sets is not None:
            assert answers.sets.all()  # nothing can be ruled out
        report = uncertainty.report(answers, Made(task, 4, 9).targets, 0.9, None)
        assert set(report) == {"calibration", "domain"}


def test_a_graph_without_fingerprint_is_judged_by_the_rest() -> None:
    uncertainty, test = fitted(Task.REGRESSION), Made(Task.REGRESSION, 5, 10)
    answers = uncertainty(test.seen._replace(fingerprints=None))
    assert answers.similarity is not None and np.isnan(answers.similarity).all()
    assert answers.lower is not None and np.isfinite(answers.lower).all() and answers.in_domain is not None


def test_the_report_counts_coverage_by_similarity() -> None:
    uncertainty, test = fitted(Task.REGRESSION), Made(Task.REGRESSION, 400, 11)
    answers = uncertainty(test.seen, 0.9)
    report = uncertainty.report(answers, test.targets, 0.9, np.array([1.0, 1.0]))
    calibration = report["calibration"]
    assert calibration["per_target"]["a"]["rows"] == 400 and calibration["per_target"]["b"]["rows"] == 320
    assert sum(one["rows"] for one in calibration["by_similarity"]) == 400
    known = ~np.isnan(test.targets.numpy())
    assert answers.lower is not None and answers.upper is not None
    inside = (test.targets.numpy() >= answers.lower) & (test.targets.numpy() <= answers.upper)
    total = sum(one["coverage"] * one["rows"] for one in calibration["by_similarity"]) / 400
    assert total == pytest.approx(inside[known].mean(), abs=0.02)
    assert report["domain"]["references"] == 300 and 0 <= report["domain"]["test_in_domain"] <= 1


def test_a_wrong_confidence_is_refused() -> None:
    with pytest.raises(SpecError, match="between 0 and 1"):
        fitted(Task.REGRESSION, domain=False)(Made(Task.REGRESSION, 2, 0).seen, 90)


# --- in a bundle


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("members", [1, 3])
def test_answers_are_the_same_after_the_round_trip(task: Task, members: int) -> None:
    before = fitted(task, members=members)
    plain, arrays = before.as_plain()
    text = json.loads(json.dumps(plain, allow_nan=False))
    after = Uncertainty.from_plain(Place(text, ""), arrays, before.card, members, 4)
    test = Made(task, 50, 12, members=members)
    for confidence in (0.5, 0.9):
        first, second = before(test.seen, confidence), after(test.seen, confidence)
        np.testing.assert_array_equal(before.numbers(first), after.numbers(second))
        np.testing.assert_array_equal(first.predictions, second.predictions)


def small(task: Task = Task.REGRESSION) -> tuple[Any, Uncertainty]:
    """A model, and what was fitted for representations of its width."""
    model = model_of(card_for(task))
    channels = model.readout.linear.in_features
    known, val = Made(task, 60, 0), Made(task, 60, 1)
    representations = np.random.default_rng(0).normal(size=(60, channels)).astype(np.float32)
    domain = Domain.fit(known.seen.num_nodes, representations, known.seen.fingerprints)
    seen = val.seen._replace(representations=representations)
    return model, Uncertainty.fit(card_for(task), seen, val.targets, known.seen.members, known.targets, domain)


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_a_bundle_keeps_it(tmp_path: Path, name: str) -> None:
    model, uncertainty = small()
    write_bundle(tmp_path / name, model, uncertainty.card, uncertainty=uncertainty)
    again = read_bundle(tmp_path / name).uncertainty
    assert again is not None and again.domain is not None and uncertainty.domain is not None
    assert again.domain.largest_distance == uncertainty.domain.largest_distance
    write_bundle(tmp_path / name, model, uncertainty.card)
    assert read_bundle(tmp_path / name).uncertainty is None


def test_damage_is_refused(tmp_path: Path) -> None:
    model, uncertainty = small()
    path = tmp_path / "model"
    write_bundle(path, model, uncertainty.card, uncertainty=uncertainty)
    arrays = path / "uncertainty.safetensors"
    whole = arrays.read_bytes()
    for wrong in (whole[:-8], whole[:-1] + b"x", b""):
        arrays.write_bytes(wrong)
        with pytest.raises(FileFormatError, match=r"uncertainty\.safetensors does not match its checksum"):
            read_bundle(path)
    arrays.write_bytes(whole)

    def forged(*keys: Any, value: Any) -> None:
        """As someone would who knows how checksums are made."""
        write_bundle(path, model, uncertainty.card, uncertainty=uncertainty)
        content = json.loads((path / "bundle.json").read_text())
        place = content
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        content["sha256"] = bundle._digest(content)
        (path / "bundle.json").write_text(json.dumps(content))

    for keys, value in (
        (("calibration", "targets"), []),
        (("calibration", "difficulty", 0, "floor"), 0),
        (("calibration", "targets", 0, "counts"), [1]),
        (("domain",), None),
        (("domain", "largest_distance"), "far"),
        (("uncertainty", "file"), "../weights"),
    ):
        forged(*keys, value=value)
        with pytest.raises(FileFormatError):
            read_bundle(path)
