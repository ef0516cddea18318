"""What an epoch costs, measured side by side, and how a step grows with the size of graphs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pointset.errors import MissingDataError, SpecError
from pointset.machine import forget_peak, peak_bytes, resident_bytes
from pointset.paper import cost
from pointset.paper.cost import Ready, fitted_exponent, growth, measure_cost, random_batch
from pointset.paper.processes import OwnProcess, own_processes
from pointset.runs.recipe import Recipe
from pointset.training.timing import Timed
from tests.small_training import changed, edge_counts, write_graphs

Answer = Callable[[str, tuple[Any, ...]], Any]  # of a process to the call of a function by this name
EPOCH = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def pretended(answers: Sequence[Answer], said: list[tuple[int, str, Any]]) -> Any:
    """In the place of ``own_processes``: nothing is started, every call is noted with the number of its process."""

    def submit_to(number: int) -> Callable[..., Future[Any]]:
        def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            said.append((number, function.__name__, arguments))
            future: Future[Any] = Future()
            try:
                future.set_result(answers[number](function.__name__, arguments))
            except Exception as error:
                future.set_exception(error)
            return future

        return submit

    @contextmanager
    def processes(count: int) -> Iterator[list[OwnProcess]]:
        yield [OwnProcess(submit_to(number)) for number in range(count)]

    return processes


def steady(seconds: Sequence[float]) -> Answer:
    """A model that takes so long in each round, after a warm-up that takes long."""
    left = iter([100.0, *seconds])

    def answer(name: str, arguments: tuple[Any, ...]) -> Any:
        return Ready(1000, EPOCH, 0.5) if name == "make_ready" else Timed(seconds := next(left), 10**6, seconds / 2)

    return answer


def failing(at: str, error: Exception) -> Answer:
    def answer(name: str, arguments: tuple[Any, ...]) -> Any:
        if name == at:
            raise error
        return Ready(1000, EPOCH, 0.5)

    return answer


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return write_graphs(tmp_path / "data", edge_counts())


def test_rounds_are_interleaved_on_the_same_batches_and_failures_stay_alone(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[int, str, Any]] = []
    answers = [
        failing("make_ready", SpecError("too\nwide")),
        steady([4.0, 2.0, 3.0]),
        failing("time_batches", RuntimeError("can't allocate memory")),
        steady([1.0, 1.0, 1.0]),
    ]
    monkeypatch.setattr(cost, "own_processes", pretended(answers, said))
    costs = measure_cost([recipe] * 4, batches=2, repeats=3, progress=False)
    assert [one.failure for one in costs] == ["too wide", "", "RuntimeError: can't allocate memory", ""]
    slow, fast = costs[1], costs[3]
    assert (
        slow.seconds_per_epoch == 3.0 * 10 / 8 == 2 * (slow.cpu_seconds_per_epoch or 0) and slow.timed_share == 0.8
    )  # 8 of 10 graphs were timed
    assert slow.spread == pytest.approx(10 / 8) and slow.graphs_per_second == pytest.approx(8 / 3.0)
    assert (fast.seconds_per_epoch, fast.peak_memory_bytes, fast.parameters) == (1.25, 10**6, 1000)
    assert costs[0].seconds_per_epoch is None and costs[2].parameters == 1000
    timed = [(number, arguments[0]) for number, name, arguments in said if name == "time_batches"]
    assert timed == [(1, EPOCH[:1]), (2, EPOCH[:1]), (3, EPOCH[:1])] + 3 * [(1, EPOCH[:2]), (3, EPOCH[:2])]


def test_data_that_is_missing_is_no_fault_of_a_model(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "own_processes", pretended([failing("make_ready", MissingDataError("nowhere"))], []))
    with pytest.raises(MissingDataError, match="nowhere"):
        measure_cost([recipe], progress=False)
    with pytest.raises(SpecError, match="got repeats=0; expected a whole number, 1 or more"):
        measure_cost([recipe], repeats=0)


def test_a_process_that_fails_or_dies_is_a_message() -> None:
    """Real processes, that of each model its own."""
    with own_processes(2) as (first, second):
        place = first.call(os.getpid)
        assert place == first.call(os.getpid) != os.getpid()
        assert second.call(int, "x") is None and second.failure.startswith("ValueError: invalid literal")
        assert first.call(os._exit, 1) is None and "ended from outside" in first.failure
        assert first.call(os.getpid) is None  # and nothing is tried any more


@pytest.mark.slow
def test_a_wider_model_takes_more_memory(recipe: Recipe) -> None:
    """In real processes, each of which loads all libraries."""
    recipe = changed(recipe, trainer__batch_size=32, model__layers=4)
    widths = [changed(recipe, model__preset="pst-gc", model__dim=dim) for dim in (48, 96)]
    narrow, wide = measure_cost(widths, batches=None, repeats=1, progress=False)
    assert not narrow.failure and not wide.failure and narrow.timed_share == 1.0
    assert narrow.parameters is not None and wide.parameters is not None and narrow.parameters < wide.parameters
    for one in (narrow, wide):
        assert one.seconds_per_epoch and one.cpu_seconds_per_epoch and one.graphs_per_second and one.setup_seconds
        assert one.graphs_per_second == pytest.approx(32 / one.seconds_per_epoch)
    assert 0 < (narrow.peak_memory_bytes or 0) < (wide.peak_memory_bytes or 0)


def test_the_peak_is_forgotten_when_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resident_bytes()
    forget_peak()
    held = np.ones(8_000_000)  # 64 MB
    assert peak_bytes() >= before + 0.9 * held.nbytes
    del held
    forget_peak()
    assert peak_bytes() < before + 32_000_000
    monkeypatch.setattr("pointset.machine._RESET", Path("/proc/self"))  # cannot be written to
    forget_peak()


def test_growth_stops_a_model_where_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def square(name: str, arguments: tuple[Any, ...]) -> Any:
        return None if name == "make_step_ready" else Timed(1.0, 100 * arguments[0] ** 3, 1e-4 * arguments[0] ** 2)

    def until_32(name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "time_step" and arguments[0] > 32:
            raise MemoryError("too large")
        return square(name, arguments)

    monkeypatch.setattr(cost, "own_processes", pretended([square, until_32], []))
    whole, broken = growth(["psds", "pst-gc"], [64, 16, 32, 128], parameters=20_000, layers=2, progress=False)
    assert [step.nodes for step in whole.steps] == [16, 32, 64, 128] and not whole.failure
    assert whole.time_exponent == pytest.approx(2) and whole.memory_exponent == pytest.approx(3)
    assert [step.nodes for step in broken.steps] == [16, 32] and broken.failure == "MemoryError: too large"
    assert abs(whole.parameters - 20_000) < 3000 and abs(broken.parameters - 20_000) < 3000
    with pytest.raises(SpecError, match="got sizes=0"):
        growth(["pst"], [16, 0])


def test_what_growth_is_measured_on() -> None:
    batch = random_batch(20, 3, 7, "laplacian")
    assert batch.num_nodes.tolist() == [20, 20, 20] and batch.y is not None and batch.y.shape == (3, 1)
    twice_the_edges = sum(float(group.eigenvalues.sum()) for group in batch.groups)  # the trace of the Laplacian
    assert twice_the_edges == pytest.approx(3 * 2 * 30)
    assert fitted_exponent([2, 4], [0.0, 1.0]) is None
