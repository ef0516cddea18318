"""What ``pointset train`` does with a recipe: one run or many, each with its report, and what it prints at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pointset.cli.messages import counted, say
from pointset.cli.training_words import print_result, print_summary
from pointset.errors import MissingExtraError, SpecError
from pointset.training.devices import is_first_process
from pointset.training.many_runs import Part, parts_of, train_many
from pointset.training.recipe import Recipe
from pointset.training.run import train
from pointset.training.run_folder import RunFolder


@dataclass(frozen=True)
class RunSettings:
    """The options of the command."""

    folder: Path
    resume: bool
    data_dir: Path | None
    device: str
    devices: int
    progress: str


def run_one(recipe: Recipe, how: RunSettings) -> None:
    """Train, write the report, print the result."""
    result = _trained(recipe, how.folder, how, resume=how.resume)
    if is_first_process():
        print_result(result, how.folder)


def run_all(recipe: Recipe, how: RunSettings, seeds: int | None, folds: int | None) -> None:
    """Train with several seeds, or on several folds; each run can be resumed by itself."""
    parts = parts_of(recipe, seeds, folds)
    _check_parts_folder(how, parts)

    def train_one(part: Part) -> dict[str, Any]:
        folder = how.folder / part.name
        if is_first_process() and how.progress != "quiet":
            say(f"{part.name} ({1 + parts.index(part)} of {counted(len(parts), 'run')})", style="bold")
        return _trained(part.recipe, folder, how, resume=how.resume and RunFolder(folder).has_run)

    summary = train_many(parts, how.folder, train_one)
    if is_first_process():
        _report(lambda: _write_comparison([how.folder / part.name for part in parts], how.folder))
        print_summary(summary, how.folder)


def _trained(recipe: Recipe, folder: Path, how: RunSettings, *, resume: bool) -> dict[str, Any]:
    was_finished = resume and RunFolder(folder).is_finished
    result = train(
        recipe,
        folder,
        resume=resume,
        data_dir=how.data_dir,
        device=how.device,
        devices=how.devices,
        watch=how.progress,
    )
    if is_first_process() and not (was_finished and RunFolder(folder).report.exists()):  # one of half a run is stale
        _report(lambda: _write_report(folder))
    return result


def _check_parts_folder(how: RunSettings, parts: Sequence[Part]) -> None:
    """All of them before the first begins."""
    begun = [part.name for part in parts if RunFolder(how.folder / part.name).has_run]
    if begun and not how.resume:
        raise SpecError(
            f"{how.folder} holds runs already ({', '.join(begun[:3])}…); go on with --resume, or choose another folder "
            "with --run-dir"
        )
    if RunFolder(how.folder).has_run:
        raise SpecError(f"{how.folder} is the folder of a single run; choose another with --run-dir")


def _write_report(folder: Path) -> None:
    from pointset.reports.run_report import write_report

    write_report(folder)


def _write_comparison(runs: Sequence[Path], folder: Path) -> None:
    from pointset.reports.run_report import write_comparison

    write_comparison(runs, folder / "report.html")


def _report(write: Callable[[], None]) -> None:
    """A missing package costs the report, not the run."""
    try:
        write()
    except MissingExtraError as error:
        say(f"note: no report.html was written: {error}. Then: pointset report RUN", style="yellow")
