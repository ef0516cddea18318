"""What the page of one run says, section by section (:func:`run_page`); the template only sets it in type."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import Any

import numpy as np

from pointset.metrics import COUNTING_BOUND, Task, higher_is_better, metric_label, metric_meaning
from pointset.registry import preset_title
from pointset.reports.charts import Cell, Table, Tile
from pointset.reports.examples import attention_figures, function_figure, worst_section
from pointset.reports.learning_curves import best_epoch, learning_curves
from pointset.reports.prediction_charts import prediction_section
from pointset.reports.scores import beside_baseline, part_score, score_section, shared_unit
from pointset.reports.uncertainty import trust_section
from pointset.reports.verdict import Verdict, recipe_notes, verdict_on
from pointset.runs.recipe import DatasetChoice, Recipe, Schedule, Trainer
from pointset.runs.records import RunRecord
from pointset.runs.result import RunResult
from pointset.text import (
    byte_size,
    capitalised,
    counted,
    duration,
    fixed,
    interval_text,
    listed,
    number,
    percent,
    whole_percent,
    with_interval,
)

_NORMALISED = "normalised_mae"
_LOSSES = {
    "l1": "the mean absolute error (L1)",
    "smooth_l1": "the smooth L1 loss",
    "mse": "the mean squared error",
    "cross_entropy": "the cross-entropy",
    "bce": "the binary cross-entropy",
}
_USUAL_LOSSES = {Task.REGRESSION: "l1", Task.MULTI_CLASS: "cross_entropy"}  # of other tasks it is bce
_OPTIMISERS = {"adamw": "AdamW", "soap": "SOAP"}
_PARTS = {"train": "to learn from", "val": "to choose the epoch", "test": "to test"}
_MOST_NAMED = 3  # targets that a sentence names
_HARMLESS = ("seed", "title", "dataset.fold", "trainer.workers", "trainer.threads", "trainer.checkpoint_minutes")


def run_page(run: RunRecord) -> dict[str, Any]:
    """The values of the template ``run.html.j2``; a section that has nothing to show is None or empty."""
    verdict, notes = _verdict(run)
    examples, result, noun = run.examples, run.result, _noun(run)
    started = str(run.environment.get("started", ""))[:16].replace("T", " ")  # to the minute
    return {
        "title": _title(run),
        "of_molecules": noun == "molecule",
        "eyebrow": " · ".join(filter(None, ("pointset run", run.recipe.name, started))),
        "lead": _lead(run),
        "verdict": verdict,
        "table": result.expected.table if result is not None and result.expected is not None else "",
        "notes": notes,
        "tiles": _unfinished_tiles(run) if result is None else _tiles(run, result, verdict),
        "curves": learning_curves(run),
        "learned_from": _learned_from(run, noun),
        "warnings": result.warnings if result is not None else [],
        "predictions": prediction_section(run, measured=noun == "molecule"),
        "trust": trust_section(run, noun),
        "scores": score_section(result, noun) if result is not None else None,
        "targets": _target_table(result) if result is not None else None,
        "worst": worst_section(run, noun),
        "functions": function_figure(examples.functions) if examples.functions is not None else None,
        "attention": attention_figures(examples.attention) if examples.attention is not None else None,
        "finished": result is not None,
        "recipe": [
            ("Data", _data(run.recipe.dataset, result)),
            ("Model", _model(run.recipe, result)),
            ("Optimiser", _optimiser(run.recipe, result)),
            ("Schedule", _schedule(run.recipe.schedule, run.recipe.trainer)),
            ("Choice", _choice(run.recipe, result, run.metric)),
        ],
        "recipe_text": run.recipe_text,
        "timings": _timings(run),
        "environment": _environment(run),
        "test_scored": result.test_scored if result is not None and result.test else "",
        "commands": _commands(run),
    }


# --- the headline: what was learned and how well


def _noun(run: RunRecord) -> str:
    """``molecule`` where there are SMILES, ``node`` in a node task, otherwise ``graph``."""
    if run.result is not None and run.result.split_of == "node":
        return "node"
    of_smiles = run.predictions is not None and run.predictions.has_smiles
    return "molecule" if of_smiles or any(one.graph.smiles for one in run.examples.worst) else "graph"


def _title(run: RunRecord) -> str:
    """``logS of delaney.csv`` for molecules of an own file; otherwise the title of the recipe."""
    file = run.recipe.dataset.file
    if file is None or run.result is None or _noun(run) != "molecule":
        return run.title
    targets = list(run.result.units) or list(run.result.per_target)
    what = listed(targets) if 0 < len(targets) <= _MOST_NAMED else f"{len(targets)} targets"
    return f"{what} of {PurePath(file).name}"


def _learned_from(run: RunRecord, noun: str) -> list[str]:
    """Sentences on what own data was learned from; none of a benchmark, which everybody knows."""
    result, file = run.result, run.recipe.dataset.file
    if result is None or file is None:
        return []
    name = PurePath(file).name
    sizes = [f"{size:,} {_PARTS.get(part, part)}" for part, size in result.split_sizes.items()]
    text = [f"{name}: {counted(sum(result.split_sizes.values()), noun)}, {listed(sizes)}."] if sizes else []
    if result.left_out:
        rows = (
            f"{counted(result.left_out, 'row')} cannot be used and {'was' if result.left_out == 1 else 'were'} left out"
        )
        text.append(f"{rows}; “pointset datasets check {shlex.quote(name)}” says which, and why.")
    return text


def _lead(run: RunRecord) -> str:
    """One or two sentences."""
    model = capitalised(preset_title(run.recipe.model.preset))
    result = run.result
    if result is None:
        done = f"{len(run.epochs.get('epoch', ())):,} of {run.recipe.trainer.epochs:,} epochs"
        return f"{model} is not trained to the end yet: {done} are done, and the test split is unseen."
    title, noun = result.dataset.title or result.dataset.name, _noun(run)
    learned = f"{model} learned from {f'“{title}”' if title else 'the data'} to {_aim(result, noun)}."
    metric = result.main_metric
    if result.test.get(metric) is None:
        why = "it is not a number" if result.test else "no graphs were held back to test on"
        return f"{learned} There is no test score: {why}."
    meaning = f" ({metric_meaning(metric)})" if metric_meaning(metric) else ""
    size = result.split_sizes.get("test")
    where = f"On {counted(size, f'test {noun}')} it has never seen" if size else "On the test split"
    found = part_score(result, "test", metric)
    score = f"{number(result.test.get(metric))} {shared_unit(result, metric)}".strip()
    if found.lower is not None and found.upper is not None:
        score = f"{with_interval(found.value, found.lower, found.upper)} {shared_unit(result, metric)}".strip()
    beside = beside_baseline(result)
    sentence = f" {beside.sentence}" if beside is not None else ""
    return f"{learned} {where}, its {metric_label(metric)}{meaning} is {score}.{sentence}"


def _aim(result: RunResult, noun: str) -> str:
    """``predict gap for each graph``."""
    targets = list(result.per_target) or list(result.units)
    what = noun if result.level == "graph" else result.level
    if result.is_multi_class:
        return f"distinguish {counted(len(result.classes), 'class')} of {what}s"
    if not targets or len(targets) > _MOST_NAMED:
        many = f"{len(targets)} {'numbers' if result.is_regression else 'labels'}" if targets else "the target"
        return f"predict {many} for each {what}"
    return f"predict {listed(targets)} for each {what}"


def _verdict(run: RunRecord) -> tuple[Verdict | None, list[str]]:
    """The comparison with the paper where there is one, and what must be said with it."""
    result = run.result
    if result is None or result.expected is None:
        return None, []
    ours = result.test.get(result.expected.metric)
    verdict = None if ours is None else verdict_on(ours, None, 1, result.expected, one_fold=result.fold is not None)
    if verdict is None:
        return None, []
    return verdict, verdict.notes + recipe_notes(_changed_settings(run), result.parameters, result.expected)


def _changed_settings(run: RunRecord) -> list[str]:
    """``key=value`` as given to ``pointset train``, which the run remembers, except what does not change the result."""
    command, recipe = run.environment.get("command"), run.recipe.as_dict()
    arguments = command if isinstance(command, list) else []
    changed = []
    for argument in arguments:
        if isinstance(argument, str) and "=" in argument and not argument.startswith("-"):
            key = argument.partition("=")[0]
            group, _, rest = key.partition(".")
            if group in recipe and (not rest or isinstance(recipe[group], dict)) and key not in _HARMLESS:
                changed.append(argument)
    return changed


def _unfinished_tiles(run: RunRecord) -> list[Tile]:
    best = best_epoch(run)
    if best is None or run.metric is None:
        return []
    value = number(float(run.epochs[f"val_{run.metric}"][best]))
    epoch = f"epoch {run.epochs['epoch'][best]:.0f}"
    return [Tile(f"best validation {metric_label(run.metric)} so far", value, epoch, "main")]


def _tiles(run: RunRecord, result: RunResult, verdict: Verdict | None) -> list[Tile]:
    """The key numbers, the most important first."""
    metric = result.main_metric
    name = metric_label(metric)
    tiles = []
    if result.test:
        up = result.higher_is_better if metric == result.metric else higher_is_better(metric)
        direction = "higher is better" if up else "lower is better"
        found = part_score(result, "test", metric)
        unit = shared_unit(result, metric)
        interval = f"95 %: {interval_text(found.lower, found.upper)}; " if found.lower is not None else ""
        label = f"test {name}{f' ({unit})' if unit else ''}"
        tiles.append(Tile(label, number(result.test.get(metric)), interval + direction, "main"))
    if verdict is not None:
        tiles.append(verdict.tile)
    elif (beside := beside_baseline(result)) is not None:
        tiles.append(beside.tile)
    if (coverage := _coverage_tile(result)) is not None:
        tiles.append(coverage)
    if (validation := result.val.get(metric)) is not None:
        epochs = f"epoch {result.best_epoch} of {result.epochs}" if result.best_epoch and result.epochs else ""
        tiles.append(Tile(f"validation {name}", number(validation), epochs))
    if result.parameters is not None and _noun(run) != "molecule":  # chemists find it under the recipe
        size = f"{run.recipe.model.layers} × {run.recipe.model.dim} channels"
        tiles.append(Tile("parameters", f"{result.parameters:,}", size))
    if result.seconds is not None:
        peak = f"{byte_size(result.peak_memory_bytes)} memory" if result.peak_memory_bytes else ""
        tiles.append(Tile("time", duration(result.seconds), peak))
    return tiles


def _coverage_tile(result: RunResult) -> Tile | None:
    """How often intervals hold the truth, over all targets."""
    if result.calibration is None:
        return None
    known = [one for one in result.calibration.per_target.values() if one.coverage is not None]
    if not known:
        return None
    rows = [one.rows or 1 for one in known]
    share = sum((one.coverage or 0.0) * count for one, count in zip(known, rows, strict=True)) / sum(rows)
    label = f"inside {whole_percent(result.calibration.confidence)} {result.calibration.kind}"
    return Tile(label, percent(share), "of the test part")


# --- scores of every target


def _target_table(result: RunResult) -> Table | None:
    """A row for each target, beside the paper's; None where there is only one and the paper says nothing of it."""
    expected = result.expected
    paper = (expected.per_target if expected is not None else None) or {}
    if not result.per_target or (len(result.per_target) == 1 and not paper):
        return None
    others = (expected.others if expected is not None else None) or {}
    first = expected.metric if expected is not None and paper else result.metric
    found = dict.fromkeys(metric for scores in result.per_target.values() for metric in scores)
    metrics = sorted(found, key=lambda metric: (metric != first, metric != result.metric)) or [result.metric]
    counting = bool(paper) and first == _NORMALISED
    head = ["target", metric_label(metrics[0]), *(["verdict"] if counting else []), *(["paper"] if paper else [])]
    head += [*others, *(metric_label(metric) for metric in metrics[1:])]
    rows = []
    for target, scores in result.per_target.items():
        ours, value, unit = scores.get(metrics[0]), paper.get(target), result.units.get(target)
        name = f"{target} ({unit})" if unit and unit not in target else target
        row = [Cell(name), Cell(number(ours, 3), "good" if _at_least_as_good(ours, value, metrics[0]) else "")]
        if counting:
            row.append(Cell("counts", "counts") if _is_counted(ours) else Cell(""))
        row += [Cell(number(value))] if paper else []
        row += [Cell(number(other.get(target))) for other in others.values()]
        rows.append([*row, *(Cell(number(scores.get(metric), 3)) for metric in metrics[1:])])
    return Table(head, rows, _target_caption(result, metrics[0], counting) if paper else "")


