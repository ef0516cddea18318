"""What ``pointset reproduce`` prints: the tables there are, the plan with its forecast, the table that came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from pointset.cli.console import output_console, plain_table
from pointset.cli.messages import counted, printable
from pointset.reports.run_pages.words import duration, memory

if TYPE_CHECKING:
    from pointset.studies.tables.forecasting import Forecast
    from pointset.studies.tables.plan import PlannedRun
    from pointset.studies.tables.rendering.sheet import SheetCell
    from pointset.studies.tables.result import TableResult
    from pointset.studies.tables.running import TableRuns

_DASH = "–"
_MOST_COLUMNS = 7  # of numbers, beside each other


def show_tables() -> None:
    """Every table, and what each budget of it does."""
    from pointset.studies.tables.spec_files import table_named, table_names

    console = output_console()
    for name in table_names():
        spec = table_named(name)
        console.print(Text.assemble((name, "bold"), f"  {spec.paper_table}: {spec.title}"))
        for option, names in (
            ("--models", [row.name for row in spec.ours]),
            ("--columns", [column.key for column in spec.printed_columns]),
        ):
            console.print(f"  {option} {','.join(names)}", style="dim", soft_wrap=True)
        scopes: dict[str, list[str]] = {}
        for budget, plan in spec.budgets.items():
            scopes.setdefault(plan.scope, []).append(budget)
        for scope, budgets in scopes.items():
            grid = plain_table(console)
            grid.show_header = False
            grid.add_column(no_wrap=True, min_width=7)
            grid.add_column()
            grid.add_row(f"  {', '.join(budgets)}", scope)
            console.print(grid)
    console.print("\npointset reproduce TABLE --budget NAME --plan shows the runs, their time and memory.", style="dim")


def show_plan(runs: TableRuns, forecasts: Mapping[str, Forecast | None]) -> None:
    """Runs of the same row and data in one line: how many are left, and what they take."""
    from pointset.errors import PointsetError
    from pointset.studies.tables.plan import parameters_of

    spec, left = runs.plan.spec, {run.name for run in runs.left}
    if spec.kind == "counted":
        return  # there is nothing to wait for
    groups: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in runs.plan.chosen:
        groups.setdefault((run.row.title, run.task.name), []).append(run)
    console = output_console()
    console.print(f"{spec.paper_table}: {spec.title}, budget {runs.plan.budget}", style="bold")
    console.print(runs.plan.spec.budgets[runs.plan.budget].scope)
    table = plain_table(console)
    table.add_column("model")
    table.add_column("run")
    for heading in ("left", "epochs", "parameters", "time each", "memory", "together"):
        table.add_column(heading, justify="right")
    for (title, task), group in groups.items():
        one, todo = group[0], [run for run in group if run.name in left]
        forecast = next((forecasts[run.name] for run in todo if forecasts.get(run.name) is not None), None)
        try:
            parameters = f"{parameters_of(one.recipe, runs.where.data_dir):,}"
        except PointsetError:  # the run itself says why
            parameters = _DASH
        table.add_row(
            printable(title),
            task,
            f"{len(todo)} of {len(group)}",
            str(one.recipe.trainer.epochs) if spec.kind == "trained" else _DASH,
            parameters,
            duration(None if forecast is None else forecast.seconds),
            memory(None if forecast is None else forecast.memory_bytes),
            duration(None if forecast is None else forecast.seconds * len(todo)),
        )
    console.print(table)
    _print_total(spec.kind, forecasts, left)


def _print_total(kind: str, forecasts: Mapping[str, Forecast | None], left: set[str]) -> None:
    """Of the runs that are left now: while some were timed, another process may have finished others."""
    console = output_console()
    if kind != "trained":
        console.print(f"{counted(len(left), 'model')} to measure", style="bold")
        return
    known = [one for name in left if (one := forecasts.get(name)) is not None]
    unknown = len(left) - len(known)
    seconds = sum(one.seconds for one in known)
    words = f"{counted(len(left), 'run')} left, about {duration(seconds)} on this machine's CPU"
    if known:
        words += f", up to {memory(max(one.memory_bytes for one in known))} of memory"
    console.print(words + (f"; {unknown} cannot be forecast" if unknown else ""), style="bold")


def show_result(result: TableResult) -> None:
    """Our rows and those of the paper that they repeat; all others are in the files."""
    from pointset.studies.tables.rendering.sheet import sheet_of

    sheet = sheet_of(result)
    repeated = {line.repeats for part in sheet.parts if part.ours for line in part.lines}
    lines = [
        (line.title if part.ours else f"{line.title}, paper", line)
        for part in sheet.parts
        for line in part.lines
        if part.ours or line.title in repeated
    ]
    titles = [printable(title) + _mark(line.letter) for title, line in lines]
    rows = [[_shown(cell) for cell in line.cells] for _, line in lines]
    heads = list(sheet.heads)
    if sheet.with_parameters:
        heads = ["parameters", *heads]
        rows = [[Text(line.parameters), *row] for row, (_, line) in zip(rows, lines, strict=True)]
    if len(heads) > _MOST_COLUMNS:  # a model in each column instead
        titles, heads, rows = heads, titles, [list(row) for row in zip(*rows, strict=True)]
    console = output_console()
    table = plain_table(console)
    table.add_column("")
    for head in heads:
        table.add_column(head, justify="right")
    for title, row in zip(titles, rows, strict=True):
        table.add_row(title, *row)
    console.print(table)
    for sentence in [*sheet.legend, *(f"({letter}) {text}" for letter, text in sheet.footnotes)]:
        console.print(Text(printable(sentence), style="dim"))


def _shown(cell: SheetCell) -> Text:
    text = f"{cell.text}{' ✓' if cell.counts else ''}{_mark(cell.letter)}"
    return Text(text, style="bold" if cell.bold else "")


def _mark(letter: str) -> str:
    return f" ({letter})" if letter else ""
