"""Training under hostile circumstances: each ends with one clear message, and nothing goes on with what changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pointset.errors import FileFormatError, MemoryForecastError, PointsetError, SpecError
from pointset.files import read_json, write_json
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe, read_settings, to_yaml
from pointset.training.checkpoint import ProgressRecord, read_checkpoint, save_checkpoint
from pointset.training.loop import TrainingLoop
from pointset.training.run import train
from tests.command_line import invoke
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


def test_an_edited_recipe_of_a_finished_run_is_told(recipe: Recipe, tmp_path: Path) -> None:
    """Its settings would be taken for those of the model, in the report and by whoever trains by it again."""
    folder = tmp_path / "run"
    run(recipe, folder)
    invoke("report", folder), invoke("evaluate", folder)  # without a warning, which would be an error here
    assert "was edited" not in (folder / "report.html").read_text()
    file = folder / "recipe.yaml"
    file.write_text(file.read_text().replace("lr: 0.005", "lr: 0.5"))
    for words in (("report", folder), ("evaluate", folder), ("report", folder, folder, "-o", tmp_path / "two.html")):
        with pytest.warns(UserWarning, match=r"recipe\.yaml was edited after the run had started"):
            invoke(*words)
    assert "recipe.yaml was edited after the run had started" in (folder / "report.html").read_text()
    said = invoke("train", "--resume", "--run-dir", folder, code=1)[1]
    assert "was edited after the run had started; expected it as it was" in said


def test_weights_of_another_model_are_named(half: Path, recipe: Recipe) -> None:
    environment = read_json(half / "environment.json")
    write_json(half / "environment.json", {key: environment[key] for key in environment if key != "recipe_sha256"})
    left = read_checkpoint(half / "checkpoints" / "last.safetensors")
    save_checkpoint(half / "checkpoints" / "last.safetensors", left.groups, left.progress)  # as older versions did
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


@pytest.mark.parametrize("other", [{"seed": 9}, {"optimizer__lr": 0.1}], ids=["seed", "learning rate"])
def test_a_checkpoint_of_another_run_is_not_resumed(half: Path, recipe: Recipe, other: dict[str, Any]) -> None:
    """Its weights would fit, and nobody would notice."""
    run(changed(recipe, **other), half.parent / "other")
    shutil.copy(half.parent / "other" / "checkpoints" / "last.safetensors", half / "checkpoints")
    with pytest.raises(SpecError, match=r"last\.safetensors is of another run: .* or remove it, and training begins"):
        run(recipe, half, resume=True)
    assert read_json(half / "environment.json") and not (half / "result.json").exists()


def test_a_checkpoint_of_an_older_version_is_resumed(half: Path, recipe: Recipe) -> None:
    file = half / "checkpoints" / "last.safetensors"
    before = read_checkpoint(file)
    assert before.run and before.progress.epoch == 1
    save_checkpoint(file, before.groups, before.progress)  # which does not say of which run it is
    assert run(recipe, half, resume=True)["epochs"] == 2


def _as_an_earlier_version_left_it(folder: Path) -> None:
    """Its recipe.yaml lacks the keys that came later, and so does what was noted of them."""
    values = read_settings(folder / "recipe.yaml")
    del values["dataset"]["edge_weight_offset"], values["model"]["matrix"], values["model"]["rank"]
    (folder / "recipe.yaml").write_text(to_yaml(values))
    settings = {key: value for key, value in values.items() if key != "name"}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    write_json(folder / "environment.json", read_json(folder / "environment.json") | {"recipe_sha256": digest})


def test_a_run_begun_by_an_earlier_version_is_resumed_twice(
    half: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that are newer than the run have their defaults. Its checkpoint was not written yet, or is lost."""
    _as_an_earlier_version_left_it(half)
    (half / "checkpoints" / "last.safetensors").unlink()
    longer = TrainingLoop._end_epoch

    def die(fitting: TrainingLoop) -> None:
        longer(fitting)
        fitting.save()
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "_end_epoch", die)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, half, resume=True)
    monkeypatch.undo()
    assert read_checkpoint(half / "checkpoints" / "last.safetensors").progress.epoch == 1
    assert run(read_recipe(half), half, resume=True)["epochs"] == 2


