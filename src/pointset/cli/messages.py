"""What the verbs say on stderr: errors without traceback, left-out graphs, notes."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from pointset.cli.entry import INTERRUPTED
from pointset.errors import PointsetError

if TYPE_CHECKING:
    from pointset.datasets.graph_files.screening import Problem

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


def printable(text: str) -> str:
    """The text on one line, without control characters: names come from files, and must not steer the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))


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


def size_text(size: float) -> str:
    """Bytes for people: ``34.2 kB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def counted(count: int, noun: str) -> str:
    """``1 graph``, ``2,000 graphs``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
