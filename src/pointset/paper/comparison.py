"""Several models on the same data at the same number of parameters: :func:`compare`.

The width of each model is chosen to match (:func:`matched`); every run is trained by the same loop, in a process and a
folder of its own, and ``comparison.json`` holds what came out (:class:`Comparison`).
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from pointset.datasets.card import Card
from pointset.datasets.splits.parts import whole_number
from pointset.errors import FileFormatError, SpecError
from pointset.files import finite, write_json
from pointset.metrics import metric_named
from pointset.paper.processes import own_processes
from pointset.registry import is_baseline, preset_named
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe, check_schedule
from pointset.runs.recipe_files import changed
from pointset.runs.records import Columns, read_columns
from pointset.training.data import build_model, load_data
from pointset.training.run import check_same_recipe, repeats_of, train
from pointset.training.scoring import check_metric

COMPARISON_FILE = "comparison.json"
TOLERANCE = 0.15  # of the parameters: what still counts as the same size
_WIDEST = 4096
_LOOK_AHEAD = 32  # widths: models with heads take only multiples of a small number


def matched(recipe: Recipe, model: str, parameters: int, card: Card, *, tolerance: float = TOLERANCE) -> Recipe:
    """The recipe with another model, as wide as it takes to have nearest to ``parameters`` parameters.

    All else stays: data, split, loop, loss, metric, number of layers, seed. Where the model is not the recipe's own,
    the paper's result is left out, as it is not this model's. A baseline gets no noise on coordinates, as it has none,
    and the features of edges as features, not as the weights of a matrix that it does not decompose.

    ``card`` is that of the recipe's data. Where no width is within ``tolerance``, a share of ``parameters``, a
    SpecError names the nearest.
    """
    preset_named(model)
    parameters = whole_number(parameters, "parameters", 1)
    other = with_model(recipe, model)
    widths = _Widths(other, card)
    width = min(widths.around(parameters), key=lambda width: abs(widths.at(width) - parameters))
    found = widths.at(width)
    if abs(found - parameters) > tolerance * parameters:
        raise SpecError(
            f"{model} of {recipe.model.layers} layers has {found:,} parameters at width {width}, the nearest to the "
            f"{parameters:,} asked for; expected one within {tolerance:.0%}. Ask for another number of parameters, or "
            "set model.layers"
        )
    return changed(other, {"model.dim": width})


def with_model(recipe: Recipe, model: str) -> Recipe:
    """The recipe with another model of the same width; see :func:`matched` on what else that changes."""
    changes: dict[str, object] = {"model.preset": model}
    if model != recipe.model.preset:
        changes |= {"name": f"{recipe.name}-{model}", "title": "", "expected": None}
    if recipe.model.matrix not in (None, *preset_named(model).matrices):
        changes["model.matrix"] = None
    if is_baseline(model):
        changes |= {"model.noise": 0.0, "dataset.weighted_edges": None}
    return changed(recipe, changes)


def count_parameters(recipe: Recipe, card: Card) -> int:
    """Of the recipe's model, without making any weights (device meta)."""
    with torch.device("meta"):
        return build_model(recipe, card).num_parameters


class _Widths:
    """Parameters by width; they grow with it."""

    def __init__(self, recipe: Recipe, card: Card):
        self.recipe, self.card = recipe, card
        self.known: dict[int, int | None] = {}  # None: the model cannot be so wide
        self.refusal = SpecError(f"{recipe.model.preset} cannot be of any width")

    def around(self, parameters: int) -> list[int]:
        """The first possible width with at least so many parameters, or the widest, and the one before."""
        place = bisect_left(range(1, _WIDEST + 1), parameters, key=lambda width: self.at(self._from(width)))
        above = self._from(min(place + 1, _WIDEST))
        narrower = (width for width in range(above - 1, max(above - _LOOK_AHEAD, 0), -1) if self._has(width))
        return [*islice(narrower, 1), above]

    def at(self, width: int) -> int:
        """Parameters at a possible width."""
        if not self._has(width):
            raise self.refusal
        return self.known[width] or 0

    def _from(self, width: int) -> int:
        """The first possible width from here on."""
        return next((wider for wider in range(width, width + _LOOK_AHEAD) if self._has(wider)), width)

    def _has(self, width: int) -> bool:
        if width not in self.known:
            try:
                self.known[width] = count_parameters(changed(self.recipe, {"model.dim": width}), self.card)
            except SpecError as refusal:
                self.known[width], self.refusal = None, refusal
        return self.known[width] is not None


