"""What an epoch costs: time and memory of several models, measured side by side (:func:`measure_cost`)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pointset.errors import SpecError
from pointset.progress import progress_bar
from pointset.studies.comparison.own_process import OwnProcess, own_processes
from pointset.studies.comparison.stopwatch import Batches, Ready, Timed, make_ready, time_batches
from pointset.training.recipe import Recipe


@dataclass(frozen=True)
class Cost:
    """Of training one model for one epoch, without validation; numbers are None where it failed."""

    model: str
    width: int
    layers: int
    parameters: int | None = None
    seconds_per_epoch: float | None = None  # median over the rounds
    cpu_seconds_per_epoch: float | None = None  # median of the processor's time, which other work changes little
    spread: float | None = None  # standard deviation over the rounds, in seconds per epoch; None for one round
    graphs_per_second: float | None = None
    peak_memory_bytes: int | None = None  # above what data, libraries and model take before the first step
    setup_seconds: float | None = None  # to read the data and to make the model
    timed_share: float | None = None  # of an epoch's graphs: 1 where nothing is extrapolated
    failure: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def measure_cost(
    recipes: Sequence[Recipe],
    *,
    batches: int | None = 20,
    repeats: int = 3,
    data_dir: str | Path | None = None,
    threads: int = 1,
    progress: bool | None = None,
) -> list[Cost]:
    """Time an epoch of each recipe's model, and the memory that it needs.

    Times on a machine with other work are worth little alone and much as ratios. So all models are made first, each in
    a process of its own; then in each of ``repeats`` rounds one after the other trains on the same batches, the first
    ones of an epoch of the first recipe, while the others wait. An epoch is extrapolated by the share of its graphs.

    Args:
        recipes: of the same data.
        batches: how many of an epoch are timed in each round; None for the whole epoch.
        repeats: rounds.
        data_dir: where the data lies.
        threads: of the process that works.
        progress: whether to show a bar; by default where stderr is a terminal.

    Returns:
        A cost for each recipe, in order. A model that fails has its message in ``failure``.

    Raises:
        SpecError: a number is impossible.
        MissingDataError: the data is nowhere.
    """
    for name, number in (("batches", batches), ("repeats", repeats), ("threads", threads)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise SpecError(f"got {name}={number!r}; expected a whole number, at least 1")
    folder = None if data_dir is None else Path(data_dir)
    steps = len(recipes) * (1 + repeats)
    with own_processes(len(recipes)) as processes, progress_bar("cost", steps, show=progress) as advance:
        ready: list[Ready | None] = []
        for recipe, process in zip(recipes, processes, strict=True):
            ready.append(process.call(make_ready, recipe, folder, threads))
            advance(1)
        epoch: Batches = next((one.batches for one in ready if one is not None), [])
        timed_batches = epoch[:batches]
        for process in processes:
            process.call(time_batches, timed_batches[:1])  # what is done once and never again is not timed
        rounds: list[list[Timed | None]] = []
        for _ in range(repeats):
            rounds.append([])
            for process in processes:
                rounds[-1].append(process.call(time_batches, timed_batches))
                advance(1)
    graphs = sum(map(len, timed_batches)), sum(map(len, epoch))
    return [
        _cost(recipe, process, start, list(times), graphs)
        for recipe, process, start, times in zip(recipes, processes, ready, zip(*rounds, strict=True), strict=True)
    ]


def _cost(
    recipe: Recipe, process: OwnProcess, ready: Ready | None, rounds: list[Timed | None], graphs: tuple[int, int]
) -> Cost:
    """``graphs``: those that were timed, and those of an epoch."""
    parameters = None if ready is None else ready.parameters
    about: dict[str, Any] = {
        "model": recipe.model.preset,
        "width": recipe.model.dim,
        "layers": recipe.model.layers,
        "parameters": parameters,
        "setup_seconds": None if ready is None else ready.seconds,
    }
    times = [one for one in rounds if one is not None]
    if process.failure or not times:
        return Cost(**about, failure=process.failure)
    timed, all_graphs = graphs
    epochs = [one.seconds * all_graphs / timed for one in times]
    seconds = statistics.median(epochs)
    return Cost(
        **about,
        seconds_per_epoch=seconds,
        cpu_seconds_per_epoch=statistics.median(one.cpu_seconds * all_graphs / timed for one in times),
        spread=statistics.stdev(epochs) if len(epochs) > 1 else None,
        graphs_per_second=all_graphs / seconds,
        peak_memory_bytes=max(one.peak_bytes for one in times),
        timed_share=timed / all_graphs,
    )
