"""What the page that compares runs says (:func:`comparison_page`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pointset.reports.run_pages.comparison_tables import experiment_table, run_table, target_comparison
from pointset.reports.run_pages.experiments import Comparison, Experiment, experiments_of, mean_and_std
from pointset.reports.run_pages.forms import SeveralResult
from pointset.reports.run_pages.headline import Tile
from pointset.reports.run_pages.learning_charts import overlaid_validation
from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.verdict import Verdict, verdict_on
from pointset.reports.run_pages.words import count, duration, higher_is_better, metric_name, with_spread


def comparison_page(runs: Sequence[RunRecord], several: SeveralResult | None) -> dict[str, Any]:
    """The values of the template ``comparison.html.j2``; ``several`` is set for one folder of seeds or folds."""
    found = experiments_of(runs)
    best = best_experiment(found)
    verdict = _verdict(found)
    expected = found.experiments[0].expected
    styled = [(run, one.style) for one in found.experiments for run in one.runs]
    missing = 0 if several is None else len(several.runs) - len(runs)
    return {
        "title": (several.title or several.recipe) if several is not None else f"{count(len(runs), 'run')} compared",
        "test_scored": "",
        "eyebrow": "pointset · comparison of runs",
        "lead": _lead(found, best, missing),
        "verdict": verdict,
        "table": expected.table if expected is not None else "",
        "notes": verdict.notes if verdict is not None else [],
        "tiles": _tiles(found, best, verdict),
        "experiments": experiment_table(found, best) if len(found.experiments) > 1 else None,
        "runs": run_table(found),
        "curves": overlaid_validation(styled, found.metric) if found.metric is not None else None,
        "legend": [(one.name, one.style) for one in found.experiments] if len(found.experiments) > 1 else [],
        "targets": target_comparison(found),
    }


def best_experiment(found: Comparison) -> Experiment | None:
    """The one with the best mean test score, where there is a choice and all have the same metric and test split."""
    metric = found.metric
    if metric is None or len(found.experiments) < 2:
        return None
    means = [(mean_and_std(one.values(metric))[0], one) for one in found.experiments]
    scored = [(mean, one) for mean, one in means if mean is not None]
    if len(scored) < 2 or found.other_graphs:
        return None
    sign = -1 if higher_is_better(metric) else 1
    return min(scored, key=lambda pair: sign * pair[0])[1]


def _verdict(found: Comparison) -> Verdict | None:
    """Only where all runs are one experiment."""
    expected = found.experiments[0].expected
    if found.metric is None or expected is None or expected.metric != found.metric or len(found.experiments) > 1:
        return None
    values = found.experiments[0].values(found.metric)
    mean, std = mean_and_std(values)
    return None if mean is None else verdict_on(mean, std, len(values), expected)


def _lead(found: Comparison, best: Experiment | None, missing: int) -> str:
    runs = found.runs
    metric = metric_name(found.metric) if found.metric is not None else ""
    if len(found.experiments) == 1:
        differs = " and ".join(key for key in found.changed) or "nothing but the machine's rounding"
        text = f"{count(len(runs), 'run')} of one recipe, which differ in {differs}."
        if found.metric is not None and (values := found.experiments[0].values(found.metric)):
            text += f" Their test {metric} is {with_spread(*mean_and_std(values))} (mean ± standard deviation)."
    else:
        text = f"{count(len(runs), 'run')} of {count(len(found.experiments), 'recipe')}."
        if found.metric is None:
            text += " They are scored by different metrics, so no order is given."
        elif found.other_graphs:
            text += f" They are tested on different graphs ({', '.join(found.other_graphs)}), so no order is given."
        if best is not None and found.metric is not None:
            text += f" {best.name} has the best test {metric}: {with_spread(*mean_and_std(best.values(found.metric)))}."
    unfinished = sum(run.result is None for run in runs) + missing
    return text + (f" Not finished yet: {count(unfinished, 'run')}." if unfinished else "")


def _tiles(found: Comparison, best: Experiment | None, verdict: Verdict | None) -> list[Tile]:
    tiles = []
    chosen = best or (found.experiments[0] if len(found.experiments) == 1 else None)
    if chosen is not None and found.metric is not None and (values := chosen.values(found.metric)):
        note = f"mean of {count(len(values), 'run')}" if len(values) > 1 else chosen.name
        label = f"{'best ' if best else ''}test {metric_name(found.metric)}"
        tiles.append(Tile(label, with_spread(*mean_and_std(values)), note, "main"))
    expected = found.experiments[0].expected
    if verdict is not None and expected is not None:
        word = "level" if verdict.word == "level" else f"{verdict.word} here"
        tiles.append(Tile("the paper", with_spread(expected.value, expected.std), word, verdict.word))
    tiles.append(Tile("runs", str(len(found.runs)), count(len(found.experiments), "recipe")))
    seconds = [run.result.seconds for run in found.runs if run.result is not None and run.result.seconds is not None]
    if seconds:
        tiles.append(Tile("time", duration(math.fsum(seconds)), "all runs together"))
    return tiles
