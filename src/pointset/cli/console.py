"""What the commands share: kinds of options and their checks, tables on stdout, messages on stderr."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from pointset.cli.entry import INTERRUPTED
from pointset.datasets.graph_files.formats import format_of
from pointset.errors import FileFormatError, MissingExtraError, PointsetError, TrainingStopped
from pointset.text import printable

if TYPE_CHECKING:
    from pointset.datasets.graph_files.checking import Problem
    from pointset.runs.recipe import Recipe

_PIPE_WIDTH = 110  # rich assumes 80 columns where there is no terminal, too few for a line to be found by grep
_SPACIOUS = 100  # columns from which two blanks fit between those of a table
_SHOWN_PROBLEMS = 20
_PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


# --- commands and options


class _PlainFlags:
    """Mixed into a command: its help shows ``--json`` alone, where typer would write ``--json <bool>``."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(_PlainFlags, TyperCommand):
    """A command of ours."""


class Commands(_PlainFlags, TyperGroup):
    """A group of them."""


class MatrixName(StrEnum):
    """The names of ``pointset.points.matrices.MATRICES`` (a test compares the two)."""

    LAPLACIAN = "laplacian"
    ADJACENCY = "adjacency"
    NORMALIZED_ADJACENCY = "normalized_adjacency"
    AUGMENTED = "augmented"


class FloatType(StrEnum):
    """Precision of eigenpairs and weights."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"


class Device(StrEnum):
    """Where a model is computed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Progress(StrEnum):
    """How the progress of training is shown."""

    AUTO = "auto"
    BAR = "bar"
    PLAIN = "plain"
    QUIET = "quiet"


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run, or a bundle: a folder or a .zip.")
]
SettingsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Settings to change: model.dim=96 seed=3.")
]
MatrixOption = Annotated[
    MatrixName,
    typer.Option(
        metavar="NAME",
        help="The matrix to decompose: laplacian, adjacency, normalized_adjacency or augmented.",
    ),
]
SmilesOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of SMILES: its name, or its number from 0.")
]
DataDirOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder of the data; by default what POINTSET_DATA names.")
]
DeviceOption = Annotated[Device, typer.Option(metavar="NAME", help="cpu, cuda or auto.")]
ProgressOption = Annotated[Progress, typer.Option(metavar="MODE", help="bar, plain (lines, for logs), quiet, or auto.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
JsonFileOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the results to this file, for programs.")
]
PictureOption = Annotated[Path | None, typer.Option(metavar="OUT.png", help="Draw the results: .png, .svg, .pdf.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", help="Print only problems, no progress and no summary.")]


def is_given(context: typer.Context, option: str) -> bool:
    """Whether the user named this option."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def refuse_options(context: typer.Context, options: Collection[str], reason: str) -> None:
    """Refuse those of these options that the user named, as they would have no effect."""
    for option in options:
        if is_given(context, option):
            raise typer.BadParameter(f"--{option.replace('_', '-')} {reason}")


def split_names(text: str) -> list[str]:
    """``pst, gin,pst`` → ``["pst", "gin"]``."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def named_recipe(name: str, settings: Sequence[str]) -> Recipe:
    """The recipe of this name, file or run folder, with the settings changed that were given."""
    from pointset.runs.recipe_files import read_recipe

    if "=" in name:
        raise typer.BadParameter(f"got {name!r}; expected a recipe's name before settings", param_hint="RECIPE")
    return read_recipe(name, settings)


def folder_name(recipe_name: str, nameless: str) -> str:
    """A name that always lies inside of the folder it is put into, whatever the recipe is called."""
    return re.sub(r"[^\w-]+", "-", recipe_name).strip("-") or nameless


def is_points_file(path: Path) -> bool:
    """By its name; everything else is a graph file."""
    return path.suffix.lower() == ".safetensors" and not path.is_dir()


def check_graph_suffix(path: Path, hint: str) -> None:
    """Refuse a file of unknown kind as a usage error."""
    try:
        format_of(path)
    except FileFormatError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def check_folder_of(path: Path, hint: str) -> None:
    """Refuse an output whose folder is missing before any work is done."""
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}; create it first", param_hint=hint)


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written before any work is done."""
    check_folder_of(path, "--picture")
    if path.suffix.lower() not in _PICTURE_SUFFIXES:
        raise typer.BadParameter(
            f"got {path.name!r}; expected a name that ends in {', '.join(_PICTURE_SUFFIXES)}", param_hint="--picture"
        )


def check_outputs(json_file: Path | None, picture: Path | None = None) -> None:
    """Refuse what could not be written, before any work is done."""
    if json_file is not None:
        check_folder_of(json_file, "--json")
        if json_file.is_dir():
            raise typer.BadParameter(f"{json_file} is a folder; name a file in it", param_hint="--json")
    if picture is not None:
        check_picture(picture)
        from pointset.reports.pictures import check_picture_file

        check_picture_file(picture)  # matplotlib is there


def write_outputs(
    content: Any, json_file: Path | None, picture: Path | None, draw: Callable[[Any, Path], None]
) -> None:
    """Write ``content`` as JSON, and what ``draw`` makes of it."""
    from pointset.files import write_json

    if json_file is not None:
        write_json(json_file, content)
    if picture is not None:
        draw(content, picture)
    written = [str(path) for path in (json_file, picture) if path is not None]
    if written:
        say(f"wrote {' and '.join(written)}")


# --- stdout


def output_console() -> Console:
    """The terminal; a pipe or a file gets lines of 110 columns at least."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, _PIPE_WIDTH))