@pytest.mark.parametrize("line", ["  edge_weight_offset: 2", "  matrix: adjacency"])
def test_a_newer_key_that_is_written_into_an_earlier_run_is_an_edit(half: Path, line: str) -> None:
    _as_an_earlier_version_left_it(half)
    group = "dataset" if "edge" in line else "model"
    file = half / "recipe.yaml"
    file.write_text(file.read_text().replace(f"{group}:\n", f"{group}:\n{line}\n"))
    with pytest.raises(SpecError, match="was edited after the run had started"):
        run(read_recipe(file), half, resume=True)


def test_without_its_checkpoint_a_run_begins_again_and_says_so(
    half: Path, recipe: Recipe, capsys: pytest.CaptureFixture[str]
) -> None:
    (half / "checkpoints" / "last.safetensors").unlink()
    train(recipe, half, device="cpu", watch="plain", resume=True)
    said = capsys.readouterr().err
    assert "no checkpoint had been written, so training begins at epoch 1" in said and "resumed" not in said


TAMPERED = {
    "aliases": "a: &a [x, x]\n" + "".join(f"{b}: &{b} [{f'*{a}, ' * 9}*{a}]\n" for a, b in pairwise("abcdefghij")),
    "program": "name: !!python/object/apply:os.system ['touch hurt']\n",
    "nested": "[" * 50_000,
    "keys": "".join(f"key{number}: 1\n" for number in range(50_000)),
    "bytes": "# " + "x" * 2_000_000,
    "twice": "name: a\nname: b\n",
    "list": "- 1\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_is_no_recipe_any_more_is_refused_in_time(half: Path, name: str) -> None:
    (half / "recipe.yaml").write_text(TAMPERED[name])
    started = time.process_time()
    _, warned = invoke("train", "--resume", "--run-dir", half, code=1)
    assert warned.startswith("Error: ") and "recipe.yaml" in warned and len(warned) < 2000
    assert time.process_time() - started < 30 and not Path("hurt").exists()  # two are usual


HALF = {
    "predict": "predict {run} graphs.g6 -o out.csv",
    "embed": "embed {run} graphs.g6 -o out.csv",
    "evaluate": "evaluate {run}",
    "explain": "explain {run} CCO",
    "check-invariance": "check-invariance {run} graphs.g6",
    "train": "train {run} --run-dir {run}",
    "compare": "compare counting --models pst --run-dir {run}",
    "tune": "tune {run} --run-dir {run}",
}


@pytest.mark.parametrize("name", HALF)
def test_half_a_run_is_refused_with_the_remedy(half: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(half.parent / "data")
    words = HALF[name].replace("{run}", str(half)).split()
    _, warned = invoke(*words, code=2 if name == "check-invariance" else 1)
    assert warned.count("Error: ") == 1
    assert "--resume" in warned or "--run-dir" in warned
    assert not Path("out.csv").exists() and not (half / "result.json").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run(write_graphs(folder / "data", edge_counts()), folder / "run")
    return folder / "run"


@pytest.mark.parametrize(
    "content", [b"", b"[1,\n2, 3, 4]", b"\x00\xff\x00", None], ids=["empty", "list", "bytes", "folder"]
)
@pytest.mark.parametrize("name", ["result.json", "environment.json", "examples.json", "metrics.csv", "predictions.csv"])
def test_a_damaged_file_of_a_run_is_named_with_the_remedy(
    finished: Path, tmp_path: Path, name: str, content: bytes | None
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / name).unlink()
    if content is None:
        (folder / name).mkdir()
    else:
        (folder / name).write_bytes(content)
    _, warned = invoke("report", folder, code=1)
    assert warned.startswith("Error: ") and str(folder / name) in warned
    assert content is None or "Put the file back, or remove it: the run is then read without it" in warned
    if content is not None:
        (folder / name).unlink()
        invoke("report", folder)  # the remedy is true
    if name == "result.json" and content is not None:
        (folder / name).write_bytes(content)
        _, warned = invoke("train", "--resume", "--run-dir", folder, code=1)
        assert "Delete it and resume the run, which writes it again" in warned


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
