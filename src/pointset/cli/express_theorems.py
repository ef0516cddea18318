"""``pointset express theorems``: every statement of the paper as an experiment with a verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli.express_output import JsonFile, Picture, check_outputs, write_outputs
from pointset.cli.messages import counted, load_torch, reported_errors

if TYPE_CHECKING:
    from rich.text import Text

    from pointset.studies.statement import Statement

EXAMPLES = """
[bold]Examples[/bold]
  pointset express theorems              [dim]all, in a few minutes[/dim]
  pointset express theorems 3.1 5.2      [dim]those with this in their name[/dim]
  pointset express theorems "theorem 5"
  pointset express theorems --list       [dim]what they claim; nothing is run[/dim]
  pointset express theorems --json theorems.json --picture theorems.png

[bold]Verdicts[/bold]
  [green]holds[/green]             the experiment found what the paper states
  [yellow]fails as printed[/yellow]  it found otherwise; the evidence says what, and what
                    holds instead
  [red]error[/red]             the experiment did not come to its end (exit code 1)
"""
_COLOURS = {"holds": "green", "fails as printed": "yellow", "error": "red"}
_THREE_COLUMNS = 100  # columns of a terminal from which the verdict has one of its own
_LONGEST_NAME = 24  # columns; longer ones take several lines, so that the evidence has room


def theorems(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help='Names or parts of them: 3.1, "Theorem 5". By default all.'),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Print what is claimed, and run nothing.")] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes, by default as many as there are cores.")
    ] = None,
    json_file: JsonFile = None,
    picture: Picture = None,
) -> None:
    """Run the paper's statements as experiments: for each a verdict and the evidence.

    A statement that fails as printed is a result, not an error of this command.
    """
    if only_list and (json_file is not None or picture is not None):
        raise typer.BadParameter("nothing is run, so there is nothing to write; leave out --json and --picture")
    with reported_errors():
        check_outputs(json_file, picture)
        load_torch()
        from pointset.studies.statement import named
        from pointset.studies.theorems import catalogue

        chosen = named(catalogue.all_statements(), names or [])
        if only_list:
            _print_claims(chosen)
            return
        from pointset.progress import progress_bar
        from pointset.reports.express_pictures import draw_theorems

        start = time.monotonic()
        with progress_bar("Checking", len(chosen)) as advance:
            results = catalogue.check(chosen, workers=workers, progress=advance)
        _print_results(results, time.monotonic() - start)
        write_outputs(results, json_file, picture, draw_theorems)
    if any(result["verdict"] == catalogue.ERROR for result in results):
        raise typer.Exit(1)


def _print_claims(statements: Sequence[Statement]) -> None:
    from pointset.cli.console import output_console, plain_table

    console = output_console()
    table = plain_table(console)
    table.add_column("statement", max_width=None if console.width >= _THREE_COLUMNS else _LONGEST_NAME)
    table.add_column("claim")
    for statement in statements:
        table.add_row(_text(statement.name, "bold"), _text(statement.claim))
    console.print(table)


def _print_results(results: Sequence[dict[str, Any]], seconds: float) -> None:
    from pointset.cli.console import output_console, plain_table

    console = output_console()
    table = plain_table(console)
    table.add_column("statement", max_width=_LONGEST_NAME)
    narrow = console.width < _THREE_COLUMNS
    if not narrow:
        table.add_column("verdict", no_wrap=True)
    table.add_column("claim, and evidence")
    for result in results:
        name, verdict = _text(result["statement"], "bold"), _text(result["verdict"], _COLOURS[result["verdict"]])
        found = _text(result["claim"], "dim").append("\n").append_text(_text(result["evidence"]))
        table.add_row(*([name.append("\n").append_text(verdict)] if narrow else [name, verdict]), found)
        table.add_row()
    console.print(table)
    console.print(_summary(results, seconds))


def _summary(results: Sequence[dict[str, Any]], seconds: float) -> str:
    """``31 statements: 24 hold, 7 fail as printed; 75 s``."""
    from pointset.reports.run_pages.words import duration

    parts = []
    for verdict, one, many in (
        ("holds", "holds", "hold"),
        ("fails as printed", "fails as printed", "fail as printed"),
        ("error", "ended in an error", "ended in an error"),
    ):
        count = sum(result["verdict"] == verdict for result in results)
        if count:
            parts.append(f"{count} {one if count == 1 else many}")
    return f"{counted(len(results), 'statement')}: {', '.join(parts)}; {duration(seconds)}"


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    from pointset.cli.messages import printable

    return Text(printable(text), style=style)
