"""Training under hostile circumstances: each ends with one clear message, and nothing goes on with what changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pointset.errors import FileFormatError, MemoryForecastError, PointsetError, SpecError
from pointset.files import read_json, write_json
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.training.checkpoint import ProgressRecord
from pointset.training.loop import TrainingLoop
from pointset.training.run import train
from tests.small_training import changed, edge_counts, write_graphs


def run(recipe: Recipe, folder: Path, **options: Any) -> dict[str, Any]:
    return train(recipe, folder, device="cpu", watch="quiet", **options)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return write_graphs(tmp_path / "data", edge_counts())


@pytest.fixture
def half(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that died after its first epoch."""
    ended = TrainingLoop._end_epoch

    def die(fitting: TrainingLoop) -> None:
        ended(fitting)
        fitting.save()
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "_end_epoch", die)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "run")
    monkeypatch.undo()
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("before", "after"),
    [("lr: 0.005", "lr: 0.5"), ("seed: 0", "seed: 9"), ("batch_size: 8", "batch_size: 16"), ("dim: 8", "dim: 16")],
    ids=["learning rate", "seed", "batch size", "width"],
)
def test_an_edited_recipe_is_not_resumed(half: Path, before: str, after: str) -> None:
    file = half / "recipe.yaml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    with pytest.raises(SpecError, match="was edited after the run had started"):
        run(read_recipe(file), half, resume=True)


def test_weights_of_another_model_are_named(half: Path, recipe: Recipe) -> None:
    environment = read_json(half / "environment.json")
    write_json(half / "environment.json", {key: environment[key] for key in environment if key != "recipe_sha256"})
    other = changed(recipe, model__dim=16)
    (half / "recipe.yaml").write_text(other.as_yaml())
    with pytest.raises(SpecError, match="weights of another model"):
        run(other, half, resume=True)


def _edit_targets(data: Path) -> None:
    file = data / "targets.csv"
    file.write_text(file.read_text().replace("\n3,", "\n3,9"))


def _drop_graphs(data: Path) -> None:
    for name in ("graphs.g6", "targets.csv"):
        lines = (data / name).read_text().splitlines(keepends=True)
        (data / name).write_text("".join(lines[:-5]))


@pytest.mark.parametrize("change", [_edit_targets, _drop_graphs], ids=["targets", "graphs"])
def test_changed_data_is_not_resumed(half: Path, recipe: Recipe, change: Callable[[Path], None]) -> None:
    change(half.parent / "data")
    with pytest.raises(SpecError, match="changed after the run had started"):
        run(recipe, half, resume=True)


def test_another_split_is_not_resumed(half: Path, recipe: Recipe) -> None:
    split = read_json(half / "split.json")
    split["train"], split["test"] = split["test"], split["train"]
    write_json(half / "split.json", split)
    with pytest.raises(SpecError, match="split differently"):
        run(recipe, half, resume=True)


def test_what_did_not_change_is_resumed(half: Path, recipe: Recipe) -> None:
    assert run(recipe, half, resume=True)["epochs"] == 2


@pytest.mark.parametrize(
    "wrong", [{"epoch": -5}, {"epoch": "x"}, {"best_value": "x"}, {"loss_sum": None}, {"batch": 1.5}], ids=str
)
def test_damaged_progress_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match=next(iter(wrong))):
        ProgressRecord.from_dict(ProgressRecord().as_dict() | wrong)


@pytest.mark.parametrize("text", ["{}", '{"test": 3, "metric": 5}'], ids=["empty", "other types"])
def test_a_result_that_is_none_is_refused(recipe: Recipe, tmp_path: Path, text: str) -> None:
    run(recipe, tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"result\.json is damaged"):
        run(recipe, tmp_path / "run", resume=True)


@pytest.mark.parametrize("size", [{"model__dim": 99_999_999}, {"model__layers": 100_000_000}], ids=["wide", "deep"])
def test_a_model_beyond_memory_is_refused_before_it_is_made(
    recipe: Recipe, tmp_path: Path, size: dict[str, int]
) -> None:
    with pytest.raises(MemoryForecastError, match=r"parameters, needs about .* Lower model\.dim"):
        run(changed(recipe, trainer__memory_budget="1TB", **size), tmp_path / "run")
    with pytest.raises(MemoryForecastError):
        run(changed(recipe, **size), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_gradient_that_is_no_number_says_what_to_do(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(PointsetError, match=r"Lower optimizer\.lr"):
        run(changed(recipe, optimizer__lr=1e308), tmp_path / "run")


def test_a_batch_size_beyond_all_numbers_is_one_batch(recipe: Recipe, tmp_path: Path) -> None:
    assert run(changed(recipe, trainer__batch_size=10**20), tmp_path / "run")["epochs"] == 2


def test_targets_whose_squares_overflow_are_refused(tmp_path: Path) -> None:
    huge = {"edges": [1e200 * (1 + count) for count in edge_counts()["edges"]]}
    with pytest.raises(SpecError, match="deviation is not a number"):
        run(write_graphs(tmp_path / "data", huge), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["progress", "path"])
def test_options_that_are_ours_are_refused(recipe: Recipe, tmp_path: Path, option: str) -> None:
    options = recipe.dataset.options | {option: "x"}
    with pytest.raises(SpecError, match=r"dataset\.options"):
        run(changed(recipe, dataset__options=options), tmp_path / "run")
    assert not (tmp_path / "run").exists()
