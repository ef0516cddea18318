"""``pointset report``: the page of a run, or one that compares several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pointset.cli.console import reported_errors
from pointset.cli.options import check_output_file

EXAMPLES = """
[bold]Examples[/bold]
  pointset report runs/first              [dim]writes runs/first/report.html again[/dim]
  pointset report runs/first -o page.html
  pointset report runs/seeds              [dim]a folder of seeds or folds: mean ± deviation[/dim]
  pointset report runs/pst runs/psds      [dim]compares them in comparison.html[/dim]
  pointset report runs/* -o all.html

[bold]The page[/bold]
  One HTML file that needs no network: to open, to print, to send. It has the
  scores of all parts with intervals beside the baselines (or the paper),
  predicted against measured (or confusion, ROC and precision-recall curves),
  calibration, error by similarity to training, the worst molecules drawn,
  learning curves, the recipe in words, timings, and the commands to run it
  again; eigenvalue functions and attention stand at its end. A run that is
  still training gives a page of what there is.

[bold]A comparison[/bold]
  Runs that differ only in seed or fold count as one recipe, with mean and
  standard deviation. Of the recipes' settings, only those that differ are shown.
"""


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Folders that `pointset train` made.", exists=True, file_okay=False),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.html",
            help="Where to write: by default report.html in the run's folder, comparison.html here for several.",
        ),
    ] = None,
) -> None:
    """Write the report of a run as one HTML file, or compare several runs. Prints the path of the page."""
    with reported_errors():
        if output is not None:
            check_output_file(output, "--output", (".html", ".htm"))
        from pointset.reports.pages import write_comparison, write_report

        if len(runs) == 1:
            typer.echo(write_report(runs[0], output))
        else:
            typer.echo(write_comparison(runs, output or Path("comparison.html")))