def plain_table(console: Console, *headings: str, numbers: Collection[str] = ()) -> Table:
    """A table with a line under its head and no other, closer where the terminal is narrow.

    Columns whose headings are among ``numbers`` are aligned to the right.
    """
    padding = (0, 1 if console.width >= _SPACIOUS else 0, 0, 0)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left")
    return table


def print_json(content: Any) -> None:
    """For programs, on stdout."""
    typer.echo(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


# --- stderr


@contextmanager
def reported_errors(interrupted: str = "Interrupted; nothing was written.", *, resume: str = "") -> Iterator[None]:
    """Turn errors into one message and an exit code: 1 for failure, 130 for Ctrl-C.

    Args:
        interrupted: what is said after Ctrl-C; a training that stopped says itself what it has saved.
        resume: how to resume, said behind both.
    """
    try:
        yield
    except TrainingStopped as stopped:
        exit_interrupted(f"{stopped} {resume}")
    except PointsetError as error:
        show_error(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        exit_interrupted(f"{interrupted} {resume}")
    except BrokenPipeError:  # the reader of our output went away: typer ends quietly
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        show_error(f"{where}{error.strerror or error}")
        raise typer.Exit(1) from None
    except MemoryError:
        show_error("this machine has not enough memory. Take fewer graphs at a time, or keep fewer eigenpairs (--rank)")
        raise typer.Exit(1) from None


@contextmanager
def optional_report(remedy: str = "") -> Iterator[None]:
    """A package that is missing costs the report inside, not the results."""
    try:
        yield
    except MissingExtraError as error:
        say(f"note: no report.html was written: {error}{remedy}", style="yellow")


def exit_interrupted(message: str, command: str = "") -> NoReturn:
    """End as after Ctrl-C, and say how to resume: with this command, where one is given."""
    say(message, style="yellow")
    if command:
        say(f"  {command}", style="bold")
    raise typer.Exit(INTERRUPTED) from None


def load_torch() -> None:
    """Import torch with Ctrl-C held back until it is done: inside its C++ start-up an interrupt aborts the process."""
    if not hasattr(signal, "pthread_sigmask"):
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        import torch  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def say(message: str, *, style: str | None = None) -> None:
    """One line on stderr, in colour where it is a terminal."""
    Console(stderr=True).print(printable(message), style=style, markup=False, highlight=False, soft_wrap=True)


def show_error(message: str) -> None:
    """The one message that a failing command ends with; what helps stands below its first line."""
    first, *rest = message.split("\n")
    say(f"Error: {first}", style="red")
    for line in rest:
        say(line, style="yellow")


def show_problems(problems: Sequence[Problem]) -> None:
    """Every graph that was left out with its reason; from the 21st on only how many."""
    for problem in problems[:_SHOWN_PROBLEMS]:
        say(f"left out {problem.name}: {problem.reason}", style="yellow")
    if len(problems) > _SHOWN_PROBLEMS:
        say(f"left out {len(problems) - _SHOWN_PROBLEMS} more", style="yellow")


def show_ignored(attributes: Sequence[str]) -> None:
    """Attributes that the file has and points do not keep."""
    if attributes:
        names = ", ".join(attributes[:10]) + (", …" if len(attributes) > 10 else "")
        say(f"note: not kept: {names} (kept are x, pos, y, weight and edge_attr)", style="dim")