def _at_least_as_good(ours: float | None, paper: float | None, metric: str) -> bool:
    if ours is None or paper is None:
        return False
    return ours >= paper if higher_is_better(metric) else ours <= paper


def _is_counted(error: float | None) -> bool:
    return error is not None and error <= COUNTING_BOUND


def _target_caption(result: RunResult, metric: str, counting: bool) -> str:
    table = f" ({result.expected.table})" if result.expected is not None and result.expected.table else ""
    text = f"{capitalised(metric_label(metric))} of this run beside the paper's{table}."
    if counting:
        scores = [one.get(_NORMALISED) for one in result.per_target.values()]
        rule = f"a model counts a substructure where its normalised MAE is at most {COUNTING_BOUND:.3f}"
        text += f" {sum(map(_is_counted, scores))} of {len(scores)} are counted: {rule}."
    return text


# --- the recipe in sentences


def _data(dataset: DatasetChoice, result: RunResult | None) -> str:
    title = result.dataset.title if result is not None and result.dataset.title else dataset.name or dataset.file
    text = [f"{title or 'Own data'}."]
    if dataset.targets:
        text.append(f"Targets: {listed(dataset.targets, 13)}.")
    if result is not None and result.split_sizes:
        sizes = [f"{size:,} {part}" for part, size in result.split_sizes.items()]
        text.append(f"{capitalised(result.split_of)}s: {listed(sizes)}.")
    if dataset.fold is not None:
        text.append(f"Fold {dataset.fold} of {dataset.folds} of a cross-validation, counted from 0.")
    if dataset.options:
        text.append(f"Options: {listed([f'{key} = {value}' for key, value in dataset.options.items()], 8)}.")
    if dataset.weighted_edges is not None:
        plus = f", plus {dataset.edge_weight_offset}," if dataset.edge_weight_offset else ""
        text.append(f"Column {dataset.weighted_edges} of the edge features{plus} is the weight of the edges.")
    return " ".join(text)


