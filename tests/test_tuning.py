"""``pointset tune`` and :func:`pointset.tuning.search`, with a tiny model on tiny data."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import optuna
import pytest
import torch
from optuna.trial import TrialState, create_trial

from pointset.errors import DiskSpaceError, MissingExtraError, PointsetError, SpecError, TrainingStopped
from pointset.reports.tuning import write_tuning_report
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.runs.result import EpochRow
from pointset.training.run import train
from pointset.tuning import TuningResult, tune
from pointset.tuning.forecast import StudyForecast
from pointset.tuning.ranges import search_space
from pointset.tuning.session import EpochReports
from pointset.tuning.study import (
    KILLS,
    WORKER,
    WorkerLock,
    first_attempt,
    open_storage,
    open_study,
    quiet_optuna,
    requeue,
    requeue_dead_trials,
    retried_numbers,
)
from tests import command_line
from tests.small_training import changed, edge_counts, write_graphs

RANGES = {"model.dim": "4:8", "model.layers": "1:2", "optimizer.lr": "1e-6:1e-1"}
TRIALS = 7


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    recipe = write_graphs(tmp_path_factory.mktemp("data"), edge_counts())
    small = {"model__preset": "gin", "model__layers": 1, "model__dim": 4}  # of all models the fastest
    return changed(recipe, trainer__batch_size=32, trainer__epochs=3, **small)


@pytest.fixture(scope="module")
def tuned(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> TuningResult:
    """A study that was ended after two trials and gone on with."""
    folder = tmp_path_factory.mktemp("tuned") / "study"
    tune(recipe, folder, trials=2, ranges=RANGES, device="cpu")
    return tune(recipe, folder, trials=TRIALS, ranges=RANGES, device="cpu")


def test_a_study_ends_with_all_trials_and_the_best_recipe_can_be_trained(tuned: TuningResult, tmp_path: Path) -> None:
    assert [one.number for one in tuned.trials] == list(range(TRIALS))
    done = [one for one in tuned.trials if one.state == "complete"]
    best = min(done, key=lambda one: one.value or 0.0)
    assert tuned.best[0] == best and tuned.metric == "mae" and not tuned.higher_is_better
    found = read_recipe(tuned.folder / "best.yaml")
    assert found == tuned.best_recipe and found.optimizer.lr == best.values["optimizer.lr"]
    result = train(found, tmp_path / "run", device="cpu", watch="quiet")
    assert result["val"]["mae"] == pytest.approx(best.value, rel=1e-6) and result["test"]["mae"] > 0


def test_the_first_trial_has_the_recipes_own_values(tuned: TuningResult) -> None:
    first = tuned.trials[0].values
    assert first["optimizer.lr"] == 0.005 and first["model.layers"] == 1 and first["model.dim"] == 4
    assert first["optimizer.weight_decay"] == 1e-6  # 0.0 in the recipe: as near as the range allows
    for one in tuned.trials:
        for key, value in one.values.items():
            assert tuned.space.ranges[key].low <= value <= tuned.space.ranges[key].high


def test_the_test_part_is_not_there_for_trials(tuned: TuningResult) -> None:
    for one in tuned.trials:
        run = tuned.folder / one.folder
        split = json.loads((run / "split.json").read_text())
        assert split["test"] == [] and len(split["val"]) == 4
        assert not (run / "predictions.csv").exists()
        if one.state == "complete":
            assert json.loads((run / "result.json").read_text())["test"] == {}


def test_bad_trials_end_early_and_leave_little(tuned: TuningResult) -> None:
    pruned = [one for one in tuned.trials if one.state == "pruned"]
    assert pruned and all(one.number >= 5 for one in pruned)
    for one in pruned:
        run = tuned.folder / one.folder
        assert one.epochs is not None and one.epochs < 3 and not (run / "result.json").exists()
        assert len((run / "metrics.csv").read_text().splitlines()) == 1 + one.epochs
    assert not list(tuned.folder.glob("trials/*/checkpoints"))


def test_what_is_written_agrees(tuned: TuningResult) -> None:
    content = json.loads((tuned.folder / "tuning.json").read_text())
    with (tuned.folder / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [one["state"] for one in content["trials"]] == [row["state"] for row in rows]
    assert [row["number"] for row in rows] == [str(number) for number in range(TRIALS)]
    assert sum(content["importance"].values()) == pytest.approx(1) and content["test_scored"] == "never"


def test_one_that_was_not_interrupted_has_the_same_trials(tuned: TuningResult, recipe: Recipe, tmp_path: Path) -> None:
    whole = tune(recipe, tmp_path / "whole", trials=3, ranges=RANGES, device="cpu")
    assert [one.values for one in whole.trials] == [one.values for one in tuned.trials[:3]]
    assert [one.value for one in whole.trials] == [one.value for one in tuned.trials[:3]]


def test_a_study_of_something_else_is_refused(tuned: TuningResult, recipe: Recipe) -> None:
    with pytest.raises(SpecError, match=r"ranges\.model\.dim\.high: 8 → 16"):
        tune(recipe, tuned.folder, trials=TRIALS + 1, ranges=RANGES | {"model.dim": "4:16"}, device="cpu")
    with pytest.raises(SpecError, match=r"  model\.preset: 'gin' → 'psds'"):
        tune(changed(recipe, model__preset="psds"), tuned.folder, ranges=RANGES, device="cpu")
    with pytest.raises(SpecError, match="is the folder of a run"):
        tune(recipe, tuned.folder / "trials" / "0000", device="cpu")
    assert len(tune(recipe, tuned.folder, trials=TRIALS, ranges=RANGES, device="cpu").trials) == TRIALS


def test_a_study_of_an_earlier_version_is_taken_up(recipe: Recipe, tmp_path: Path) -> None:
    """Keys that came later are not in what it noted, and have their defaults."""
    storage, space = open_storage(None, tmp_path), search_space(recipe, RANGES)
    study = open_study(storage, "small", space, metric="mae", seed=0, pruning=True)
    about = study.user_attrs["pointset"]
    del about["recipe"]["dataset"]["edge_weight_offset"], about["recipe"]["model"]["matrix"]
    study.set_user_attr("pointset", about)
    again = open_study(storage, "small", space, metric="mae", seed=0, pruning=True)
    assert [one.state for one in again.trials] == [TrialState.WAITING]
    other = search_space(changed(recipe, dataset__edge_weight_offset=1), RANGES)
    with pytest.raises(SpecError, match=r"dataset\.edge_weight_offset: 0 → 1"):
        open_study(storage, "small", other, metric="mae", seed=0, pruning=True)
    storage.engine.dispose()


def test_the_report_shows_all_of_it(tuned: TuningResult, tmp_path: Path) -> None:
    content = json.loads((tuned.folder / "tuning.json").read_text())
    content["trials"][1] |= {"state": "failed", "error": "<b>no memory</b>", "value": None}
    page = write_tuning_report(content, tmp_path).read_text()
    assert "&lt;b&gt;no memory" in page and "<b>no memory" not in page
    assert page.count("data:image/svg+xml") == 2 and "optimizer.weight_decay" in page
    for name in ("history.svg", "importance.svg"):
        before = (tmp_path / name).read_bytes()
        assert ElementTree.fromstring(before).tag.endswith("svg")
        write_tuning_report(content, tmp_path)
        assert (tmp_path / name).read_bytes() == before
    write_tuning_report(content | {"trials": [], "best": [], "importance": None}, tmp_path)
    assert "There is none yet" in (tmp_path / "report.html").read_text()


def test_trials_that_fail_are_noted_and_the_study_goes_on(recipe: Recipe, tmp_path: Path) -> None:
    ranges = RANGES | {"optimizer.lr": "1e-3:1e38"}
    result = tune(recipe, tmp_path / "some", trials=3, ranges=ranges, device="cpu")
    failed = [one for one in result.trials if one.state == "failed"]
    assert result.trials[0].state == "complete" and failed and len(result.trials) == 3
    assert all(one.error is not None and "Lower optimizer.lr" in one.error for one in failed)
    with pytest.raises(PointsetError, match=r"all trials failed, 1 of 1; the last one: .*Lower optimizer\.lr"):
        tune(recipe, tmp_path / "all", trials=1, ranges=RANGES | {"optimizer.lr": "1e37:1e38"}, device="cpu")


def test_a_full_disk_is_no_fault_of_the_trial(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial is queued again, and the same command resumes the study once there is space."""
    before = shutil.disk_usage
    monkeypatch.setattr("pointset.runs.folder.shutil.disk_usage", lambda place: before(place)._replace(free=1000))
    with pytest.raises(DiskSpaceError, match="MB left; the run writes up to"):
        tune(recipe, tmp_path / "study", trials=1, ranges=RANGES, device="cpu")
    monkeypatch.undo()
    result = tune(recipe, tmp_path / "study", trials=1, ranges=RANGES, device="cpu")
    assert [one.state for one in result.trials] == ["retried", "complete"]


