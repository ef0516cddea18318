"""``pointset predict``: a trained model answers row by row."""

from __future__ import annotations

import typer

from pointset.cli import prediction_options as options
from pointset.cli.messages import reported_errors
from pointset.cli.options import Device
from pointset.cli.prediction_run import answer_rows, check_options

EXAMPLES = """
[bold]Examples[/bold]
  pointset predict runs/mine molecules.csv -o out.csv      [dim]SMILES in a column[/dim]
  pointset predict runs/mine library.smi.gz -o out.csv     [dim]a million rows, too[/dim]
  pointset predict model.zip table.tsv -o out.tsv --smiles structure
  pointset predict runs/mine graphs/ -o out.csv            [dim]a folder of graphs[/dim]
  pointset predict runs/zinc zinc --split test -o out.csv  [dim]a dataset by name[/dim]

[bold]What comes out[/bold] in the order of the input
  the input's columns   of graph files and datasets: graph
  predicted_TARGET      the number in the target's unit, the probability of
                        a label, or the class; then probability_CLASS for each
  status                ok, or why there is no answer
  Models of nodes give a row for each, counted from 0 in the column node.

[bold]Broken off?[/bold]  Give the same command again: it goes on where it stopped.
"""


def predict(
    context: typer.Context,
    run: options.Run,
    given: options.Input,
    output: options.Output,
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
    """Predict with a trained model: for every row of a table, graph of a file, or graph of a dataset.

    A bad row never stops the rest: it keeps its place, with the reason in the column status. Rows are read,
    answered and written one after the other, so memory does not grow with their number.
    """
    with reported_errors():
        check_options(context, given)
        from pointset.training.prediction.question import Question

        question = Question(
            given,
            smiles=smiles,
            header=not no_header,
            part=split,
            data_dir=data_dir,
            batch_size=batch_size,
            workers=workers,
        )
        answer_rows(run, question, output, device=device.value, overwrite=overwrite, restart=restart, quiet=quiet)
