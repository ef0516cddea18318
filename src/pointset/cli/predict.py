"""``pointset predict`` and ``pointset embed``: a trained model answers row by row."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli.console import exit_interrupted, load_torch, reported_errors, said_at_the_end, say, show_error
from pointset.cli.options import (
    ClusterOption,
    DataDirOption,
    Device,
    DeviceOption,
    NoHeaderFlag,
    QuietFlag,
    RequireSignatureOption,
    RunArgument,
    SheetOption,
    SmilesOption,
    check_folder_of,
    refuse_options,
)
from pointset.text import byte_size, counted

if TYPE_CHECKING:
    from pointset.cluster import Cluster
    from pointset.prediction.journal import Progress, ResumableOutput
    from pointset.prediction.tables import PredictionOptions, TablePrediction

_RESUME = """
[bold]Interrupted?[/bold]  Repeat the command: it resumes where it stopped.
"""
EXAMPLES = f"""
[bold]Examples[/bold]
  pointset predict runs/mine molecules.csv -o out.csv      [dim]SMILES in a column[/dim]
  pointset predict solubility molecules.csv -o out.csv     [dim]a shipped model[/dim]
  pointset predict runs/mine library.smi.gz -o out.csv     [dim]a million rows, too[/dim]
  pointset predict runs/mine hits.sdf -o out.csv           [dim]also .xlsx, .parquet[/dim]
  pointset predict runs/mine in.parquet -o out.parquet --cluster local:4
  pointset predict model.zip table.tsv -o out.tsv --smiles structure
  pointset predict runs/mine graphs/ -o out.csv            [dim]a folder of graphs[/dim]
  pointset predict runs/zinc zinc --split test -o out.csv  [dim]a dataset by name[/dim]
  pointset predict runs/mine molecules.csv -o out.csv --confidence 0.8
  pointset predict model.zip my.csv -o out.csv --require-signature lab.key.pub

[bold]The output[/bold] has the rows of the input, in the same order
  the input's columns   for graph files and datasets: graph
  predicted_TARGET      the number in the target's unit, the probability of
                        a label, or the class; then probability_CLASS for each
  lower_, upper_TARGET  an interval that holds the truth with 90 % probability
  std_TARGET            the standard deviation of the error
  set_TARGET            of labels and classes: those that are not ruled out
  similarity, in_domain how near the training molecules are (Tanimoto, 0 to 1),
                        and whether the model knows molecules like this one
  status                ok, or why there is no prediction
  Models of nodes give a row for each, numbered from 0 in the column node.
{_RESUME}"""
EMBED_EXAMPLES = f"""
[bold]Examples[/bold]
  pointset embed runs/mine molecules.csv -o out.csv    [dim]a row for each molecule[/dim]
  pointset embed runs/mine molecules.csv -o atoms.csv --level node
  pointset embed solubility molecules.csv -o out.csv   [dim]a shipped model[/dim]
  pointset embed runs/zinc zinc --split test -o out.csv