def _model(recipe: Recipe, result: RunResult | None) -> str:
    model = recipe.model
    size = f"{counted(model.layers, 'layer')} of {counted(model.dim, 'channel')}"
    text = f"{capitalised(preset_title(model.preset))} with {size}"
    if result is not None and result.parameters:
        text += f", {result.parameters:,} parameters" + (" in all" if result.members else "")
    if result is None or result.level == "graph":
        text += f"; the points of a graph are pooled by their {model.pooling}"
    if result is not None and result.members:
        text += f". An ensemble of {counted(len(result.members), 'member')}: {_members(result)}"
    noise = f" Gaussian noise of size {number(model.noise)} on the coordinates while training." if model.noise else ""
    return f"{text}.{noise}"


def _members(result: RunResult) -> str:
    """``alone their test MAE is 0.61 to 0.66, together 0.58``."""
    metric = result.main_metric
    alone = [value for one in result.members if (value := one.test.get(metric)) is not None]
    if not alone or result.test.get(metric) is None:
        return "their mean is the prediction"
    ends = dict.fromkeys(number(value, 3) for value in (min(alone), max(alone)))
    return f"alone their test {metric_label(metric)} is {' to '.join(ends)}, together {number(result.test[metric], 3)}"


def _optimiser(recipe: Recipe, result: RunResult | None) -> str:
    loss = recipe.loss or (_USUAL_LOSSES.get(result.task, "bce") if result is not None else "")
    optimizer, trainer = recipe.optimizer, recipe.trainer
    text = f"{_OPTIMISERS[optimizer.method]} on {_LOSSES.get(loss, 'the usual loss of the task')}"
    if result is not None and result.is_regression and recipe.scale_targets:
        text += " of normalised targets"
    text += f", learning rate {number(optimizer.lr)}, weight decay {number(optimizer.weight_decay)}"
    if optimizer.clip is not None:
        text += f", gradients clipped at norm {number(optimizer.clip)}"
    text += f". Batches of {counted(trainer.batch_size, 'graph')}."
    if trainer.ema is not None:
        text += f" The weights are a moving average with decay {number(trainer.ema)}."
    return text + (f" Precision {trainer.precision}." if trainer.precision != "32" else "")


