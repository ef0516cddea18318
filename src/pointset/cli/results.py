"""``pointset results``: the page of all results, and their numbers in other pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pointset.cli.console import check_folder_of, reported_errors, say
from pointset.text import counted

EXAMPLES = """
[bold]Examples[/bold]
  pointset results                       [dim]results/*.json → docs/results.md, pictures[/dim]
  pointset results --check               [dim]is anything out of date? for CI[/dim]
  pointset results --keep runs/reproduce/zinc-cpu/zinc-cpu.json
      [dim]put a table into results/ first; rows that only the one there has stay[/dim]
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
_README = Path("README.md")


def results(
    folder: Annotated[
        Path,
        typer.Argument(metavar="[FOLDER]", help="Where `pointset reproduce` wrote.", exists=True, file_okay=False),
    ] = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PAGE.md", help="The page to write.")] = Path(
        "docs/results.md"
    ),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; say what is out of date, and end with 1 if anything is.")
    ] = False,
    keep: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="TABLE.json",
            help="First put this table into FOLDER, repeatable. Rows of ours that only the one there has stay.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    readme: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.md",
            help="Markdown with marked places, repeatable. By default README.md and what lies beside the page.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Make the page of all results and its pictures, and fill their numbers into marked places of other pages."""
    with reported_errors():
        check_folder_of(output, "--output")
        if output.is_dir() or output.suffix != ".md":
            raise typer.BadParameter(f"got {output}; expected a file that ends in .md", param_hint="--output")
        from pointset.paper.tables.page import outdated, page_outputs, read_results, write_outputs

        if check and keep:
            raise typer.BadParameter("--check writes nothing; give one of both", param_hint="--keep")
        for path in keep or []:
            _keep(path, folder)
        found = read_results(folder)
        if found.figures:
            files = ", ".join(f"{folder / name}.json" for name in found.figures)
            say(f'left out {files} of the page: no table\'s result (no "table"), but figures for marks', style="dim")
        others = readme if readme is not None else _pages_beside(output)
        outputs = page_outputs(found, folder, output, [path for path in others if path != output])
        old = outdated(outputs)
        if check:
            _report(check=True, paths=[one.path for one in old], tables=len(found.tables), files=len(outputs))
            raise typer.Exit(1 if old else 0)
        if any(one.path.suffix == ".svg" for one in old):
            from pointset.reports.pictures import check_picture_file

            check_picture_file(output.with_suffix(".svg"))  # matplotlib is there
        write_outputs(old)
        _report(check=False, paths=[one.path for one in old], tables=len(found.tables), files=len(outputs))


def _keep(path: Path, folder: Path) -> None:
    from pointset.files import write_json
    from pointset.paper.tables.collect import MergedTable, merge_tables
    from pointset.paper.tables.formats import read_table

    new = read_table(path)
    target = folder / f"{new.name}.json"
    result, kept, outdated = merge_tables(new, read_table(target)) if target.exists() else MergedTable(new, [], [])
    write_json(target, result.model_dump(mode="json"))
    stay = f"; as it was: {', '.join(kept)}" if kept else ""
    typer.echo(f"wrote: {target}{stay}")
    if outdated:
        say(f"left out, as the table now makes them otherwise: {', '.join(outdated)}", style="yellow")


def _pages_beside(output: Path) -> list[Path]:
    return [path for path in [_README, *sorted(output.parent.glob("*.md"))] if path.is_file()]


def _report(*, check: bool, paths: list[Path], tables: int, files: int) -> None:
    for path in paths:
        state = ("out of date" if path.exists() else "missing") if check else "wrote"
        typer.echo(f"{state}: {path}")
    if check and paths:
        say(f"{len(paths)} of {counted(files, 'file')} to be made anew: run `pointset results`", style="yellow")
    elif not paths:
        say(f"{counted(files, 'file')} up to date, of {counted(tables, 'result')}")