[bold]The output[/bold] has the rows of the input, in the same order
  the input's columns   for graph files and datasets: graph
  read_as, node         at level node: the SMILES whose atoms are numbered, and
                        the atom or node, from 0
  e0, e1, …             the input of the model's last linear map
  status                ok, or why there is no representation
{_RESUME}"""
INPUT_HELP = "A table of SMILES, a graph file or a folder of them, or the name of a dataset."
_ONLY_FOR = dict.fromkeys(("smiles", "no_header", "sheet", "workers"), "TABLE")
_ONLY_FOR |= dict.fromkeys(("split", "data_dir"), "DATASET")
LevelName = StrEnum("LevelName", ["GRAPH", "NODE"])
_Input = Annotated[str, typer.Argument(metavar="INPUT", help=INPUT_HELP)]
_Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="OUT.csv", help="The file to write: .csv, .tsv or .parquet.")
]
_Split = Annotated[str | None, typer.Option(metavar="PART", help="Of a dataset: train, val or test; by default all.")]
_BatchSize = Annotated[int, typer.Option(min=1, metavar="N", help="Graphs that are computed together.")]
_Workers = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Processes that read SMILES; by default as many as needed.")
]
_Confidence = Annotated[
    float,
    typer.Option(min=0.0, max=1.0, metavar="P", help="Probability with which intervals and sets hold the truth."),
]
_NoIntervals = Annotated[bool, typer.Option("--no-intervals", help="Predictions alone, without intervals and domain.")]
_Descriptors = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For a model trained with a table of descriptors: that of these molecules."),
]
_SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="Put an apostrophe before names and other texts that a spreadsheet would take for formulas (=, +, -, @).",
    ),
]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT.csv if it exists.")]
_Restart = Annotated[bool, typer.Option("--restart", help="Start over instead of resuming an interrupted call.")]


def predict(
    context: typer.Context,
    run: RunArgument,
    given: _Input,
    output: _Output,
    smiles: SmilesOption = None,
    no_header: NoHeaderFlag = False,
    sheet: SheetOption = None,
    split: _Split = None,
    data_dir: DataDirOption = None,
    confidence: _Confidence = 0.9,
    no_intervals: _NoIntervals = False,
    descriptors: _Descriptors = None,
    batch_size: _BatchSize = 256,
    workers: _Workers = None,
    cluster: ClusterOption = None,
    device: DeviceOption = Device.AUTO,
    spreadsheet_safe: _SpreadsheetSafe = False,
    require_signature: RequireSignatureOption = None,
    overwrite: _Overwrite = False,
    restart: _Restart = False,
    quiet: QuietFlag = False,
) -> None:
    """Predict with a trained model: for every row of a table, graph of a file, or graph of a dataset.

    A bad row never stops the rest: it keeps its place, with the reason in the
    column status. Rows are read, answered and written one after the other, so
    memory does not grow with their number.
    """
    _answer(
        context,
        run,
        given,
        output,
        require_signature,
        device,
        overwrite,
        restart,
        quiet,
        cluster,
        smiles=smiles,
        header=not no_header,
        sheet=sheet,
        part=split,
        data_dir=data_dir,
        descriptors=descriptors,
        batch_size=batch_size,
        workers=workers,
        spreadsheet_safe=spreadsheet_safe,
        confidence=None if no_intervals else confidence,
    )


def embed(
    context: typer.Context,
    run: RunArgument,
    given: _Input,
    output: _Output,
    level: Annotated[
        LevelName | None,
        typer.Option(metavar="LEVEL", help="graph or node; by default what the model predicts for."),
    ] = None,
    smiles: SmilesOption = None,
    no_header: NoHeaderFlag = False,
    sheet: SheetOption = None,
    split: _Split = None,
    data_dir: DataDirOption = None,
    descriptors: _Descriptors = None,
    batch_size: _BatchSize = 256,
    workers: _Workers = None,
    cluster: ClusterOption = None,
    device: DeviceOption = Device.AUTO,
    spreadsheet_safe: _SpreadsheetSafe = False,
    require_signature: RequireSignatureOption = None,
    overwrite: _Overwrite = False,
    restart: _Restart = False,
    quiet: QuietFlag = False,
) -> None:
    """Compute representations of graphs or nodes with a trained model, to search, cluster or learn from.

    Works as `pointset predict` does: rows in the order of the input, a status
    for each, constant memory.
    """
    _answer(
        context,
        run,
        given,
        output,
        require_signature,
        device,
        overwrite,
        restart,
        quiet,
        cluster,
        embed=True,
        level=None if level is None else level.value,
        smiles=smiles,
        header=not no_header,
        sheet=sheet,
        part=split,
        data_dir=data_dir,
        descriptors=descriptors,
        batch_size=batch_size,
        workers=workers,
        spreadsheet_safe=spreadsheet_safe,
    )


def _answer(
    context: typer.Context,
    run: Path,
    given: str,
    output: Path,
    public_key: Path | None,
    device: Device,
    overwrite: bool,
    restart: bool,
    quiet: bool,
    cluster: str | None,
    **settings: Any,
) -> None:
    with reported_errors():
        check_options(context, given)
        from pointset.prediction.tables import PredictionOptions

        options = PredictionOptions(given, **settings)
        if cluster is not None:
            refuse_options(context, ["workers"], "is about processes of this machine; leave it out with --cluster")
        more: dict[str, Any] = {"cluster": cluster, "overwrite": overwrite, "restart": restart, "quiet": quiet}
        answer_rows(run, options, output, public_key=public_key, device=device.value, **more)


def check_options(context: typer.Context, given: str) -> None:
    """Refuse options that would have no effect on this kind of input, before torch is loaded."""
    from pointset.prediction.sources import InputKind, input_kind

    kind = input_kind(given)
    for option, other in _ONLY_FOR.items():
        if kind is not InputKind[other]:
            reason = f"is about {InputKind[other].value}, and {given} is {kind.value}; leave it out"
            refuse_options(context, [option], reason)


def answer_rows(
    run: Path,
    options: PredictionOptions,
    output: Path,
    *,
    public_key: Path | None,
    device: str,
    overwrite: bool,
    restart: bool,
    quiet: bool,
    cluster: str | None = None,
) -> None:
    """Answer all rows of the input into the output; what can be checked is checked before the work starts."""
    from pointset.prediction.journal import ResumableOutput
    from pointset.training.bundle_files import find_bundle

    start = time.monotonic()
    find_bundle(run)
    check_folder_of(output, "--output")
    if output.exists() and Path(options.input).exists() and output.samefile(options.input):
        raise typer.BadParameter("the output is the input; choose another name", param_hint="--output")
    part = ResumableOutput(output, restart=restart, overwrite=overwrite)
    try:
        load_torch()
        from pointset.cluster import connected
        from pointset.prediction.predictor import load
        from pointset.prediction.tables import TablePrediction
        from pointset.training.devices import check_device

        predictor = load(run, descriptors=options.descriptors, public_key=public_key)
        if cluster is None:  # the machine that asks a cluster may have other devices than its workers
            predictor.to(check_device(device, precision="32"))
        with said_at_the_end("Interrupted. Repeat the command to resume."), connected(cluster) as helpers:
            job = TablePrediction(predictor, options, show=False if quiet else None)
            done = job.begin(part)
            if done and not quiet:
                say(f"Resuming after the first {counted(done, job.unit)}, which an earlier call has answered.")
            if job.warning:
                say(f"note: {job.warning}", style="yellow")
            if job.renamed and not quiet:
                say(
                    f"note: the input has such columns already, so ours are named {', '.join(job.renamed)}",
                    style="dim",
                )
            _run(job, part, done, quiet, helpers, device)
    finally:
        part.close()
    _show_end(part.progress, job.unit, output, time.monotonic() - start, quiet)


def _run(
    job: TablePrediction, part: ResumableOutput, done: int, quiet: bool, cluster: Cluster | None, device: str
) -> None:
    from pointset.progress import progress_bar

    total = job.source.count()
    rest = None if total is None else max(total - done, 0)
    try:
        with progress_bar(f"{job.unit.capitalize()}s", rest, show=False if quiet else None) as advance:
            job.run(part, advance, cluster, device)
    except KeyboardInterrupt:
        answered = part.progress.entries
        if not answered:
            exit_interrupted("Interrupted before the first rows were answered. Repeat the command to start again.")
        after = counted(answered, job.unit)
        exit_interrupted(f"Interrupted after {after}. Repeat the command to resume; add --restart to start over.")


def _show_end(progress: Progress, unit: str, output: Path, seconds: float, quiet: bool) -> None:
    for one in progress.bad:
        say(f"not answered: {one}", style="yellow")
    more = progress.not_ok - len(progress.bad)
    if more > 0:
        say(f"not answered: {more:,} more; the column status says why", style="yellow")
    if progress.outside and progress.ok:
        unlike = (
            f"{progress.outside:,} of {counted(progress.ok, unit)} {'is' if progress.outside == 1 else 'are'} unlike"
        )
        say(
            f"{unlike} what the model was trained on (in_domain is no): trust what is predicted there less",
            style="yellow",
        )
    rows = counted(progress.entries, unit)
    if not progress.ok:
        show_error(f"none of {rows} could be answered; {output} says why in its column status")
        raise typer.Exit(1)
    if not quiet:
        answered = f"{progress.ok:,} of {rows}" if progress.not_ok else rows
        typer.echo(f"{answered} → {output} ({byte_size(output.stat().st_size)}) in {seconds:.1f} s")