def _schedule(schedule: Schedule, trainer: Trainer) -> str:
    warmup = f"rises linearly over {_epochs(schedule.warmup)}, " if schedule.warmup else ""
    match schedule.shape:
        case _ if trainer.snapshots is not None:
            shape = f"falls along a cosine {trainer.snapshots} times, with a snapshot of the weights after each"
        case "cosine":
            shape = "then falls to the end along a cosine"
        case "restarts":
            shape = f"then falls along a cosine again and again, every {_epochs(schedule.cosine)}"
        case "anneal" if schedule.cosine:
            shape = f"stays, and falls along a cosine over the last {_epochs(schedule.cosine)}"
        case _:
            shape = "stays as it is"
    return f"{counted(trainer.epochs, 'epoch')}. The learning rate {warmup}{shape}."


def _epochs(number_of: float) -> str:
    return f"{number(number_of)} epoch{'' if number_of == 1 else 's'}"


def _choice(recipe: Recipe, result: RunResult | None, metric: str | None) -> str:
    if result is not None and result.members:
        return f"The predictions are the mean of {counted(len(result.members), 'member')}."
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


# --- time, memory, machine, and the commands to run it again


def _timings(run: RunRecord) -> list[tuple[str, str]]:
    """(name, value) of what is known."""
    result = run.result
    speed = None if result is None else result.graphs_per_second
    speed = _median(run, "graphs_per_second") if speed is None else speed
    epoch = _median(run, "seconds")
    facts = [("time of an epoch, median", duration(epoch)), ("graphs a second, training", number(speed))]
    if result is not None:
        facts = [
            ("time in all", duration(result.seconds)),
            *facts,
            ("most memory in use", byte_size(result.peak_memory_bytes)),
            ("parameters", fixed(result.parameters, 0)),
            ("epochs", fixed(result.epochs, 0)),
            *(
                (f"{result.split_of}s {_PARTS.get(part, part)}", f"{size:,}")
                for part, size in result.split_sizes.items()
            ),
        ]
    return [(name, value) for name, value in facts if value != "–"]