def test_after_ctrl_c_the_trial_is_taken_up(
    tuned: TuningResult, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = EpochReports.epoch

    def interrupt(self: EpochReports, row: EpochRow) -> None:
        told(self, row)
        if row.epoch == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(EpochReports, "epoch", interrupt)
    with pytest.raises(TrainingStopped):
        tune(recipe, tmp_path / "study", trials=1, ranges=RANGES, device="cpu")
    monkeypatch.undo()
    result = tune(recipe, tmp_path / "study", trials=1, ranges=RANGES, device="cpu")
    assert [one.state for one in result.trials] == ["retried", "complete"]
    assert result.trials[1].folder == "trials/0000" and result.trials[1].values == result.trials[0].values
    assert result.best[0].value == tuned.trials[0].value  # of a trial with these values that was not interrupted


def test_a_trial_whose_process_was_killed_before_it_wrote_its_name(
    tuned: TuningResult, recipe: Recipe, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    shutil.copytree(tuned.folder, folder)
    with quiet_optuna():
        storage = open_storage(None, folder)
        study = optuna.load_study(storage=storage, study_name=tuned.study)
        with pytest.warns(UserWarning, match="Heartbeat"):
            number = study.ask().number  # at work, without a worker and without a heartbeat
        storage.remove_session()
        storage.engine.dispose()
    result = tune(recipe, folder, trials=TRIALS + 1, ranges=RANGES, device="cpu")
    assert result.trials[number].state == "retried"
    assert len([one for one in result.trials if one.state in ("complete", "pruned")]) == TRIALS + 1


def work(recipe: Recipe, folder: Path, trials: int, seconds_of_an_epoch: float) -> None:
    torch.set_num_threads(1)
    told = EpochReports.epoch

    def slowly(self: EpochReports, row: EpochRow) -> None:
        told(self, row)
        time.sleep(seconds_of_an_epoch)

    EpochReports.epoch = slowly  # type: ignore[method-assign]
    tune(recipe, folder, trials=trials, ranges=RANGES, device="cpu")


def test_two_processes_share_a_study_and_one_is_killed(recipe: Recipe, tmp_path: Path) -> None:
    folder, wanted = tmp_path / "study", 3
    longer = changed(recipe, trainer__epochs=6)
    start = multiprocessing.get_context("fork").Process  # imports take longer than the study
    first, second = (start(target=work, args=(longer, folder, wanted, pause)) for pause in (1.0, 0.0))
    first.start()
    second.start()
    waited = time.monotonic()
    while not (running_of(folder, first.pid) and any(folder.glob(f"workers/{second.pid}-*"))):
        assert first.is_alive() and time.monotonic() - waited < 60
        time.sleep(0.05)
    first.kill()
    first.join()
    killed = running_of(folder, first.pid)  # nothing of it changes any more
    second.join(timeout=120)
    assert second.exitcode == 0
    result = tune(longer, folder, trials=wanted, ranges=RANGES, device="cpu")
    done = [one for one in result.trials if one.state in ("complete", "pruned")]
    assert [one.number for one in result.trials] == list(range(len(result.trials)))
    assert len(done) == wanted and len({tuple(one.values.values()) for one in done}) == wanted
    assert [one.number for one in result.trials if one.state == "retried"] == killed
    assert {f"trials/{number:04d}" for number in killed} <= {one.folder for one in done}
    assert result.count("running") == result.count("waiting") == result.count("failed") == 0


def running_of(folder: Path, pid: int | None) -> list[int]:
    """Trials at work in a process, as the database has them."""
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(f"file:{folder / 'study.db'}?mode=ro", uri=True)) as database,
    ):
        found = database.execute(
            "SELECT number FROM trials JOIN trial_user_attributes USING (trial_id) "
            "WHERE state = 'RUNNING' AND key = ? AND value_json LIKE ?",
            (WORKER, f'"{pid}-%'),
        )
        return [number for (number,) in found]
    return []


