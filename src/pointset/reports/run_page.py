"""What the page of one run says, section by section (:func:`page_of`); the template only sets it in type."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from pointset.metrics import higher_is_better, metric_label, metric_meaning, metric_unit
from pointset.registry import preset_title
from pointset.reports.charts import Cell, Table, Tile
from pointset.reports.examples import attention_figures, function_figure, worst_graphs, worst_intro
from pointset.reports.learning_curves import best_epoch, learning_curves
from pointset.reports.prediction_charts import prediction_section
from pointset.reports.recipe_sentences import Verdict, recipe_notes, recipe_sentences, verdict_on
from pointset.runs.recipe import Expected
from pointset.runs.records import RunRecord
from pointset.runs.result import RunResult
from pointset.text import byte_size, capitalised, counted, duration, listed, number, with_spread

# Plain facts of a run: time and memory, the split, the machine, and the commands to run it again.


_PARTS = {"train": "to learn from", "val": "to choose the epoch", "test": "to test"}
_HARMLESS = ("seed", "title", "dataset.fold", "trainer.workers", "trainer.threads", "trainer.checkpoint_minutes")


def timings(run: RunRecord) -> list[tuple[str, str]]:
    """(name, value) of what is known."""
    result = run.result
    facts: list[tuple[str, str]] = []
    seconds = run.epochs.get("seconds", np.zeros(0))
    speeds = run.epochs.get("graphs_per_second", np.zeros(0))
    if result is not None and result.seconds is not None:
        facts.append(("time in all", duration(result.seconds)))
    if np.isfinite(seconds).any():
        facts.append(("time of an epoch, median", duration(float(np.nanmedian(seconds)))))
    if result is not None and result.graphs_per_second is not None:
        facts.append(("graphs a second, training", number(result.graphs_per_second)))
    elif np.isfinite(speeds).any():
        facts.append(("graphs a second, training", number(float(np.nanmedian(speeds)))))
    if result is not None:
        if result.peak_memory_bytes is not None:
            facts.append(("most memory in use", byte_size(result.peak_memory_bytes)))
        if result.parameters is not None:
            facts.append(("parameters", f"{result.parameters:,}"))
        if result.epochs is not None:
            facts.append(("epochs", f"{result.epochs:,}"))
        for part, size in result.split_sizes.items():
            facts.append((f"graphs {_PARTS.get(part, part)}", f"{size:,}"))
    return facts


def environment(run: RunRecord) -> list[tuple[str, str]]:
    """(name, value) of versions and the machine, in the order of the file; groups are taken apart."""
    facts = []
    for key, value in run.environment.items():
        group = value if isinstance(value, dict) else {key: value}
        facts += [
            (name.removesuffix("_bytes").replace("_", " "), _plain(name, part))
            for name, part in group.items()
            if part is not None
        ]
    return facts


def commands(run: RunRecord) -> list[tuple[str, str]]:
    """(what it does, command line)."""
    folder = str(run.folder)
    quoted, again = shlex.quote(folder), shlex.quote(f"{folder}-again")
    recipe = shlex.quote(str(run.folder / "recipe.yaml"))
    if run.result is None:
        return [("Go on where it stopped", f"pointset train {recipe} --run-dir {quoted} --resume")]
    predictions = run.predictions
    source = "input.csv" if predictions is not None and predictions.has_smiles else "graphs.graphml"
    return [
        ("Train again, to the same weights on the same machine", f"pointset train {recipe} --run-dir {again}"),
        ("Predict for data of your own", f"pointset predict {quoted} {source} -o out.csv"),
        ("Write this report anew", f"pointset report {quoted}"),
        ("Use the model in Python", f"model = pointset.load({folder!r})"),
    ]


def changed_settings(run: RunRecord) -> list[str]:
    """``key=value`` as given to ``pointset train``, which the run remembers, except what does not change the result."""
    command = run.environment.get("command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    pairs = [word.partition("=") for word in words if "=" in word and not word.startswith("-")]
    return [f"{key}={value}" for key, _, value in pairs if _is_setting(key, run.recipe.as_dict())]


def _is_setting(key: str, recipe: dict[str, Any]) -> bool:
    group, _, rest = key.partition(".")
    return group in recipe and (not rest or isinstance(recipe[group], dict)) and key not in _HARMLESS


def _plain(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " ".join(shlex.quote(str(part)) for part in value)
    if name.endswith("_bytes") and isinstance(value, int | float):
        return byte_size(value)
    return str(value)


# What was learned and how well: the first sentence, the key numbers, the comparison with the paper.


def lead(run: RunRecord) -> str:
    """One or two sentences."""
    model = capitalised(preset_title(run.recipe.model.preset))
    result = run.result
    if result is None:
        done, planned = len(run.epochs.get("epoch", ())), run.recipe.trainer.epochs
        of = f" of {planned:,}" if planned else ""
        return f"{model} is not trained to the end yet: {done:,}{of} epochs are done, and the test split is unseen."
    title = result.dataset.title or result.dataset.name
    data = f"“{title}”" if title else "the data"
    metric = result.main_metric
    if result.test.get(metric) is None:
        why = "it is not a number" if result.test else "no graphs were held back to test on"
        return f"{model} learned from {data} to {_what(result)}. There is no test score: {why}."
    meaning = f" ({metric_meaning(metric)})" if metric_meaning(metric) else ""
    size = result.split_sizes.get("test")
    where = f"On {counted(size, 'test graph')} it has never seen" if size else "On the test split"
    score = f"its {metric_label(metric)}{meaning} is {_with_unit(result, metric)}"
    return f"{model} learned from {data} to {_what(result)}. {where}, {score}."


def verdict_of(run: RunRecord) -> tuple[Verdict | None, list[str]]:
    """The comparison with the paper where there is one, and what must be said with it."""
    result = run.result
    if result is None or result.expected is None:
        return None, []
    ours = result.test.get(result.expected.metric)
    verdict = None if ours is None else verdict_on(ours, None, 1, result.expected, one_fold=result.fold is not None)
    if verdict is None:
        return None, []
    return verdict, verdict.notes + recipe_notes(changed_settings(run), result.parameters, result.expected)


def tiles(run: RunRecord, verdict: Verdict | None) -> list[Tile]:
    """The key numbers, the most important first."""
    result = run.result
    best = best_epoch(run)
    found = []
    if result is None:
        if best is not None and run.metric is not None:
            value = number(float(run.epochs[f"val_{run.metric}"][best]))
            note = f"epoch {run.epochs['epoch'][best]:.0f}"
            found.append(Tile(f"best validation {metric_label(run.metric)} so far", value, note, "main"))
        return found
    metric = result.main_metric
    if result.test:
        score = number(result.test.get(metric))
        found.append(Tile(f"test {metric_label(metric)}", score, _direction(metric, result), "main"))
    if result.expected is not None and verdict is not None:
        paper = with_spread(result.expected.value, result.expected.std)
        found.append(
            Tile("the paper", paper, f"{verdict.word} here" if verdict.word != "level" else "level", verdict.word)
        )
    if (validation := result.val.get(metric)) is not None:
        epochs = f"epoch {result.best_epoch} of {result.epochs}" if result.best_epoch and result.epochs else ""
        found.append(Tile(f"validation {metric_label(metric)}", number(validation), epochs))
    if result.parameters is not None:
        size = f"{run.recipe.model.layers} × {run.recipe.model.dim} channels"
        found.append(Tile("parameters", f"{result.parameters:,}", size))
    if result.seconds is not None:
        peak = f"{byte_size(result.peak_memory_bytes)} memory" if result.peak_memory_bytes else ""
        found.append(Tile("time", duration(result.seconds), peak))
    return found


def _direction(metric: str, result: RunResult) -> str:
    up = result.higher_is_better if metric == result.metric else higher_is_better(metric)
    return "higher is better" if up else "lower is better"


def _with_unit(result: RunResult, metric: str) -> str:
    unit = metric_unit(metric, next(iter(result.units.values()))) if len(result.units) == 1 else ""
    return number(result.test.get(metric)) + (f" {unit}" if unit else "")


def _what(result: RunResult) -> str:
    """``predict gap for each graph``."""
    targets = list(result.per_target) or list(result.units)
    if result.is_multi_class:
        return f"tell {counted(len(result.classes), 'class')} of {result.level}s apart"
    if not targets or len(targets) > 3:
        many = f"{len(targets)} {'numbers' if result.is_regression else 'labels'}" if targets else "the target"
        return f"predict {many} for each {result.level}"
    return f"predict {listed(targets)} for each {result.level}"


# Scores as tables: all metrics of the run, and every target beside the paper's values (:func:`target_table`).


COUNTS_UP_TO = 0.010  # normalised MAE up to which a model is said to count a substructure (the paper's criterion)
_NORMALISED = "normalised_mae"


def score_table(result: RunResult) -> Table | None:
    """Every metric on both splits; None where one number says it all."""
    metrics = list(dict.fromkeys([result.metric, *result.test, *result.val]))
    if len(metrics) < 2:
        return None
    rows = [
        [Cell(metric_label(metric)), Cell(number(result.val.get(metric))), Cell(number(result.test.get(metric)))]
        for metric in metrics
    ]
    return Table(["metric", "validation", "test"], rows)


def target_table(result: RunResult) -> Table | None:
    """A row for each target; None where there is only one and the paper says nothing of it."""
    expected = result.expected
    paper = (expected.per_target if expected is not None else None) or {}
    if not result.per_target or (len(result.per_target) == 1 and not paper):
        return None
    others = (expected.others if expected is not None else None) or {}
    metrics = _metrics(result)
    counting = bool(paper) and expected is not None and expected.metric == _NORMALISED
    compared = expected.metric if expected is not None and expected.metric in metrics else metrics[0]
    metrics = [compared, *(metric for metric in metrics if metric != compared)] if paper else metrics
    head = ["target", metric_label(metrics[0]), *(["verdict"] if counting else []), *(["paper"] if paper else [])]
    head += [*others, *(metric_label(metric) for metric in metrics[1:])]
    rows = []
    for target, scores in result.per_target.items():
        ours, value = scores.get(metrics[0]), paper.get(target)
        row = [Cell(_named(target, result)), Cell(number(ours, 3), _mark(ours, value, metrics[0]))]
        row += [_counts(ours)] if counting else []
        row += [Cell(number(value))] if paper else []
        row += [Cell(number(other.get(target))) for other in others.values()]
        row += [Cell(number(scores.get(metric), 3)) for metric in metrics[1:]]
        rows.append(row)
    return Table(head, rows, _caption(result, compared, expected if paper else None, counting))


def _metrics(result: RunResult) -> list[str]:
    found = dict.fromkeys(metric for scores in result.per_target.values() for metric in scores)
    return sorted(found, key=lambda metric: metric != result.metric) or [result.metric]


def _named(target: str, result: RunResult) -> str:
    unit = result.units.get(target)
    return f"{target} ({unit})" if unit and unit not in target else target


def _mark(ours: float | None, paper: float | None, metric: str) -> str:
    """``good`` where ours is at least as good as the paper's."""
    if ours is None or paper is None:
        return ""
    return "good" if (ours >= paper if higher_is_better(metric) else ours <= paper) else ""