@dataclass(frozen=True)
class PlannedModel:
    """A model with the recipe that trains it; none where no width gives it the right number of parameters."""

    model: str
    recipe: Recipe | None
    parameters: int | None = None
    failure: str = ""


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison before it begins."""

    recipe: Recipe  # of the data and the loop
    parameters: int  # that every model should have
    tolerance: float
    metric: str
    title: str  # of the data
    models: tuple[PlannedModel, ...]

    @property
    def possible(self) -> list[Recipe]:
        """The recipes of the models that can be made."""
        return [one.recipe for one in self.models if one.recipe is not None]


def plan_comparison(
    recipe: Recipe,
    models: Sequence[str],
    *,
    parameters: int | None = None,
    tolerance: float = TOLERANCE,
    data_dir: str | Path | None = None,
    progress: bool | None = None,
) -> ComparisonPlan:
    """Read the data, and find the width of each model. All compute on one thread, unless the recipe says otherwise.

    The arguments are those of :func:`compare`; ``progress``: whether bars are shown, by default on a terminal.
    """
    if not models:
        raise SpecError("got no models; expected at least one, such as pst")
    for model in models:
        preset_named(model)
    if len(set(models)) < len(models):
        raise SpecError(f"got the models {', '.join(models)}; expected each once")
    check_schedule(recipe.schedule, recipe.trainer.epochs)
    recipe = changed(recipe, {"trainer.threads": recipe.trainer.threads or 1})
    card = load_data(recipe, data_dir, progress=progress).card
    metric = check_metric(recipe.metric, card)
    wanted = count_parameters(recipe, card) if parameters is None else parameters

    def planned(model: str) -> PlannedModel:
        try:
            fitting = matched(recipe, model, wanted, card, tolerance=tolerance)
        except SpecError as error:
            return PlannedModel(model, None, failure=str(error))
        return PlannedModel(model, fitting, count_parameters(fitting, card))

    return ComparisonPlan(recipe, wanted, tolerance, metric, card.title, tuple(map(planned, models)))


Scores = dict[str, float | None]  # by metric
Part = Literal["test", "val"]


@dataclass(frozen=True)
class Training:
    """One run of a model, from its result and its epochs."""

    run: str  # its folder inside the comparison's
    seed: int
    test: Scores  # of the weights of the best epoch by validation; scored once
    val: Scores  # of the same weights
    per_target: dict[str, Scores]  # of the test part
    best_epoch: int
    epochs: int
    seconds: float
    seconds_per_epoch: float | None  # median, with validation
    graphs_per_second: float | None
    peak_memory_bytes: int  # of the whole process, with libraries and data
    curve: tuple[tuple[int, float], ...]  # (epoch, validation score)


@dataclass(frozen=True)
class Contender:
    """A model and its runs; where one of them failed, ``failure`` says why."""

    model: str
    width: int | None
    layers: int
    parameters: int | None
    runs: tuple[Training, ...] = ()
    failure: str = ""

    def score(self, part: Part, metric: str) -> tuple[float | None, float | None]:
        """Mean over the runs and standard deviation (division by their number minus one)."""
        known = [value for run in self.runs if (value := getattr(run, part).get(metric)) is not None]
        return (statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None) if known else (None, None)

    def median(self, quantity: str) -> float | None:
        """Of a field of the runs: ``seconds_per_epoch``, ``best_epoch``, …; None where no run has it."""
        known = [value for run in self.runs if (value := getattr(run, quantity)) is not None]
        return statistics.median(known) if known else None

    @property
    def peak_memory_bytes(self) -> int | None:
        """The largest of the runs."""
        return max((run.peak_memory_bytes for run in self.runs), default=None)

    @property
    def seconds(self) -> float:
        """Of all runs."""
        return sum(run.seconds for run in self.runs)

    def median_curve(self) -> list[tuple[int, float]]:
        """(epoch, median of the runs that came so far)."""
        by_epoch: dict[int, list[float]] = {}
        for run in self.runs:
            for epoch, value in run.curve:
                by_epoch.setdefault(epoch, []).append(value)
        return [(epoch, statistics.median(values)) for epoch, values in sorted(by_epoch.items())]


@dataclass(frozen=True)
class Comparison:
    """Models on the same data, split, loop and metric."""

    recipe: str
    title: str  # of the data
    metric: str
    higher_is_better: bool
    parameters: int  # that every model was to have
    tolerance: float
    epochs: int
    seeds: int
    contenders: tuple[Contender, ...]

    @property
    def best(self) -> Contender | None:
        """By the mean test score, among those with a score for every seed; None where none has."""
        sign = -1 if self.higher_is_better else 1
        whole = [one for one in self.contenders if len(one.runs) == self.seeds]
        scored = [(mean, one) for one in whole if (mean := one.score("test", self.metric)[0]) is not None]
        return min(scored, key=lambda pair: sign * pair[0])[1] if scored else None

    @property
    def failed(self) -> list[Contender]:
        """Those that could not be trained to the end."""
        return [one for one in self.contenders if one.failure]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; with means, deviations and the curve of each model for those who only read."""
        plain: dict[str, Any] = finite(asdict(self))
        best = self.best
        for contender, values in zip(self.contenders, plain["contenders"], strict=True):
            for part in ("test", "val"):
                mean, std = contender.score(part, self.metric)
                values[f"{part}_mean"], values[f"{part}_std"] = finite([mean, std])
            values["curve"] = contender.median_curve()
            values["is_best"] = contender is best
        return plain


