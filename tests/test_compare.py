"""Several models on the same data at the same size: widths, runs that are never repeated, records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pointset.datasets.card import Card
from pointset.errors import SpecError
from pointset.paper import comparison
from pointset.paper.comparison import (
    Comparison,
    Contender,
    Training,
    compare,
    count_parameters,
    matched,
)
from pointset.paper.processes import failure_message
from pointset.registry import is_baseline, preset_names
from pointset.reports.comparison_pictures import compose_comparison
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.training.data import load_data
from pointset.training.run import train
from tests.small_training import changed, edge_counts, write_graphs


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Card]:
    recipe = write_graphs(tmp_path_factory.mktemp("data"), edge_counts())
    return recipe, load_data(recipe, progress=False).card


@pytest.mark.parametrize("model", ["pst", "psds", *preset_names("baseline")])
def test_every_model_has_a_width_with_so_many_parameters(model: str, small: tuple[Recipe, Card]) -> None:
    recipe, card = changed(small[0], model__noise=0.1), small[1]
    found = matched(recipe, model, 20_000, card)
    assert abs(count_parameters(found, card) - 20_000) <= 0.15 * 20_000
    assert (found.model.preset, found.model.layers) == (model, 2)
    assert found.model.noise == (0.0 if is_baseline(model) else 0.1)
    assert (found.dataset, found.trainer, found.optimizer, found.seed) == (
        *(recipe.dataset, recipe.trainer, recipe.optimizer, recipe.seed),
    )


def test_the_nearest_width_is_chosen(small: tuple[Recipe, Card]) -> None:
    recipe, card = small
    own = changed(recipe, model__dim=7)
    parameters = count_parameters(own, card)
    assert matched(recipe, "pst", parameters, card) == own
    wider = count_parameters(changed(recipe, model__dim=8), card)
    for asked, width in (((parameters + wider) // 2 - 1, 7), ((parameters + wider) // 2 + 1, 8)):
        assert matched(recipe, "pst", asked, card, tolerance=1.0).model.dim == width


def test_a_number_of_parameters_that_no_width_has(small: tuple[Recipe, Card]) -> None:
    recipe, card = small
    least = count_parameters(changed(recipe, model__dim=1), card)
    with pytest.raises(SpecError, match=rf"pst of 2 layers has {least} parameters at width 1, the nearest to the 5 "):
        matched(recipe, "pst", 5, card)
    with pytest.raises(SpecError, match="did you mean 'psds'"):
        matched(recipe, "psd", 5000, card)
    with pytest.raises(SpecError, match="got parameters=0"):
        matched(recipe, "pst", 0, card)


def test_another_model_does_not_inherit_what_the_paper_says_of_this_one(small: tuple[Recipe, Card]) -> None:
    recipe, card = small
    recipe = changed(recipe, expected={"metric": "mae", "value": 0.1}, title="with PST")
    assert matched(recipe, "pst", 20_000, card).expected == recipe.expected
    other = matched(recipe, "gin", 20_000, card)
    assert (other.expected, other.title, other.name) == (None, "", "small-gin")


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs are trained here, not in a process of their own; the names of the runs that were trained."""
    done: list[str] = []

    def here(recipe: Recipe, folder: Path, data_dir: Any, device: str, watch: str) -> tuple[dict[str, Any] | None, str]:
        if not RunFolder(folder).is_finished:
            done.append(f"{folder.parent.name}/{folder.name}")
        try:
            return train(recipe, folder, resume=True, data_dir=data_dir, device="cpu", watch="quiet"), ""
        except Exception as error:
            return None, failure_message(error)

    monkeypatch.setattr(comparison, "trained_alone", here)
    return done


