"""What ``pointset compare`` prints: the models, the plan, the table of results, the table of costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from pointset.baselines.catalogue import PEERS, model_names, model_preset
from pointset.cli.console import output_console, plain_table
from pointset.cli.messages import counted, printable, say
from pointset.reports.run_pages.words import duration, memory, metric_name, with_spread

if TYPE_CHECKING:
    from pointset.studies.comparison.cost import Cost
    from pointset.studies.comparison.planning import Plan, Planned
    from pointset.studies.comparison.records import Comparison, Contender


def show_models() -> None:
    """Every model with what it is."""
    console = output_console()
    table = plain_table(console)
    for heading in ("model", "", "what it is"):
        table.add_column(heading)
    for name in model_names():
        table.add_row(name, "peer" if name in PEERS else "paper", printable(model_preset(name).summary))
    console.print(table)


def show_plan(made: Plan) -> None:
    """Width and parameters of each model, before anything is trained."""
    recipe = made.recipe
    console = output_console()
    console.print(
        f"{printable(recipe.name)}: {counted(len(made.models), 'model')} of {recipe.model.layers} layers with about "
        f"{made.parameters:,} parameters, {counted(recipe.trainer.epochs, 'epoch')}, on "
        f"{counted(recipe.trainer.threads or 1, 'thread')}"
    )
    table = _table(console, ("model", "width", "parameters", "off by"))
    for one in made.models:
        table.add_row(one.model, *_plan_cells(one, made.parameters))
    console.print(table)
    console.print()
    _say_failures(made.models)


def show_comparison(found: Comparison) -> None:
    """The table of results; the best test score is bold."""
    name = metric_name(found.metric)
    console = output_console()
    headings = (
        *("model", "width", "parameters", f"test {name}", "validation", "best epoch"),
        *("time/epoch", "peak memory", "total time"),
    )
    table = _table(console, headings)
    best = found.best
    for one in found.contenders:
        table.add_row(one.model, *_result_cells(one, found.metric, is_best=one is best))
    console.print(table)
    direction = "higher" if found.higher_is_better else "lower"
    runs = "" if found.seeds == 1 else f"Mean ± standard deviation over {found.seeds} seeds. "
    console.print(
        f"{runs}Of test scores, {direction} is better. Time per epoch with validation; memory of the whole process.",
        style="dim",
    )
    _say_failures(found.contenders)


def show_costs(costs: Sequence[Cost], repeats: int) -> None:
    """The table of costs, with ratios to the first model; nothing where no model could be made."""
    if not costs:
        return
    console = output_console()
    table = _table(console, ("model", "width", "parameters", "time/epoch", "CPU time", "× first", "memory", "× first"))
    first = costs[0]
    for one in costs:
        table.add_row(
            one.model,
            f"{one.width}",
            "–" if one.parameters is None else f"{one.parameters:,}",
            duration(one.seconds_per_epoch) + ("" if one.spread is None else f" ± {duration(one.spread)}"),
            duration(one.cpu_seconds_per_epoch),
            _ratio(one.cpu_seconds_per_epoch, first.cpu_seconds_per_epoch),
            memory(one.peak_memory_bytes),
            _ratio(one.peak_memory_bytes, first.peak_memory_bytes),
        )
    console.print(table)
    share = next((one.timed_share for one in costs if one.timed_share is not None), None)
    if share is not None:
        how = "whole epochs" if share == 1 else f"{share:.1%} of an epoch's graphs, the rest extrapolated"
        console.print(
            f"Median of {counted(repeats, 'round')} of {how}, without validation. Memory: the most that training took "
            "above what libraries, data and model take before it.",
            style="dim",
        )
    _say_failures(costs)


def _table(console: Console, headings: Sequence[str]) -> Table:
    table = plain_table(console)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=not index)
    return table


def _plan_cells(one: Planned, parameters: int) -> tuple[str, ...]:
    if one.recipe is None or one.parameters is None:
        return "–", "–", "–"
    off = f"{one.parameters / parameters - 1:+.1%}".replace("-", "−")
    return f"{one.recipe.model.dim}", f"{one.parameters:,}", off


def _result_cells(one: Contender, metric: str, *, is_best: bool) -> tuple[str, ...]:
    test = with_spread(*one.score("test", metric))
    epoch = one.median("best_epoch")
    return (
        "–" if one.width is None else f"{one.width}",
        "–" if one.parameters is None else f"{one.parameters:,}",
        f"[bold]{test}[/bold]" if is_best else test,
        with_spread(*one.score("val", metric)),
        "–" if epoch is None else f"{epoch:g}",
        duration(one.median("seconds_per_epoch")),
        memory(one.peak_memory_bytes),
        duration(one.seconds) if one.runs else "–",
    )


def _ratio(value: float | None, first: float | None) -> str:
    return "–" if value is None or not first else f"{value / first:.2f}"


def _say_failures(models: Sequence[Planned | Contender | Cost]) -> None:
    for one in models:
        if one.failure:
            say(f"{one.model} failed: {one.failure}", style="red")
