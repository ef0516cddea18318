"""Where tables are printed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pointset.cli.entry import INTERRUPTED
from pointset.datasets.graph_files.formats import format_of
from pointset.errors import FileFormatError, PointsetError
from pointset.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pointset.datasets.graph_files.checking import Problem


_PIPE_WIDTH = 110  # rich assumes 80 columns where there is no terminal, too few for a line to be found by grep
_SPACIOUS = 100  # columns from which two blanks fit between those of a table


def output_console() -> Console:
    """The terminal; a pipe or a file gets lines of 110 columns at least."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, _PIPE_WIDTH))


def plain_table(console: Console) -> Table:
    """A table with a line under its head and no other, closer where the terminal is narrow."""
    from rich import box
    from rich.table import Table

    padding = (0, 1 if console.width >= _SPACIOUS else 0, 0, 0)
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding, header_style="bold")


def print_json(content: Any) -> None:
    """For programs, on stdout."""
    typer.echo(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


# What the verbs say on stderr: errors without traceback, left-out graphs, notes.


_SHOWN_PROBLEMS = 20


@contextmanager
def reported_errors(interrupted: str = "Interrupted; nothing was written.") -> Iterator[None]:
    """Turn errors into one message and an exit code: 1 for failure, 130 for Ctrl-C, where ``interrupted`` is said."""
    try:
        yield
    except PointsetError as error:
        show_error(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say(interrupted, style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # the reader of our output went away: typer ends quietly
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        show_error(f"{where}{error.strerror or error}")
        raise typer.Exit(1) from None
    except MemoryError:
        show_error("the memory of this machine does not suffice. Convert fewer graphs at a time, or keep --rank K")
        raise typer.Exit(1) from None


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
    from rich.console import Console

    Console(stderr=True).print(printable(message), style=style, markup=False, highlight=False, soft_wrap=True)


def say_lines(message: str, *, style: str | None = None, below: str | None = None) -> None:
    """A message of one line or more; those from the second on in the style ``below``."""
    first, *rest = message.split("\n")
    say(first, style=style)
    for line in rest:
        say(line, style=below)


def show_error(message: str) -> None:
    """The one message that a failing command ends with; what helps stands below its first line."""
    say_lines(f"Error: {message}", style="red", below="yellow")


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


# Values that several verbs accept, known without importing torch.


_PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
MATRIX_HELP = "The matrix to decompose: laplacian, adjacency, normalized_adjacency or augmented."


class MatrixName(StrEnum):
    """The names of ``pointset.points.matrices.MATRICES`` (a test compares the two)."""

    LAPLACIAN = "laplacian"
    ADJACENCY = "adjacency"
    NORMALIZED_ADJACENCY = "normalized_adjacency"
    AUGMENTED = "augmented"


class FloatType(StrEnum):
    """Types of eigenpairs."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"


class Device(StrEnum):
    """Where a model is computed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class PlainFlags:
    """Mixed into a command: its help shows ``--json`` alone, where typer would write ``--json <bool>``."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Verb(PlainFlags, TyperCommand):
    """A command of ours."""


class Verbs(PlainFlags, TyperGroup):
    """A group of them."""


def is_given(context: typer.Context, option: str) -> bool:
    """Whether the user named this option, so that one without effect can be refused."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def is_points_file(path: Path) -> bool:
    """By its name; everything else is a graph file."""
    return path.suffix.lower() == ".safetensors" and not path.is_dir()


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


def check_graph_suffix(path: Path, hint: str) -> None:
    """Refuse a file of unknown kind as a usage error."""
    try:
        format_of(path)
    except FileFormatError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None