def test_a_comparison_goes_on_and_trains_nothing_twice(
    small: tuple[Recipe, Card], tmp_path: Path, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = changed(small[0], trainer__epochs=2)

    def stop(*_: Any) -> tuple[None, str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        really = comparison.trained_alone
        patch.setattr(
            comparison, "trained_alone", lambda *run: stop() if run[1].parent.name == "psds" else really(*run)
        )
        with pytest.raises(KeyboardInterrupt):
            compare(recipe, ["pst", "psds"], tmp_path, parameters=5000, watch="quiet")
    before = json.loads((tmp_path / "comparison.json").read_text())["contenders"]
    assert [len(one["runs"]) for one in before] == [1, 0]
    with pytest.raises(SpecError, match=r"holds runs already \(pst/seed-0, …\); resume them with --resume"):
        compare(recipe, ["pst", "psds"], tmp_path, parameters=5000, watch="quiet")
    other = changed(recipe, trainer__epochs=3)
    with pytest.raises(SpecError, match=r"started with other settings:\n  trainer.epochs: 2 → 3"):
        compare(other, ["psds", "pst"], tmp_path, parameters=5000, resume=True, watch="quiet")

    found = compare(recipe, ["pst", "psds"], tmp_path, parameters=5000, resume=True, watch="quiet")
    assert trainings == ["pst/seed-0", "psds/seed-0"]
    content = json.loads((tmp_path / "comparison.json").read_text())
    assert content == json.loads(json.dumps(found.as_dict())) and not found.failed
    assert content["contenders"][0]["runs"] == before[0]["runs"]
    for one in found.contenders:
        (run,) = one.runs
        result = json.loads((tmp_path / run.run / "result.json").read_text())
        assert (run.test, run.best_epoch, one.parameters) == tuple(
            result[key] for key in ("test", "best_epoch", "parameters")
        )
        assert [epoch for epoch, _ in run.curve] == [1, 2]
        assert dict(run.curve)[run.best_epoch] == pytest.approx(run.val["mae"], rel=1e-6)
        assert run.seconds_per_epoch is not None and 0 < run.seconds_per_epoch <= run.seconds
    assert found.best is min(found.contenders, key=lambda one: one.runs[0].test["mae"] or 0)


def test_a_model_that_fails_is_in_the_record_and_the_others_are_trained(
    small: tuple[Recipe, Card], tmp_path: Path, trainings: list[str]
) -> None:
    recipe = changed(small[0], trainer__epochs=1)
    found = compare(recipe, ["pst-star", "pst-gc"], tmp_path, seeds=2, watch="quiet")
    assert trainings == ["pst-star/seed-0", "pst-gc/seed-0", "pst-gc/seed-1"]
    broken, whole = found.contenders
    assert "no pos" in broken.failure and not broken.runs and found.failed == [broken]
    mean, std = whole.score("test", "mae")
    values = [run.test["mae"] for run in whole.runs]
    assert None not in values and mean == pytest.approx(sum(values) / 2)  # type: ignore[arg-type]
    assert std == pytest.approx(abs(values[0] - values[1]) / 2**0.5)  # type: ignore[operator]
    assert found.best is whole and found.parameters == count_parameters(changed(recipe, trainer__threads=1), small[1])


def training(seed: int, test: float | None, curve: tuple[tuple[int, float], ...] = ()) -> Training:
    scores = {"accuracy": test}
    return Training(f"m/seed-{seed}", seed, scores, scores, {}, 1, 2, 3.0, 1.0, 9.0, 10**8 + seed, curve)


def test_the_best_has_a_score_for_every_seed_and_curves_are_medians() -> None:
    curves = [((1, 0.1), (2, 0.2)), ((1, 0.3), (2, 0.9), (3, 0.5)), ((1, 0.2),)]
    steady = Contender("a", 8, 2, 100, tuple(training(seed, 0.5, curve) for seed, curve in enumerate(curves)))
    lucky = Contender("b", 8, 2, 100, (training(0, 0.9),), "the loss became nan")
    third = Contender("c", 8, 2, 100, tuple(training(seed, 0.4) for seed in range(3)))
    found = Comparison("r", "t", "accuracy", True, 100, 0.15, 3, 3, (third, lucky, steady))
    assert found.best is steady and found.failed == [lucky]
    assert steady.median_curve() == [(1, 0.2), (2, pytest.approx(0.55)), (3, 0.5)]
    assert steady.peak_memory_bytes == 10**8 + 2 and steady.seconds == 9.0
    plain = found.as_dict()
    assert [one["is_best"] for one in plain["contenders"]] == [False, False, True]
    assert [one["test_mean"] for one in plain["contenders"]] == [pytest.approx(0.4), 0.9, 0.5]
    figure = compose_comparison(plain)
    texts = [text.get_text() for text in figure.texts]
    assert texts.index("a") < texts.index("c") < texts.index("b") and "failed" in texts
    assert [text.get_text() for text in figure.texts if text.get_fontweight() == "bold"] == ["t", "a", "0.5 ± 0"]
    assert [np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].lines] == [[0.2, pytest.approx(0.55), 0.5]]
