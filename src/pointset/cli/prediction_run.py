"""The work of ``pointset predict`` and ``pointset embed``, and what is said of it (:func:`answer_rows`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pointset.cli.entry import INTERRUPTED
from pointset.cli.messages import counted, load_torch, say, show_error, size_text
from pointset.cli.options import check_folder_of, is_given

if TYPE_CHECKING:
    from pointset.training.prediction.jobs import Job
    from pointset.training.prediction.part_file import PartFile, Progress
    from pointset.training.prediction.question import Question
    from pointset.training.predictor import Predictor

_ONLY_FOR = {"smiles": "TABLE", "no_header": "TABLE", "workers": "TABLE", "split": "DATASET", "data_dir": "DATASET"}


def check_options(context: typer.Context, given: str) -> None:
    """Refuse options that would have no effect on this kind of input, before torch is loaded."""
    from pointset.training.prediction.sources import Kind, kind_of

    kind = kind_of(given)
    for option, other in _ONLY_FOR.items():
        if is_given(context, option) and kind is not Kind[other]:
            raise typer.BadParameter(
                f"--{option.replace('_', '-')} is about {Kind[other].value}, and {given} is {kind.value}; leave it out"
            )


def answer_rows(
    run: Path, question: Question, output: Path, *, device: str, overwrite: bool, restart: bool, quiet: bool
) -> None:
    """Answer all rows of the input into the output; what can be checked is checked before the work starts."""
    from pointset.training.bundle_files import find_bundle
    from pointset.training.prediction.part_file import PartFile

    start = time.monotonic()
    find_bundle(run)
    check_folder_of(output, "--output")
    _check_other_file(question.given, output)
    part = PartFile(output, restart=restart, overwrite=overwrite)
    try:
        load_torch()
        from pointset.training.prediction.jobs import Job

        job = Job(_predictor(run, device), question, show=False if quiet else None)
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
    from pointset.training.predictor import load

    if device == "cuda" and not torch.cuda.is_available():
        raise SpecError("got --device cuda, but this machine has no CUDA device that torch can use; use --device cpu")
    predictor = load(run)
    predictor.model.to("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    return predictor


def _say_beginning(job: Job, done: int) -> None:
    if done:
        say(f"Going on behind the first {counted(done, job.unit)}, which an earlier call has answered.")
    if job.renamed:
        say(f"note: the input has such columns already, so ours are named {', '.join(job.renamed)}", style="dim")


def _run(job: Job, part: PartFile, done: int, quiet: bool) -> None:
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
        typer.echo(f"{answered} → {output} ({size_text(output.stat().st_size)}) in {seconds:.1f} s")
