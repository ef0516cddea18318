"""What several commands print: tables on stdout, messages and errors on stderr."""

from __future__ import annotations

import errno
import gc
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pointset.cli.entry import INTERRUPTED
from pointset.errors import MissingExtraError, PointsetError, TrainingStopped
from pointset.stopping import held_back
from pointset.text import counted, duration, printable, visible

_PIPE_WIDTH = 110  # rich assumes 80 columns where there is no terminal, too few for a line to be found by grep
_SPACIOUS = 100  # columns from which two blanks fit between those of a table
_SHOWN_ENTRIES = 20
_WORTH_SAYING_SECONDS = 30
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class _PlainConsole(Console):
    """Text stands as it is: names from files are neither rich's markup nor commands to the terminal.

    What is to have a style is a ``rich.text.Text``.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Of strings that are printed, and of the cells of tables."""
        return super().render_str(visible(text), **options)


def output_console() -> Console:
    """The terminal; a pipe or a file gets lines of 110 columns at least."""
    console = _PlainConsole(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        return console
    return _PlainConsole(highlight=False, markup=False, emoji=False, width=max(console.width, _PIPE_WIDTH))


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


@contextmanager
def reported_errors(interrupted: str = "Interrupted; nothing was written.", *, resume: str = "") -> Iterator[None]:
    """Turn errors into one message and an exit code: 1 for failure, 130 for Ctrl-C.

    Args:
        interrupted: what is said after Ctrl-C; a training that stopped says itself what it has saved.
        resume: how to resume, said behind both, and where the disk is full.
    """
    try:
        with said_at_the_end(f"{interrupted} {resume}".strip()):
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
        remedy = f". Free some space, or write to another disk. {resume}".rstrip() if error.errno in _NO_ROOM else ""
        show_error(f"{where}{error.strerror or error}{remedy}")
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
    """Import torch with Ctrl-C held back until it is done: inside its C++ start-up an interrupt aborts the process.

    Its threads do not spin while they wait: on a machine with other work they would keep the cores from each other, and
    a step on two threads takes up to fifty times as long. And no garbage is collected meanwhile, as there is none: that
    alone would be an eighth of the time.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "0")
    collecting = gc.isenabled()
    gc.disable()
    try:
        with held_back():
            import torch  # noqa: F401
    finally:
        gc.freeze()  # modules stay: no collection need look at them again
        if collecting:
            gc.enable()


_unfinished: list[str] = []  # what to say where a command is ended in the middle of its work, the innermost last


def tell_end(saved: str) -> None:
    """The last words of a process that was asked to end and is too busy to do so; called by another thread."""
    hint = _unfinished[-1] if _unfinished else "Interrupted."
    cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a progress bar hides it
    os.write(2, f"{cursor}{f'{saved} ' if saved else ''}{hint}\n".encode(errors="replace"))


@contextmanager
def said_at_the_end(hint: str) -> Iterator[None]:
    """Inside, these are the last words of a process that is ended in the middle of its work."""
    _unfinished.append(hint)
    try:
        yield
    finally:
        _unfinished.remove(hint)


def say(message: str, *, style: str | None = None) -> None:
    """One line on stderr, in colour where it is a terminal."""
    Console(stderr=True).print(printable(message), style=style, markup=False, highlight=False, soft_wrap=True)


def show_error(message: str) -> None:
    """The one message that a failing command ends with; what helps stands below its first line."""
    first, *rest = message.split("\n")
    say(f"Error: {first}", style="red")
    for line in rest:
        say(line, style="yellow")


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """In the place of :func:`warnings.showwarning`: a note, without the line of the program that gave it."""
    say(f"note: {message}", style="yellow")


def show_left_out(entries: Sequence[tuple[str, str]], remedy: str = "") -> None:
    """Every graph or row that was left out with its reason; from the 21st on only how many, and the remedy."""
    for name, reason in entries[:_SHOWN_ENTRIES]:
        say(f"left out {name}: {reason}", style="yellow")
    if (more := len(entries) - _SHOWN_ENTRIES) > 0:
        say(f"left out {more:,} more{remedy}", style="yellow")


def show_forecast(num_nodes: Sequence[int], rank: int | None) -> None:
    """Before eigenpairs are computed that take longer than one waits for: how long, and what takes less."""
    from pointset.machine import cores
    from pointset.points.forecast import decomposition_seconds, decomposition_text

    seconds = [decomposition_seconds(n, rank) for n in num_nodes]
    longest, each = max(seconds, default=0.0), sum(seconds) / cores()
    if max(longest, each) > _WORTH_SAYING_SECONDS:
        largest = max(num_nodes)
        say(
            f"note: decomposing {counted(len(num_nodes), 'graph')} takes about {duration(max(longest, each))}, the "
            f"largest, of {largest:,} nodes, {decomposition_text(largest)}; --rank 64 keeps fewer eigenpairs and takes "
            "less",
            style="dim",
        )


def show_ignored(attributes: Sequence[str]) -> None:
    """Attributes that the file has and points do not keep."""
    if attributes:
        names = ", ".join(attributes[:10]) + (", …" if len(attributes) > 10 else "")
        say(f"note: not kept: {names} (kept are x, pos, y, weight and edge_attr)", style="dim")