def compare(
    recipe: Recipe,
    models: Sequence[str],
    run_dir: str | Path,
    *,
    parameters: int | None = None,
    tolerance: float = TOLERANCE,
    seeds: int = 1,
    resume: bool = False,
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: str = "auto",
) -> Comparison:
    """Train each model as wide as it takes to have the same number of parameters, and put the results side by side.

    Every run is one of :func:`pointset.training.run.train`, in ``run_dir/MODEL/seed-K``; what is known is written to
    ``run_dir/comparison.json`` after each. With ``resume=True`` finished runs are not repeated, and a run that was
    interrupted is continued. A model that fails is in the comparison with its message, and does not sink the others.

    Args:
        recipe: data, split, loop and metric of all.
        models: names of :func:`pointset.registry.preset_names`.
        run_dir: a new folder, or that of the comparison to resume.
        parameters: of each model; by default those of the recipe's own.
        tolerance: how far a model may be from it, as a share.
        seeds: runs of each model, with seeds from the recipe's on.
        resume: continue what is in the folder.
        data_dir: where the data lies.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        watch: how progress is shown: ``"auto"``, ``"bar"``, ``"plain"`` or ``"quiet"``.

    Raises:
        SpecError: there are no models, one is unknown, or the folder holds something else.
        MissingDataError: the data is nowhere.
        KeyboardInterrupt: Ctrl-C; what is finished is kept.

    Example:
        >>> recipe = pointset.training.read_recipe("counting-small")  # doctest: +SKIP
        >>> compare(recipe, ["pst", "psds", "gin"], "runs/three").best.model  # doctest: +SKIP
    """
    progress = {"bar": True, "auto": None}.get(watch, False)
    plan = plan_comparison(
        recipe, models, parameters=parameters, tolerance=tolerance, data_dir=data_dir, progress=progress
    )
    return run_comparison(plan, run_dir, seeds=seeds, resume=resume, data_dir=data_dir, device=device, watch=watch)


def run_comparison(
    plan: ComparisonPlan,
    run_dir: str | Path,
    *,
    seeds: int = 1,
    resume: bool = False,
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: str = "auto",
    tell: Callable[[str], None] | None = None,
) -> Comparison:
    """Train what was planned; ``tell`` gets a line before each run. See :func:`compare`."""
    folder = Path(run_dir)
    runs = {
        one.model: [(f"{one.model}/{part.name}", part.recipe) for part in repeats_of(one.recipe, seeds, None)]
        for one in plan.models
        if one.recipe is not None
    }
    _check_folder(folder, [run for several in runs.values() for run in several], resume)
    contenders = {
        one.model: Contender(
            model=one.model,
            width=None if one.recipe is None else one.recipe.model.dim,
            layers=plan.recipe.model.layers,
            parameters=one.parameters,
            failure=one.failure,
        )
        for one in plan.models
    }
    for model, contender in contenders.items():
        for name, recipe in runs.get(model, []):
            if tell is not None:
                tell(f"{name}: {contender.parameters:,} parameters")
            result, failure = trained_alone(recipe, folder / name, data_dir, device, watch)
            trained = () if result is None else (_training(name, folder / name, result),)
            contenders[model] = replace(contenders[model], runs=(*contenders[model].runs, *trained), failure=failure)
            _written(folder, plan, seeds, contenders.values())
            if result is None:
                break
    return _written(folder, plan, seeds, contenders.values())


