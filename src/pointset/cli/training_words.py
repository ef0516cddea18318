"""What is printed of a run's result: test scores beside the paper's, a table of targets, and where to look."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.cli.console import output_console, plain_table
from pointset.cli.messages import printable
from pointset.reports.run_pages.words import duration

if TYPE_CHECKING:
    from rich.console import Console

COUNTED = 0.010  # the largest normalised MAE at which a model counts a substructure, after Huang et al. 2023
_MOST_TARGETS = 20
_IN_UNITS = ("mae", "rmse")  # metrics that are in the unit of the target


def print_result(result: Mapping[str, Any], folder: Path) -> None:
    """Of one run."""
    console = output_console()
    _print_targets(console, result, _value)
    if result["test"]:
        scores = ", ".join(
            f"{_name(metric)} {_text(value)}{_unit(result, metric)}" for metric, value in result["test"].items()
        )
        console.print(f"test: {scores}")
    else:
        console.print("test: there is no test part")
    _print_expected(console, result, result["test"].get(result["metric"]))
    stopped = ", stopped early" if result.get("stopped_early") else ""
    scored = f"; the test part was scored {result['test_scored'].split(',')[0]}" if result["test"] else ""
    console.print(
        f"best epoch {result['best_epoch']} of {result['epochs']}{stopped}; {result['parameters']:,} parameters; "
        f"{duration(result['seconds'])}{scored}"
    )
    _print_places(console, folder)


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Of several seeds or folds."""
    console = output_console()
    _print_targets(console, summary, _mean)
    for metric, spread in summary["test"].items():
        values = ", ".join(_text(value) for value in spread["values"])
        console.print(
            f"test {_name(metric)}: {_mean_and_deviation(spread)}{_unit(summary, metric)} "
            f"over {len(summary['runs'])} runs ({values})"
        )
    _print_expected(console, summary, summary["test"].get(summary["metric"], {}).get("mean"))
    _print_places(console, folder)


def print_scores(console: Console, scores: Mapping[str, Any], per_target: Mapping[str, Mapping[str, Any]]) -> None:
    """All metrics, over the targets and for each."""
    table = plain_table(console)
    table.add_column("")
    for metric in scores:
        table.add_column(_name(metric), justify="right")
    if 1 < len(per_target) <= _MOST_TARGETS:
        for target, values in per_target.items():
            table.add_row(printable(target), *(_text(values.get(metric)) for metric in scores))
    table.add_row("all" if len(per_target) > 1 else "", *(_text(value) for value in scores.values()), style="bold")
    console.print(table)


def _print_targets(console: Console, result: Mapping[str, Any], read: Any) -> None:
    """A row for each target, with the paper's values where it has them."""
    per_target, expected = result["per_target"], result["expected"] or {}
    if not 1 < len(per_target) <= _MOST_TARGETS:
        return
    paper, others = expected.get("per_target") or {}, expected.get("others") or {}
    metric = expected["metric"] if paper else result["metric"]
    table = plain_table(console)
    table.add_column("target")
    table.add_column(f"test {_name(metric)}", justify="right")
    ours = "PSDS" if result["model"]["preset"] == "psds" else "PST"
    for title in [ours, *others] if paper else []:
        table.add_column(f"paper's {title}", justify="right")
    counts = metric == "normalised_mae" and bool(paper)
    if counts:
        table.add_column("")
    for target, scores in per_target.items():
        value = read(scores.get(metric))
        known = [_text(values.get(target)) for values in (paper, *others.values())] if paper else []
        mark = ["counts" if value is not None and value <= COUNTED else ""] if counts else []
        table.add_row(printable(target), _text(value), *known, *mark)
    console.print(table)
    if counts:
        values = [read(scores.get(metric)) for scores in per_target.values()]
        counted = sum(value is not None and value <= COUNTED for value in values)
        console.print(f"{counted} of {len(values)} are counted (at most {COUNTED:.3f})")


def _print_expected(console: Console, result: Mapping[str, Any], value: float | None) -> None:
    expected = result["expected"]
    if not expected or value is None:
        return
    deviation = "" if expected.get("std") is None else f" ± {_text(expected['std'])}"
    unit = _unit(result, expected["metric"])
    if expected["metric"] == result["metric"]:
        console.print(f"the paper has {_name(expected['metric'])} {_text(expected['value'])}{deviation}{unit}")


def _print_places(console: Console, folder: Path) -> None:
    report = folder / "report.html"
    console.print(f"report: {report}" if report.exists() else f"run: {folder}", soft_wrap=True)


def _value(score: float | None) -> float | None:
    return score


def _mean(spread: Mapping[str, Any] | None) -> float | None:
    return None if spread is None else spread["mean"]


def _mean_and_deviation(spread: Mapping[str, Any]) -> str:
    return _text(spread["mean"]) + ("" if spread["std"] is None else f" ± {_text(spread['std'])}")


def _unit(result: Mapping[str, Any], metric: str) -> str:
    """`` eV``, where the metric is in the targets' unit and they share one."""
    units = set((result.get("units") or {}).values())
    shared = units.pop() if len(units) == 1 and metric in _IN_UNITS else ""
    return f" {printable(shared)}" if shared else ""


def _name(metric: str) -> str:
    return metric.replace("_", " ")


def _text(value: float | None) -> str:
    if value is None or value != value:
        return "–"
    if abs(value) >= 1e9:
        return f"{value:.4g}"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
