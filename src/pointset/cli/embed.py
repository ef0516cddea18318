"""``pointset embed``: what a trained model makes of each graph or node, as numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from pointset.cli import prediction_options as options
from pointset.cli.messages import reported_errors
from pointset.cli.options import Device
from pointset.cli.prediction_run import answer_rows, check_options

EXAMPLES = """
[bold]Examples[/bold]
  pointset embed runs/mine molecules.csv -o out.csv    [dim]a row for each molecule[/dim]
  pointset embed runs/mine molecules.csv -o atoms.csv --level node
  pointset embed runs/zinc zinc --split test -o out.csv

[bold]What comes out[/bold] in the order of the input
  the input's columns   of graph files and datasets: graph
  read_as, node         at level node: the SMILES whose atoms are counted, and
                        the atom or node, from 0
  e0, e1, …             the representation that the model's last linear map sees
  status                ok, or why there is no answer

[bold]Broken off?[/bold]  Give the same command again: it goes on where it stopped.
"""


def embed(
    context: typer.Context,
    run: options.Run,
    given: options.Input,
    output: options.Output,
    level: Annotated[
        options.LevelName | None,
        typer.Option(metavar="LEVEL", help="graph or node; by default what the model predicts for."),
    ] = None,
    smiles: options.Smiles = None,
    no_header: options.NoHeader = False,
    split: options.Split = None,
    data_dir: options.DataDir = None,
    batch_size: options.BatchSize = 256,
    workers: options.Workers = None,
    device: options.DeviceName = Device.AUTO,
    overwrite: options.Overwrite = False,
    restart: options.Restart = False,
    quiet: options.Quiet = False,
) -> None:
    """Representations of graphs or nodes by a trained model, to search, cluster or learn from.

    Streams as `pointset predict` does: rows in the order of the input, a status for each, constant memory.
    """
    with reported_errors():
        check_options(context, given)
        from pointset.training.prediction.question import Question

        question = Question(
            given,
            embed=True,
            level=None if level is None else level.value,
            smiles=smiles,
            header=not no_header,
            part=split,
            data_dir=data_dir,
            batch_size=batch_size,
            workers=workers,
        )
        answer_rows(run, question, output, device=device.value, overwrite=overwrite, restart=restart, quiet=quiet)
