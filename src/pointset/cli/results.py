"""``pointset results``: the page of all results, and their numbers in other pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pointset.cli.console import reported_errors, say
from pointset.cli.options import check_output_file
from pointset.text import counted

EXAMPLES = """
[bold]Examples[/bold]
  pointset results                       [dim]results/*.json → docs/results.md, pictures[/dim]
  pointset results --check               [dim]is anything out of date? for CI[/dim]
  pointset results --keep runs/reproduce/zinc-cpu/zinc-cpu.json
      [dim]put a table into results/ first; rows that only the old one has stay[/dim]
  pointset results mine -o mine/page.md --readme notes.md

[bold]Numbers in other pages[/bold]
  A marked place in Markdown is filled with the number that was measured:
    <!-- result: counting-cpu/PST/3-cycle -->0.8<!-- /result -->
  TABLE-BUDGET/ROW/COLUMN is a cell as the table shows it; …/COLUMN/mean, std
  or against (ours against the paper's); …/ROW/* all means of a row, for a
  Markdown table; …/ROW/parameters or seconds;
  paper:ROW is the paper's row; TABLE-BUDGET/seconds, date, machine or runs;
  TABLE-BUDGET alone is the whole table;
  FILE/KEY is a figure of another JSON file in the folder, FILE/KEY as .4f
  the same with four digits.
"""


def results(
    folder: Annotated[
        Path,
        typer.Argument(metavar="[FOLDER]", help="Where `pointset reproduce` wrote.", exists=True, file_okay=False),
    ] = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PAGE.md", help="The page to write.")] = Path(
        "docs/results.md"
    ),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list what is out of date, and exit with 1 if anything is.")
    ] = False,
    keep: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="TABLE.json",
            help="First put this table into FOLDER; may be repeated. Rows of ours that only the old one has stay.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    readme: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.md",
            help="A page with marked places; may be repeated. By default README.md and the pages beside PAGE.md.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Write the page of all results and its pictures, and fill their numbers into marked places of other pages."""
    with reported_errors():
        check_output_file(output, "--output", (".md",))
        if check and keep:
            raise typer.BadParameter("--check writes nothing; give --check or --keep, not both", param_hint="--keep")
        for path in keep or []:
            _put_table(path, folder)
        others = readme if readme is not None else [Path("README.md"), *sorted(output.parent.glob("*.md"))]
        _update(folder, output, [path for path in others if path != output and path.exists()], check=check)


def _update(folder: Path, page: Path, others: list[Path], *, check: bool) -> None:
    """Write what is out of date, or with ``check`` only list it."""
    from pointset.paper.tables.page import outdated, page_outputs, read_results, write_outputs
    from pointset.reports.pictures import check_picture_file

    found = read_results(folder)
    if found.figures:
        files = ", ".join(f"{folder / name}.json" for name in found.figures)
        say(f"not on the page: {files} (figures for marked places, not the result of a table)", style="dim")
    outputs = page_outputs(found, folder, page, others)
    old = outdated(outputs)
    files_text = counted(len(outputs), "file")
    if not old:
        say(f"{files_text} up to date, of {counted(len(found.tables), 'result')}")
    elif check:
        for one in old:
            typer.echo(f"{'out of date' if one.path.exists() else 'missing'}: {one.path}")
        say(f"{len(old)} of {files_text} out of date: run `pointset results`", style="yellow")
        raise typer.Exit(1)
    else:
        if any(one.path.suffix == ".svg" for one in old):
            check_picture_file(page.with_suffix(".svg"))  # matplotlib is there
        write_outputs(old)
        for one in old:
            typer.echo(f"wrote: {one.path}")


def _put_table(path: Path, folder: Path) -> None:
    """Into the folder of results; rows of ours that only the table there has stay."""
    from pointset.files import write_json
    from pointset.paper.tables.collect import MergedTable, merge_tables
    from pointset.paper.tables.formats import read_table

    new = read_table(path)
    target = folder / f"{new.name}.json"
    result, kept, outdated = merge_tables(new, read_table(target)) if target.exists() else MergedTable(new, [], [])
    write_json(target, result.model_dump(mode="json"))
    stay = f"; kept as they were: {', '.join(kept)}" if kept else ""
    typer.echo(f"wrote: {target}{stay}")
    if outdated:
        say(f"left out, because the table now makes them differently: {', '.join(outdated)}", style="yellow")
