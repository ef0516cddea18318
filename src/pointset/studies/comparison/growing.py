"""Time and memory of a training step against the size of graphs (:func:`growth`)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.errors import SpecError
from pointset.progress import progress_bar
from pointset.studies.comparison.growing_steps import make_step_ready, time_step
from pointset.studies.comparison.matching import count_parameters, matched
from pointset.studies.comparison.own_process import OwnProcess, own_processes
from pointset.studies.comparison.stopwatch import Timed
from pointset.training.recipe import Recipe

SIZES = (16, 32, 64, 128, 256)
_FITTED = 3  # the last points: with few nodes it is the number of operations that costs, not their size
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

    Models are measured as by :func:`~pointset.studies.comparison.cost.measure_cost`: each in a process of its own, one
    at a time, round by round on the same graphs. One that fails at a size is not tried on larger ones.

    Args:
        models: names of :func:`pointset.baselines.catalogue.model_names`.
        sizes: numbers of nodes.
        parameters: of each model, within 15 %.
        layers: of each model.
        graphs: in a batch.
        repeats: rounds.
        threads: of the process that works.
        seed: of graphs and weights.
        progress: whether to show a bar; by default where stderr is a terminal.

    Raises:
        SpecError: there is no such model, or a number is impossible.
    """
    numbers = [("sizes", size) for size in sizes] + [("graphs", graphs), ("repeats", repeats), ("threads", threads)]
    for name, number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise SpecError(f"got {name}={number!r}; expected a whole number, at least 1")
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