def _counts(ours: float | None) -> Cell:
    return Cell("counts", "counts") if ours is not None and ours <= COUNTS_UP_TO else Cell("", "")


def _caption(result: RunResult, metric: str, expected: Expected | None, counting: bool) -> str:
    text = [] if expected is None else [f"{metric_label(metric)} of this run beside the paper's"]
    if expected is not None and expected.table:
        text[0] += f" ({expected.table})"
    if counting:
        scores = [one.get(_NORMALISED) for one in result.per_target.values()]
        counted = sum(value is not None and value <= COUNTS_UP_TO for value in scores)
        rule = f"a model counts a substructure where its normalised MAE is at most {COUNTS_UP_TO:.3f}"
        text.append(f"{counted} of {len(scores)} are counted: {rule}")
    return "".join(f"{capitalised(part)}. " for part in text).strip()


def page_of(run: RunRecord) -> dict[str, Any]:
    """The values of the template ``run.html.j2``; a section that has nothing to show is None or empty."""
    verdict, notes = verdict_of(run)
    examples, result = run.examples, run.result
    started = str(run.environment.get("started", ""))[:16].replace("T", " ")  # to the minute
    return {
        "title": run.title,
        "eyebrow": " · ".join(filter(None, ("pointset run", run.recipe.name, started))),
        "lead": lead(run),
        "verdict": verdict,
        "table": result.expected.table if result is not None and result.expected is not None else "",
        "notes": notes,
        "tiles": tiles(run, verdict),
        "recipe": recipe_sentences(run),
        "recipe_text": run.recipe_text,
        "curves": learning_curves(run),
        "predictions": prediction_section(run),
        "scores": score_table(result) if result is not None else None,
        "targets": target_table(result) if result is not None else None,
        "worst": worst_graphs(examples.worst) if examples.worst else None,
        "worst_intro": worst_intro(result),
        "functions": function_figure(examples.functions) if examples.functions is not None else None,
        "attention": attention_figures(examples.attention) if examples.attention is not None else None,
        "finished": result is not None,
        "timings": timings(run),
        "environment": environment(run),
        "test_scored": result.test_scored if result is not None and result.test else "",
        "commands": commands(run),
    }