def _median(run: RunRecord, column: str) -> float | None:
    values = run.epochs.get(column, np.zeros(0))
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None


def _environment(run: RunRecord) -> list[tuple[str, str]]:
    """(name, value) of versions and the machine, in the order of the file; groups are taken apart."""
    groups = [value if isinstance(value, dict) else {key: value} for key, value in run.environment.items()]
    return [
        (name.removesuffix("_bytes").replace("_", " "), _as_text(name, value))
        for group in groups
        for name, value in group.items()
        if value is not None
    ]


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " ".join(shlex.quote(str(part)) for part in value)
    if name.endswith("_bytes") and isinstance(value, int | float):
        return byte_size(value)
    return str(value)


def _commands(run: RunRecord) -> list[tuple[str, str]]:
    """(what it does, command line)."""
    folder = str(run.folder)
    quoted, again = shlex.quote(folder), shlex.quote(f"{folder}-again")
    recipe = shlex.quote(str(run.folder / "recipe.yaml"))
    if run.result is None:
        return [("Resume where it stopped", f"pointset train {recipe} --run-dir {quoted} --resume")]
    predictions = run.predictions
    source = "input.csv" if predictions is not None and predictions.has_smiles else "graphs.graphml"
    return [
        ("Train again, to the same weights on the same machine", f"pointset train {recipe} --run-dir {again}"),
        ("Predict for data of your own", f"pointset predict {quoted} {source} -o out.csv"),
        ("Write this report again", f"pointset report {quoted}"),
        ("Use the model in Python", f"model = pointset.load({folder!r})"),
    ]
