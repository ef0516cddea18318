"""What training costs, measured side by side: an epoch (:func:`measure_cost`), and a step on ever larger graphs
(:func:`growth`).

Every model has a process of its own, so that its peak of memory is its own; only one works at a time. The process makes
its model once (:func:`make_ready`, :func:`make_step_ready`) and then trains when it is told to.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch

from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.splits.parts import whole_number
from pointset.encoders.batch import PointBatch, collate
from pointset.paper.comparison import count_parameters, matched
from pointset.paper.processes import OwnProcess, own_processes
from pointset.points.convert import to_points_many
from pointset.progress import progress_bar
from pointset.runs.recipe import Recipe
from pointset.training.batches import training_batches
from pointset.training.data import TrainingData, build_model, check_memory, load_data
from pointset.training.timing import Batches, Stopwatch, Timed, training_loader


class Ready(NamedTuple):
    """A model is made."""

    parameters: int
    batches: Batches  # of its first epoch
    seconds: float  # to read the data and make the model


_on_dataset: list[tuple[Stopwatch, Recipe, TrainingData]] = []  # the one model of this process
_on_random_graphs: list[tuple[Stopwatch, str]] = []  # likewise, with its matrix, where random graphs are the data


def make_ready(recipe: Recipe, data_dir: Path | None, threads: int) -> Ready:
    """Read the data and make the model of this process."""
    start = time.perf_counter()
    data = load_data(recipe, data_dir, progress=False)
    check_memory(recipe, data)
    model = build_model(recipe, data.card)
    graphs = data.part("train")
    batches = training_batches(data.points.num_nodes[graphs], data.points.ranks[graphs], recipe)
    _on_dataset[:] = [(Stopwatch(recipe, model, data.card.task, threads), recipe, data)]
    return Ready(model.num_parameters, list(batches), time.perf_counter() - start)


def time_batches(batches: Batches) -> Timed:
    """Train the model of this process on these batches; gathering them belongs to it."""
    ((stopwatch, recipe, data),) = _on_dataset
    return stopwatch.time(training_loader(recipe, data, batches))


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
    for name, number in {"repeats": repeats, "threads": threads, "batches": batches}.items():
        if number is not None:
            whole_number(number, name, 1)
    folder = None if data_dir is None else Path(data_dir)
    steps = len(recipes) * (1 + repeats)
    ready: list[Ready | None] = []
    rounds: list[list[Timed | None]] = []
    with own_processes(len(recipes)) as processes, progress_bar("cost", steps, show=progress) as advance:
        for recipe, process in zip(recipes, processes, strict=True):
            ready.append(process.call(make_ready, recipe, folder, threads))
            advance(1)
        epoch: Batches = next((one.batches for one in ready if one is not None), [])
        timed_batches = epoch[:batches]
        for process in processes:
            process.call(time_batches, timed_batches[:1])  # what is done once and never again is not timed
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
    about: dict[str, Any] = {
        "model": recipe.model.preset,
        "width": recipe.model.dim,
        "layers": recipe.model.layers,
        "parameters": None if ready is None else ready.parameters,
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


SIZES = (16, 32, 64, 128, 256)
_FITTED = 3  # the last points: with few nodes it is the number of operations that costs, not their size
_EDGES_PER_NODE = 1.5  # a mean degree of 3, somewhat above that of molecules
ANY_GRAPHS = Card(
    name="random",
    title="random graphs",
    description="",
    level=Level.GRAPH,
    task=Task.REGRESSION,
    targets=(Target("y"),),
    metric=Metric.MAE,
    split="",
)


def make_step_ready(recipe: Recipe, card: Card, threads: int) -> None:
    """Make the model of this process."""
    model = build_model(recipe, card)
    _on_random_graphs[:] = [(Stopwatch(recipe, model, card.task, threads), model.matrix)]


def time_step(nodes: int, graphs: int, seed: int) -> Timed:
    """One training step of the model of this process on so many random graphs of this size."""
    ((stopwatch, matrix),) = _on_random_graphs
    return stopwatch.time([random_batch(nodes, graphs, seed, matrix)])


def random_batch(nodes: int, graphs: int, seed: int, matrix: str) -> PointBatch:
    """Graphs drawn uniformly among those with 3n/2 edges, with targets from a normal distribution."""
    drawn = [nx.gnm_random_graph(nodes, round(_EDGES_PER_NODE * nodes), seed=seed + index) for index in range(graphs)]
    batch = collate(list(to_points_many(drawn, matrix=matrix, dtype=torch.float32, workers=1, progress=False)))
    targets = torch.randn(graphs, 1, generator=torch.Generator().manual_seed(seed))
    return dataclasses.replace(batch, y=targets)


@dataclass(frozen=True)
class Step:
    """A training step on a batch of graphs of ``nodes`` nodes."""

    nodes: int
    seconds: float  # median over the rounds
    cpu_seconds: float  # likewise of the processor's time, which other work on the machine changes little
    spread: float | None  # standard deviation over the rounds; None for one round
    peak_memory_bytes: int  # above what libraries and model take before the first step


@dataclass(frozen=True)
class Growth:
    """Of one model. The exponents a are those of n^a, by least squares on the logarithms of the last three sizes; that
    of time is of the processor's.
    """

    model: str
    width: int
    layers: int
    parameters: int
    graphs: int  # in a batch
    steps: tuple[Step, ...]  # up to the largest size that was possible
    time_exponent: float | None
    memory_exponent: float | None
    failure: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def growth(
    models: Sequence[str],
    sizes: Sequence[int] = SIZES,
    *,
    parameters: int = 500_000,
    layers: int = 4,
    graphs: int = 4,
    repeats: int = 3,
    threads: int = 1,
    seed: int = 0,
    progress: bool | None = None,
) -> list[Growth]:
    """Time a training step on random graphs of n nodes and 3n/2 edges, for growing n; decomposing is not in it.

    Models, named as by :func:`pointset.registry.preset_names`, have so many ``parameters`` within 15 %, and are
    measured as by :func:`measure_cost`: each in a process of its own, one at a time, round by round on the same graphs.
    One that fails at a size is not tried on larger ones. ``sizes`` are numbers of nodes, ``graphs`` is the number in a
    batch, and ``seed`` that of graphs and weights.
    """
    numbers = [("graphs", graphs), ("repeats", repeats), ("threads", threads), *(("sizes", size) for size in sizes)]
    for name, number in numbers:
        whole_number(number, name, 1)
    base = Recipe.from_dict(
        {"name": "growth", "seed": seed, "model": {"layers": layers}, "trainer": {"epochs": 1, "batch_size": graphs}}
    )
    recipes = [matched(base, model, parameters, ANY_GRAPHS) for model in models]
    steps: list[list[Step]] = [[] for _ in recipes]
    with own_processes(len(recipes)) as processes, progress_bar("sizes", len(sizes), show=progress) as advance:
        for recipe, process in zip(recipes, processes, strict=True):
            process.call(make_step_ready, recipe, ANY_GRAPHS, threads)
        for size in sorted(set(sizes)):
            for process in processes:
                process.call(time_step, size, graphs, seed)  # what is done once and never again is not timed
            rounds = [[process.call(time_step, size, graphs, seed) for process in processes] for _ in range(repeats)]
            for found, process, times in zip(steps, processes, zip(*rounds, strict=True), strict=True):
                if not process.failure:
                    found.append(_step(size, [one for one in times if one is not None]))
            advance(1)
    return [_growth(*parts, graphs) for parts in zip(recipes, processes, steps, strict=True)]


def _step(nodes: int, rounds: Sequence[Timed]) -> Step:
    seconds = [one.seconds for one in rounds]
    spread = statistics.stdev(seconds) if len(seconds) > 1 else None
    cpu_seconds = statistics.median(one.cpu_seconds for one in rounds)
    return Step(nodes, statistics.median(seconds), cpu_seconds, spread, max(one.peak_bytes for one in rounds))


def _growth(recipe: Recipe, process: OwnProcess, steps: Sequence[Step], graphs: int) -> Growth:
    last = steps[-_FITTED:]
    nodes = [one.nodes for one in last]
    return Growth(
        model=recipe.model.preset,
        width=recipe.model.dim,
        layers=recipe.model.layers,
        parameters=count_parameters(recipe, ANY_GRAPHS),
        graphs=graphs,
        steps=tuple(steps),
        time_exponent=fitted_exponent(nodes, [one.cpu_seconds for one in last]),
        memory_exponent=fitted_exponent(nodes, [one.peak_memory_bytes for one in last]),
        failure=process.failure,
    )


def fitted_exponent(nodes: Sequence[int], values: Sequence[float]) -> float | None:
    """The a of c·n^a, by least squares on logarithms; None where there are fewer than two points above 0."""
    points = [(size, value) for size, value in zip(nodes, values, strict=True) if value > 0]
    if len(points) < 2:
        return None
    n, cost = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(n, cost, 1)[0])
