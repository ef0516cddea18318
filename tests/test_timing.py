"""Which number of threads a run takes by default, and that measuring it changes nothing in the run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from pointset import machine
from pointset.runs.recipe import Recipe
from pointset.training import timing
from pointset.training.data import build_model, load_data
from pointset.training.run import train
from pointset.training.timing import Stopwatch, Timed, choose_threads, forecast_run
from tests.small_training import changed, edge_counts, write_graphs


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return changed(write_graphs(tmp_path / "data", edge_counts()), trainer__threads=None)


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with two cores that nobody else uses, on which every run is worth measuring."""
    monkeypatch.setattr(timing, "cores", lambda: 2)
    monkeypatch.setattr(timing, "cores_used_by_others", lambda seconds: 0.0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(timing, "_SHORT_SECONDS", 0.0)
    return monkeypatch


def pretend_step_takes(monkeypatch: pytest.MonkeyPatch, one: float, two: float) -> list[int]:
    """Steps are done as ever; what the stopwatch says of them is invented. Returns the threads of each timing."""
    asked: list[int] = []
    threads = [1]
    really = Stopwatch.time

    def pretend(self: Stopwatch, batches: Any) -> Timed:
        batches = list(batches)
        asked.append(threads[-1])
        really(self, batches)
        return Timed((one if threads[-1] == 1 else two) * len(batches), 0)

    monkeypatch.setattr(Stopwatch, "time", pretend)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    return asked


def chosen(recipe: Recipe) -> timing.ThreadChoice:
    data = load_data(recipe, progress=False)
    return choose_threads(recipe, build_model(recipe, data.card), data)


@pytest.mark.parametrize(("one", "two", "threads"), [(1.0, 0.5, 2), (1.0, 0.95, 1), (1.0, 1.5, 1), (1.0, 40.0, 1)])
def test_the_faster_is_taken_and_one_thread_where_it_hardly_matters(
    recipe: Recipe, two_cores: pytest.MonkeyPatch, one: float, two: float, threads: int
) -> None:
    asked = pretend_step_takes(two_cores, one, two)
    found = chosen(recipe)
    assert found.threads == threads and found.step_seconds is not None
    assert list(found.step_seconds) == pytest.approx([one, two])
    assert asked[2:] == [1, 2, 2] + [1, 2] * ((len(asked) - 5) // 2)  # in turn; two threads have a step to warm up


def test_a_short_run_takes_one_thread_without_measuring(recipe: Recipe, two_cores: pytest.MonkeyPatch) -> None:
    two_cores.setattr(timing, "_SHORT_SECONDS", 1e9)
    asked = pretend_step_takes(two_cores, 1.0, 0.1)
    assert chosen(recipe).threads == 1 and 2 not in asked


def test_a_loaded_machine_takes_one_thread_at_once(recipe: Recipe, two_cores: pytest.MonkeyPatch) -> None:
    two_cores.setattr(timing, "cores_used_by_others", lambda seconds: 1.8)
    asked = pretend_step_takes(two_cores, 1.0, 0.1)
    found = chosen(recipe)
    assert found.threads == 1 and "1.8 of 2 cores" in str(found) and 2 not in asked


def test_measuring_changes_no_weight_and_draws_no_number(
    recipe: Recipe, tmp_path: Path, two_cores: pytest.MonkeyPatch
) -> None:
    noisy = changed(recipe, model__noise=0.1, trainer__ema=0.9, optimizer__weight_decay=0.1)
    data = load_data(noisy, progress=False)
    model = build_model(noisy, data.card)
    before, state = {name: weight.clone() for name, weight in model.state_dict().items()}, torch.get_rng_state()
    pretend_step_takes(two_cores, 1.0, 0.5)
    assert choose_threads(noisy, model, data).threads == 2
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state()) and all(one.grad is None for one in model.parameters())


def test_the_choice_is_noted_and_kept_when_the_run_is_resumed(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pointset.training.run.choose_threads", lambda *_: timing.ThreadChoice(1, "measured"))
    folder = tmp_path / "run"
    train(recipe, folder, device="cpu", watch="quiet")
    noted = json.loads((folder / "environment.json").read_text())
    assert (noted["threads"], noted["threads_why"]) == (1, "measured")
    (folder / "result.json").unlink()  # as if it had been stopped before its end
    monkeypatch.setattr("pointset.training.run.choose_threads", lambda *_: pytest.fail("it was measured again"))
    train(recipe, folder, device="cpu", watch="quiet", resume=True)


def test_a_resumed_run_takes_no_more_threads_than_there_are_cores(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    train(recipe, folder, device="cpu", watch="quiet")
    (folder / "result.json").unlink()
    noted = json.loads((folder / "environment.json").read_text())
    (folder / "environment.json").write_text(json.dumps(noted | {"threads": 1000}))
    monkeypatch.setattr("pointset.training.run.cores", lambda: 1)
    train(recipe, folder, device="cpu", watch="plain", resume=True)
    assert "1 thread: the run was started with 1000" in capsys.readouterr().err


def test_what_others_use_is_told_apart_from_what_we_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores: others take one whole, and this process (asleep) nothing."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda _: 100)
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    clock = iter([10.0, 12.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    before = "cpu 0 0 0 0 0 0 0 0\ncpu0 100 50 0 0 0 0 0 0\ncpu1 100 0 100 0 0 0 0 0\ncpu2 9 0 0 0 0 0 0 0"
    after = "cpu 0 0 0 0 0 0 0 0\ncpu0 250 90 0 0 0 0 0 0\ncpu1 100 0 150 0 0 0 0 0\ncpu2 999 0 0 0 0 0 0 0"
    times = iter([before, after])
    monkeypatch.setattr(machine, "_SYSTEM_TIMES", type("File", (), {"read_text": lambda self: next(times)})())
    assert machine.cores_used_by_others(2.0) == pytest.approx(1.0)  # 150 + 50 ticks in 2 s; nice work gives way


def test_a_forecast_grows_with_the_epochs(recipe: Recipe) -> None:
    data = load_data(recipe, progress=False)
    found = forecast_run(recipe, data, 1)
    assert found.epoch_seconds > 0 and found.memory_bytes > 0
    assert found.seconds(20) - found.seconds(10) == pytest.approx(10 * found.epoch_seconds)


@pytest.mark.parametrize(
    ("workers", "items", "others", "threads"),
    [(0, 1000, 0.0, 4), (0, 1000, 4.0, 1), (0, None, 2.2, 2), (3, None, 0.0, 1), (1, 1000, 1.0, 2), (0, 3, 4.0, 4)],
)
def test_predicting_leaves_cores_to_workers_and_to_other_work(
    monkeypatch: pytest.MonkeyPatch, workers: int, items: int | None, others: float, threads: int
) -> None:
    from pointset.prediction import smiles

    taken: list[int] = []
    monkeypatch.setattr(smiles, "cores", lambda: 4)
    monkeypatch.setattr(smiles, "_looked", [])
    monkeypatch.setattr(smiles, "cores_used_by_others", lambda seconds: others)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    with smiles.threads_beside(workers, items):
        assert taken == [threads]
    assert taken == [threads, 4]
