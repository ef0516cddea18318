"""``pointset predict``: a trained model answers row by row."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.console import Device, check_folder_of, is_given, load_torch, reported_errors, say, show_error
from pointset.cli.entry import INTERRUPTED
from pointset.text import byte_size, counted

if TYPE_CHECKING:
    from pointset.prediction.journal import Progress, ResumableOutput
    from pointset.prediction.predictor import Predictor
    from pointset.prediction.tables import PredictionOptions, TablePrediction


# What ``pointset predict`` and ``pointset embed`` accept alike.


RUN_HELP = "The folder of a run, or a bundle: a folder or a .zip."
INPUT_HELP = "A table of SMILES, a graph file or a folder of them, or the name of a dataset."


class LevelName(StrEnum):
    """What a representation is of."""

    GRAPH = "graph"
    NODE = "node"


Run = Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)]
Input = Annotated[str, typer.Argument(metavar="INPUT", help=INPUT_HELP)]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="OUT.csv", help="What to write: .csv or .tsv.")]
Smiles = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of SMILES: its name, or its number from 0.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line of the table is a row already.")]
Split = Annotated[str | None, typer.Option(metavar="PART", help="Of a dataset: train, val or test; all by default.")]
DataDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the dataset's files lie.")]
BatchSize = Annotated[int, typer.Option(min=1, metavar="N", help="Graphs that are computed together.")]
Workers = Annotated[int | None, typer.Option(min=0, metavar="N", help="Processes that read SMILES; by default enough.")]
DeviceName = Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT.csv where it is there already.")]
Restart = Annotated[bool, typer.Option("--restart", help="Forget what a broken call has done, and begin again.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only problems, no progress and no summary.")]


# The work of ``pointset predict`` and ``pointset embed``, and what is said of it (:func:`answer_rows`).


_ONLY_FOR = {"smiles": "TABLE", "no_header": "TABLE", "workers": "TABLE", "split": "DATASET", "data_dir": "DATASET"}


def check_options(context: typer.Context, given: str) -> None:
    """Refuse options that would have no effect on this kind of input, before torch is loaded."""
    from pointset.prediction.sources import InputKind, input_kind

    kind = input_kind(given)
    for option, other in _ONLY_FOR.items():
        if is_given(context, option) and kind is not InputKind[other]:
            raise typer.BadParameter(
                f"--{option.replace('_', '-')} is about {InputKind[other].value}, and {given} is {kind.value}; "
                "leave it out"
            )


def answer_rows(
    run: Path, options: PredictionOptions, output: Path, *, device: str, overwrite: bool, restart: bool, quiet: bool
) -> None:
    """Answer all rows of the input into the output; what can be checked is checked before the work starts."""
    from pointset.prediction.journal import ResumableOutput
    from pointset.training.bundle_files import find_bundle

    start = time.monotonic()
    find_bundle(run)
    check_folder_of(output, "--output")
    _check_other_file(options.input, output)
    part = ResumableOutput(output, restart=restart, overwrite=overwrite)
    try:
        load_torch()
        from pointset.prediction.tables import TablePrediction

        job = TablePrediction(_predictor(run, device), options, show=False if quiet else None)
        done = job.begin(part)
        if not quiet:
            _say_beginning(job, done)
        _run(job, part, done, quiet)
    finally:
        part.close()
    _say_end(part.progress, job.unit, output, time.monotonic() - start, quiet)


def _check_other_file(given: str, output: Path) -> None:
    if output.exists() and Path(given).exists() and output.samefile(given):
        raise typer.BadParameter("the output is the input; choose another name", param_hint="--output")


def _predictor(run: Path, device: str) -> Predictor:
    import torch

    from pointset.errors import SpecError
    from pointset.prediction.predictor import load

    if device == "cuda" and not torch.cuda.is_available():
        raise SpecError("got --device cuda, but this machine has no CUDA device that torch can use; use --device cpu")
    predictor = load(run)
    predictor.model.to("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    return predictor


def _say_beginning(job: TablePrediction, done: int) -> None:
    if done:
        say(f"Going on behind the first {counted(done, job.unit)}, which an earlier call has answered.")
    if job.renamed:
        say(f"note: the input has such columns already, so ours are named {', '.join(job.renamed)}", style="dim")


def _run(job: TablePrediction, part: ResumableOutput, done: int, quiet: bool) -> None:
    from pointset.progress import progress_bar

    total = job.source.count()
    rest = None if total is None else max(total - done, 0)
    try:
        with progress_bar(f"{job.unit.capitalize()}s", rest, show=False if quiet else None) as advance:
            job.run(part, advance)
    except KeyboardInterrupt:
        answered = part.progress.entries
        after = f" after {counted(answered, job.unit)}" if answered else ""
        say(f"Interrupted{after}. The same command goes on from there; --restart begins again.", style="yellow")
        raise typer.Exit(INTERRUPTED) from None


def _say_end(progress: Progress, unit: str, output: Path, seconds: float, quiet: bool) -> None:
    for one in progress.bad:
        say(f"not answered: {one}", style="yellow")
    more = progress.not_ok - len(progress.bad)
    if more > 0:
        say(f"not answered: {more:,} more; the column status says why", style="yellow")
    if not progress.ok:
        show_error(
            f"none of {counted(progress.entries, unit)} could be answered; {output} says why in its column status"
        )
        raise typer.Exit(1)
    if not quiet:
        answered = (
            f"{progress.ok:,} of {counted(progress.entries, unit)}"
            if progress.not_ok
            else counted(progress.entries, unit)
        )
        typer.echo(f"{answered} → {output} ({byte_size(output.stat().st_size)}) in {seconds:.1f} s")


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
    run: Run,
    given: Input,
    output: Output,
    smiles: Smiles = None,
    no_header: NoHeader = False,
    split: Split = None,
    data_dir: DataDir = None,
    batch_size: BatchSize = 256,
    workers: Workers = None,
    device: DeviceName = Device.AUTO,
    overwrite: Overwrite = False,
    restart: Restart = False,
    quiet: Quiet = False,
) -> None:
    """Predict with a trained model: for every row of a table, graph of a file, or graph of a dataset.

    A bad row never stops the rest: it keeps its place, with the reason in the column status. Rows are read,
    answered and written one after the other, so memory does not grow with their number.
    """
    with reported_errors():
        check_options(context, given)
        from pointset.prediction.tables import PredictionOptions

        options = PredictionOptions(
            given,
            smiles=smiles,
            header=not no_header,
            part=split,
            data_dir=data_dir,
            batch_size=batch_size,
            workers=workers,
        )
        answer_rows(run, options, output, device=device.value, overwrite=overwrite, restart=restart, quiet=quiet)


# ``pointset embed``: what a trained model makes of each graph or node, as numbers.


EMBED_EXAMPLES = """
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
    run: Run,
    given: Input,
    output: Output,
    level: Annotated[
        LevelName | None,
        typer.Option(metavar="LEVEL", help="graph or node; by default what the model predicts for."),
    ] = None,
    smiles: Smiles = None,
    no_header: NoHeader = False,
    split: Split = None,
    data_dir: DataDir = None,
    batch_size: BatchSize = 256,
    workers: Workers = None,
    device: DeviceName = Device.AUTO,
    overwrite: Overwrite = False,
    restart: Restart = False,
    quiet: Quiet = False,
) -> None:
    """Representations of graphs or nodes by a trained model, to search, cluster or learn from.

    Streams as `pointset predict` does: rows in the order of the input, a status for each, constant memory.
    """
    with reported_errors():
        check_options(context, given)
        from pointset.prediction.tables import PredictionOptions

        options = PredictionOptions(
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
        answer_rows(run, options, output, device=device.value, overwrite=overwrite, restart=restart, quiet=quiet)