def test_a_trial_of_another_machine_without_heartbeat_is_taken_up(recipe: Recipe, tmp_path: Path) -> None:
    storage = open_storage(None, tmp_path)
    space = search_space(recipe, RANGES)
    study = open_study(storage, "small", space, metric="mae", seed=0, pruning=True)
    with WorkerLock(tmp_path) as worker:
        for kills in range(3):
            with pytest.warns(UserWarning, match="Heartbeat"):
                trial = study.ask()
            trial.set_user_attr(WORKER, "elsewhere.lock")
            storage.record_heartbeat(trial._trial_id)
            requeue_dead_trials(study, worker, has_other_folders=True)
            assert study.trials[-1].state == TrialState.RUNNING and study.trials[-1].user_attrs.get(KILLS, 0) == kills
            with sqlite3.connect(tmp_path / "study.db") as database:
                database.execute("UPDATE trial_heartbeats SET heartbeat = datetime('now', '-1 day')")
            requeue_dead_trials(study, worker, has_other_folders=True)
            assert study.trials[kills].state == TrialState.FAIL
    assert len(study.trials) == 3  # killed three times, it is not tried a fourth time
    storage.engine.dispose()


def test_a_trial_without_a_name_on_another_machine_is_given_time(recipe: Recipe, tmp_path: Path) -> None:
    storage = open_storage(None, tmp_path)
    study = open_study(storage, "small", search_space(recipe, RANGES), metric="mae", seed=0, pruning=True)
    with WorkerLock(tmp_path) as worker:
        with pytest.warns(UserWarning, match="Heartbeat"):
            study.ask()
        requeue_dead_trials(study, worker, has_other_folders=True)
        assert [one.state for one in study.trials] == [TrialState.RUNNING]
        with sqlite3.connect(tmp_path / "study.db") as database:
            database.execute("UPDATE trials SET datetime_start = datetime('now', '-1 day')")
        requeue_dead_trials(study, worker, has_other_folders=True)
        assert [one.state for one in study.trials] == [TrialState.FAIL, TrialState.WAITING]
    storage.engine.dispose()


