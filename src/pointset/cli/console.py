"""Where tables are printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
