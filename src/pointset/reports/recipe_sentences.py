"""The recipe in plain sentences (:func:`recipe_sentences`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pointset.metrics import higher_is_better, metric_label
from pointset.registry import preset_title
from pointset.reports.charts import Axis
from pointset.reports.svg import add, drawing, finished
from pointset.runs.recipe import DatasetChoice, Expected, ModelChoice, Recipe, Schedule
from pointset.runs.records import RunRecord
from pointset.runs.result import RunResult
from pointset.text import capitalised, counted, listed, number, with_spread

_OPTIMISERS = {"adamw": "AdamW", "soap": "SOAP"}
_LOSSES = {
    "l1": "the mean absolute error (L1)",
    "smooth_l1": "the smooth L1 loss",
    "cross_entropy": "the cross-entropy",
    "bce": "the binary cross-entropy",
}
_DEFAULT_LOSSES = {"regression": "l1", "multi-class classification": "cross_entropy"}  # otherwise bce


def recipe_sentences(run: RunRecord) -> list[tuple[str, str]]:
    """(heading, sentences) for data, model, loss, optimiser, schedule and the choice of the best epoch."""
    recipe, result = run.recipe, run.result
    return [
        ("Data", _data(recipe.dataset, result)),
        ("Model", _model(recipe.model, result)),
        ("Optimiser", _optimiser(recipe, result)),
        ("Schedule", _schedule(recipe.schedule, recipe.trainer.epochs)),
        ("Choice", _choice(recipe, result, run.metric)),
    ]


def _data(dataset: DatasetChoice, result: RunResult | None) -> str:
    title = result.dataset.title if result is not None and result.dataset.title else dataset.name or dataset.file
    text = [f"{title or 'Own data'}."]
    if dataset.targets:
        text.append(f"Targets: {listed(dataset.targets, 13)}.")
    if result is not None and result.split_sizes:
        sizes = [f"{result.split_sizes[part]:,} {part}" for part in result.split_sizes]
        text.append(f"Graphs: {listed(sizes)}.")
    if dataset.fold is not None:
        text.append(f"Fold {dataset.fold} of {dataset.folds} of a cross-validation, counted from 0.")
    if dataset.options:
        text.append(f"Options: {listed([f'{key} = {value}' for key, value in dataset.options.items()], 8)}.")
    if dataset.weighted_edges is not None:
        text.append(f"Column {dataset.weighted_edges} of the edge features is the weight of the edges.")
    return " ".join(text)


def _model(model: ModelChoice, result: RunResult | None) -> str:
    name = preset_title(model.preset)
    size = f"{counted(model.layers, 'layer')} of {counted(model.dim, 'channel')}"
    text = f"{capitalised(name)} with {size}"
    if result is not None and result.parameters:
        text += f", {result.parameters:,} parameters"
    if result is None or result.level == "graph":
        text += f"; the points of a graph are pooled by their {model.pooling}"
    noise = f" Gaussian noise of size {number(model.noise)} on the coordinates while training." if model.noise else ""
    return f"{text}.{noise}"


def _optimiser(recipe: Recipe, result: RunResult | None) -> str:
    loss = recipe.loss or _DEFAULT_LOSSES.get(result.task, "bce") if result is not None else recipe.loss
    optimizer, trainer = recipe.optimizer, recipe.trainer
    method = _OPTIMISERS.get(optimizer.method, optimizer.method)
    text = [f"{method} on {_LOSSES.get(loss or '', loss or 'the usual loss of the task')}"]
    if result is not None and result.is_regression and recipe.scale_targets:
        text[0] += " of normalised targets"
    text[0] += f", learning rate {number(optimizer.lr)}, weight decay {number(optimizer.weight_decay)}"
    if optimizer.clip is not None:
        text[0] += f", gradients clipped at norm {number(optimizer.clip)}"
    if trainer.batch_size:
        text.append(f"Batches of {counted(trainer.batch_size, 'graph')}")
    if trainer.ema is not None:
        text.append(f"The weights are a moving average with decay {number(trainer.ema)}")
    if trainer.precision != "32":
        text.append(f"Precision {trainer.precision}")
    return ". ".join(text) + "."


def _schedule(schedule: Schedule, epochs: int | None) -> str:
    steps = []
    if schedule.warmup:
        steps.append(f"rises in a line over {_epochs(schedule.warmup)}")
    shapes = {
        "constant": "stays as it is",
        "cosine": "then falls to the end along a cosine",
        "restarts": f"then falls along a cosine again and again, every {_epochs(schedule.cosine)}",
        "anneal": f"stays, and falls along a cosine over the last {_epochs(schedule.cosine)}"
        if schedule.cosine
        else "stays as it is",
    }
    steps.append(shapes.get(schedule.shape, f"follows the shape {schedule.shape}"))
    total = f"{counted(epochs, 'epoch')}. " if epochs else ""
    return f"{total}The learning rate {', '.join(steps)}."


def _choice(recipe: Recipe, result: RunResult | None, metric: str | None) -> str:
    if result is not None and not result.val:
        return "The weights of the last epoch were kept, as there is no validation split."
    text = f"The weights of the epoch with the best validation {metric_label(metric or 'score')} were kept"
    if result is not None and result.best_epoch is not None:
        text += f": epoch {result.best_epoch}"
    if result is not None and result.stopped_early:
        text += f"; training stopped early, after epoch {result.epochs}"
    if recipe.trainer.patience is not None:
        text += f"; training stops after {counted(recipe.trainer.patience, 'epoch')} without a better one"
    return f"{text}."


def _epochs(number_of: float) -> str:
    return f"{number(number_of)} epoch{'' if number_of == 1 else 's'}"


# The result beside the paper's, in words and as a strip (:func:`verdict_on`).


_FAR = 20  # standard deviations from which their number says nothing more
_PARAMETERS_ALIKE = 0.15  # relative difference of the numbers of parameters that is not worth a note
_WIDTH, _HEIGHT, _MARGIN = 380.0, 88.0, 16.0


class Verdict(NamedTuple):
    """What is said of a result."""

    word: str  # better, worse, level
    sentence: str
    notes: list[str]
    strip: str  # markup


def verdict_on(
    ours: float, std: float | None, runs: int, expected: Expected, *, one_fold: bool = False
) -> Verdict | None:
    """Compare a test score, the mean of ``runs`` runs, with the paper's; None where there is no number to compare.

    ``one_fold`` says that the run is one fold of a cross-validation.
    """
    if not (math.isfinite(ours) and math.isfinite(expected.value)):
        return None
    better = (ours > expected.value) == higher_is_better(expected.metric)
    difference = abs(ours - expected.value)
    relative = _relative(ours, expected.value)
    paper = f"the paper's {with_spread(expected.value, expected.std)}"
    if difference == 0 or (expected.std is not None and difference <= expected.std):
        word = "level"
        sentence = f"Level with {paper}: the difference of {number(difference, 2)} is within its spread."
        if difference == 0:
            sentence = f"The same as {paper}."
    else:
        word = "better" if better else "worse"
        sentence = f"{word.capitalize()} than {paper} by {number(difference, 2)}{relative}."
        if expected.std and difference < _FAR * expected.std:
            sentence += f" That is {number(difference / expected.std, 2)} times its standard deviation."
    return Verdict(word, sentence, _notes(expected, runs, one_fold), _strip(ours, std, expected))


def recipe_notes(changes: Sequence[str], parameters: int | None, expected: Expected) -> list[str]:
    """What makes the comparison with the paper less than fair: changed settings, another size."""
    notes = []
    if changes:
        notes.append(f"Settings of the recipe were changed on the command line: {', '.join(changes)}.")
    if parameters and expected.parameters:
        ratio = parameters / expected.parameters
        if abs(ratio - 1) > _PARAMETERS_ALIKE:
            size = f"{parameters:,} parameters; the paper's has {expected.parameters:,}"
            notes.append(f"The model is {'larger' if ratio > 1 else 'smaller'} than the paper's: {size}.")
    return notes


def _relative(ours: float, paper: float) -> str:
    """`` (12 %)``, or `` (3.2 times as large)``."""
    if not paper:
        return ""
    ratio = ours / paper
    return f" ({number(ratio, 2)} times as large)" if ratio >= 2 else f" ({abs(ratio - 1):.1%})".replace("%", " %")


def _notes(expected: Expected, runs: int, one_fold: bool) -> list[str]:
    notes = []
    if one_fold:
        notes.append("This is one fold of a cross-validation; the paper's value is the mean over all folds.")
    elif runs == 1:
        of_paper = f"the paper's value is the mean of {expected.seeds} seeds" if (expected.seeds or 0) > 1 else ""
        rest = f"; {of_paper}" if of_paper else ""
        notes.append(f"This is one run with one seed{rest}: another seed would give a somewhat different number.")
    elif expected.seeds and expected.seeds != runs:
        notes.append(f"Mean of {runs} runs here, of {expected.seeds} in the paper.")
    if expected.note:
        notes.append(expected.note)
    return notes


def _strip(ours: float, std: float | None, expected: Expected) -> str:
    """A line with both values; a band is the standard deviation. Better is always to the right."""
    spreads = [ours - (std or 0), ours + (std or 0), expected.value - (expected.std or 0)]
    spreads.append(expected.value + (expected.std or 0))
    axis = Axis.around([spreads], margin=0.25)
    up = higher_is_better(expected.metric)

    def across(value: float) -> float:
        share = float(axis.shares(value))
        return _MARGIN + (share if up else 1 - share) * (_WIDTH - 2 * _MARGIN)

    name = metric_label(expected.metric)
    described = f"{name}: {number(ours)} here, {number(expected.value)} in the paper; right is better"
    root = drawing(_WIDTH, _HEIGHT, described, "strip")
    line = 34.0
    add(root, "path", d=f"M{_MARGIN:.0f} {line:.0f}H{_WIDTH - _MARGIN:.0f}", class_="axis")
    for value, spread, style in ((expected.value, expected.std, "c7"), (ours, std, "c1")):
        if spread:
            left, right = sorted((across(value - spread), across(value + spread)))
            add(root, "rect", x=left, y=line - 9, width=right - left, height=18.0, rx=9.0, class_=f"band {style}")
    for value, text, style, below in ((expected.value, "paper", "c7", True), (ours, "this run", "c1", False)):
        x = across(value)
        anchor = "start" if x < 70 else "end" if x > _WIDTH - 70 else "middle"
        shift = {"start": -6.0, "end": 6.0, "middle": 0.0}[anchor]
        add(root, "circle", cx=x, cy=line, r=7.0, class_=f"dot {style}")
        place: dict[str, Any] = {"x": x + shift, "y": line + (42 if below else 24), "text_anchor": anchor}
        add(root, "text", f"{text} {number(value)}", class_="note", **place)
    add(root, "text", "better →", x=_WIDTH - _MARGIN, y=line - 14, text_anchor="end", class_="tick")
    return finished(root)