def test_a_study_begun_by_an_older_version_knows_its_earlier_attempts(recipe: Recipe, tmp_path: Path) -> None:
    storage = open_storage(None, tmp_path)
    study = open_study(storage, "small", search_space(recipe, RANGES), metric="mae", seed=0, pruning=True)
    with pytest.warns(UserWarning, match="Heartbeat"):
        study.tell(study.ask(), state=TrialState.FAIL)
    study.add_trial(create_trial(state=TrialState.FAIL, user_attrs={"first": 0, "retry_of": 0, KILLS: 1}))
    assert retried_numbers(study.trials) == {0} and first_attempt(study.trials[1]) == 0
    requeue(study, study.trials[1])
    again = study.trials[2]
    assert again.state == TrialState.WAITING and again.user_attrs[KILLS] == 2
    assert retried_numbers(study.trials) == {0, 1} and first_attempt(again) == 0
    for _ in range(3):  # interruptions are not counted: the trial is never lost
        requeue(study, again, was_killed=False)
        again = study.trials[-1]
    assert again.user_attrs[KILLS] == 2 and first_attempt(again) == 0
    storage.engine.dispose()


@pytest.mark.parametrize(
    ("storage", "error", "message"),
    [
        ("nonsense", SpecError, "begins with 'nonsense'"),
        ("oracle9://me:secret@host/x", SpecError, "begins with 'oracle9'"),
        ("mysql://me:secret@host/x", MissingExtraError, "is not installed"),
        ("sqlite:////nowhere/at/all.db", PointsetError, "unable to open database file"),
    ],
)
def test_a_database_that_does_not_work(
    storage: str, error: type[Exception], message: str, recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message) as raised:
        tune(recipe, tmp_path / "study", storage=storage, ranges=RANGES, device="cpu")
    assert "secret" not in str(raised.value) and not (tmp_path / "study").exists()