def trained_alone(
    recipe: Recipe, folder: Path, data_dir: str | Path | None, device: str, watch: str
) -> tuple[dict[str, Any] | None, str]:
    """The result of a run in a process of its own, or why there is none; a finished run needs no process."""
    if RunFolder(folder).is_finished:
        return train(recipe, folder, resume=True, data_dir=data_dir), ""
    with own_processes(1) as (process,):
        trained = partial(train, recipe, folder, resume=True, data_dir=data_dir, device=device, watch=watch)
        result = process.call(trained)
    return result, process.failure


def _check_folder(folder: Path, runs: Sequence[tuple[str, Recipe]], resume: bool) -> None:
    """All of them before the first begins."""
    if RunFolder(folder).has_run or (folder.exists() and not folder.is_dir()):
        raise SpecError(f"{folder} is a file or the folder of a single run; choose another with --run-dir")
    begun = [(name, recipe) for name, recipe in runs if RunFolder(folder / name).has_run]
    if begun and not resume:
        raise SpecError(
            f"{folder} holds runs already ({begun[0][0]}, …); resume them with --resume, or choose another folder "
            "with --run-dir"
        )
    for name, recipe in begun:
        check_same_recipe(RunFolder(folder / name), recipe)


def _training(name: str, folder: Path, result: dict[str, Any]) -> Training:
    known = {field.name: result[field.name] for field in fields(Training) if field.name in result}
    known["seconds_per_epoch"] = float(np.median(read_columns(RunFolder(folder).metrics)["seconds"]))
    return Training(run=name, curve=validation_curve(RunFolder(folder), result["metric"]), **known)


def validation_curve(folder: RunFolder, metric: str) -> tuple[tuple[int, float], ...]:
    """(epoch, score) of a run's epochs that were validated and gave a number."""
    epochs = _validated_epochs(folder, metric)
    return tuple(zip(epochs["epoch"].astype(int).tolist(), epochs["score"].tolist(), strict=True))


def validation_times(folder: RunFolder, metric: str) -> tuple[float, ...]:
    """Seconds of training and validation until the end of each of these epochs; none where they were not noted."""
    elapsed = _validated_epochs(folder, metric).get("elapsed", np.zeros(0))
    return tuple(elapsed.round(3).tolist())


def _validated_epochs(folder: RunFolder, metric: str) -> Columns:
    """``epoch``, ``score`` and, where it was noted, ``elapsed`` of the epochs that were validated."""
    try:
        epochs = read_columns(folder.metrics) if folder.metrics.exists() else {}
    except FileFormatError as error:
        raise FileFormatError(f"{error}. Delete the folder, to run it again") from None
    if f"val_{metric}" not in epochs:
        return {"epoch": np.zeros(0), "score": np.zeros(0)}
    scores = epochs[f"val_{metric}"]
    known = np.isfinite(scores)
    found = {"epoch": epochs["epoch"][known], "score": scores[known]}
    if "seconds" in epochs and np.isfinite(epochs["seconds"]).all():
        found["elapsed"] = np.cumsum(epochs["seconds"])[known]
    return found


def _written(folder: Path, plan: ComparisonPlan, seeds: int, contenders: Iterable[Contender]) -> Comparison:
    """What is known so far."""
    found = Comparison(
        recipe=plan.recipe.name,
        title=plan.title,
        metric=plan.metric,
        higher_is_better=metric_named(plan.metric).higher_is_better,
        parameters=plan.parameters,
        tolerance=plan.tolerance,
        epochs=plan.recipe.trainer.epochs,
        seeds=seeds,
        contenders=tuple(contenders),
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / COMPARISON_FILE, found.as_dict())
    return found