def test_a_damaged_database_and_a_lost_one(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("no database at all, but some text " * 40)
    with pytest.raises(PointsetError, match="file is not a database"):
        tune(recipe, tmp_path, ranges=RANGES, device="cpu")
    (tmp_path / "study.db").unlink()
    (tmp_path / "trials").mkdir()
    with pytest.raises(SpecError, match=r"study\.db is not there"):
        tune(recipe, tmp_path, ranges=RANGES, device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(SpecError, match=r"holds other files \(letter\.txt…\)"):
        tune(recipe, tmp_path / "other", ranges=RANGES, device="cpu")


def test_without_optuna(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("pointset.tuning.search.find_spec", lambda name: None if name == "optuna" else find(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[tune\]'"):
        tune(recipe, tmp_path / "study")


invoke = partial(command_line.ended, "tune")


def test_from_the_shell(recipe: Recipe, tmp_path: Path) -> None:
    file, folder = tmp_path / "small.yaml", tmp_path / "study"
    file.write_text(recipe.as_yaml())
    words = [file, "optimizer.lr=0.01", "--run-dir", folder, "--trials", 2, "--epochs", 2, "--range", "model.dim=4:8"]
    words += ["--range", "model.layers=1:2", "--fix", "model.noise", "--device", "cpu"]
    code, said = invoke(*words, "--dry-run")
    assert code == 0 and "2 trials of 2 epochs" in said and "model.dim 4 8 steps of 4" in said and not folder.exists()
    assert "on this machine; what ends early by pruning or patience is not counted" in said
    assert "optimizer.lr" not in said and "model.noise" not in said and "to fit 2 epochs" in said
    code, said = invoke(*words, "--json", tmp_path / "found.json")
    assert code == 0, said
    assert said.index("2 trials of 2 epochs, the first") < said.index("trial 0: MAE")
    assert "trial 0: MAE" in said and "best so far" in said and "2 complete" in said
    assert "needs at least 4 complete trials" in said and f"pointset train {folder / 'best.yaml'}" in said
    content = json.loads((tmp_path / "found.json").read_text())
    assert content["epochs"] == 2 and set(content["ranges"]) == {"model.layers", "model.dim", "optimizer.weight_decay"}
    assert read_recipe(folder / "best.yaml").optimizer.lr == 0.01 and (folder / "report.html").exists()
    code, said = invoke(*words, "--range", "optimizer.weight_decay=0.1:0.2")
    assert code == 1 and "other ranges" in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zincc"], "did you mean 'zinc'"),
        (["model.dim=3"], "expected a recipe's name"),
        (["FILE", "--range", "model.dim=9"], "KEY=LOW:HIGH"),
        (["FILE", "--fix", "model.dmi"], "did you mean 'model.dim'"),
        (["FILE", "model.dim=4", "--range", "model.dim=4:8"], "both fixed and given a range"),
        (["FILE", "--minutes", "-1", "--run-dir", "study"], "expected a number above 0"),
    ],
)
def test_mistakes_get_one_clear_message(
    words: list[str], message: str, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(recipe.as_yaml())
    code, said = invoke(*("small.yaml" if word == "FILE" else word for word in words))
    assert code != 0 and message in said and "Traceback" not in said and not Path("study").exists()


class Hours:
    """A clock on which a trial takes an hour, and a forecast says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, epochs: int):
        self.now, self.epochs = 0.0, epochs
        monkeypatch.setattr("pointset.tuning.forecast.time.monotonic", lambda: self.now)
        forecast = StudyForecast(own_seconds=3600.0, trial_seconds=3600.0, epochs=epochs)
        monkeypatch.setattr("pointset.tuning.session.forecast_study", lambda space, data: forecast)
        monkeypatch.setattr("pointset.tuning.session._seconds_of_trials", lambda study: [])
        told = EpochReports.epoch

        def epoch(reports: EpochReports, row: EpochRow) -> None:
            self.now += 3600.0 / epochs
            told(reports, row)

        monkeypatch.setattr(EpochReports, "epoch", epoch)


def test_no_trial_begins_that_cannot_end_within_the_budget(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Hours(monkeypatch, recipe.trainer.epochs)
    told: list[str] = []
    result = tune(
        recipe, tmp_path / "study", trials=5, ranges=RANGES, device="cpu", minutes=150,
        on_forecast=lambda forecast, left: told.append(forecast.text(left)),
    )  # fmt: skip
    assert [one.state for one in result.trials] == ["complete", "complete"] and (tmp_path / "study/best.yaml").exists()
    said = "the first, with the recipe's own values, about 1 h, others about 1 h: about 5 h"
    assert told and told[0].startswith(f"5 trials of {recipe.trainer.epochs} epochs, {said}")
    more = tune(recipe, tmp_path / "study", trials=3, ranges=RANGES, device="cpu", minutes=61)
    assert [one.state for one in more.trials] == ["complete"] * 3


def test_a_trial_that_takes_longer_than_forecast_is_stopped_and_pruned(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Hours(monkeypatch, recipe.trainer.epochs)
    really = EpochReports.batch

    def batch(reports: EpochReports, *arguments: Any) -> None:
        if reports._trial.number == 1:
            clock.now += 7200.0
        really(reports, *arguments)

    monkeypatch.setattr(EpochReports, "batch", batch)
    result = tune(recipe, tmp_path / "study", trials=5, ranges=RANGES, device="cpu", minutes=150)
    assert [one.state for one in result.trials] == ["complete", "pruned"]
    assert result.trials[1].epochs is None and not list(tmp_path.glob("study/trials/*/checkpoints"))


def test_a_budget_too_small_for_any_trial_is_refused(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Hours(monkeypatch, recipe.trainer.epochs)
    with pytest.raises(SpecError, match=r"a trial takes about 1 h; expected time for one at least. Give more"):
        tune(recipe, tmp_path / "study", trials=5, ranges=RANGES, device="cpu", minutes=30)
