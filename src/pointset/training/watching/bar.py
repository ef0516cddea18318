"""One line that moves, on stderr (:class:`Bar`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pointset.training.watcher import EpochRow, Plan
from pointset.training.watching import words
from pointset.training.watching.session import Session

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.text import Text

_REFRESHES = 4  # per second, by a thread of rich's: a step only sets numbers
_MARKS = 10  # lines that stay, over the whole run
_BAR_WIDTHS = {0: 6, 70: 8, 90: 16, 110: 24}  # columns of the bar itself, from so many of the terminal on
_STYLES = {
    "epoch": "bold",
    "bar": "bar.complete",
    "batch": "dim",
    "speed": "cyan",
    "best": "green",
    "left": "yellow",
}


class Bar:
    """Epoch, how much of the run is done, speed, loss, validation, best so far, time left; ten lines of it stay.

    Pieces are shortened and left out until the line fits the terminal.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic):
        self._console = console
        self._clock = clock
        self._session: Session | None = None
        self._live: Live | None = None
        self._over = False

    def begin(self, plan: Plan) -> None:
        from rich.console import Console
        from rich.live import Live

        self.end()
        console = self._console or Console(stderr=True)
        console.print(words.title(plan), style="dim", markup=False, highlight=False, soft_wrap=True)
        self._session, self._over = Session(plan, self._clock), False
        self._line, self._mark_line = words.Line(), words.Line()
        # what is printed goes above the line, but not to stderr where stdout is a file or a pipe
        self._live = Live(self, console=console, refresh_per_second=_REFRESHES, redirect_stdout=sys.stdout.isatty())
        self._live.start()

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        if self._session is not None:
            self._session.batch(batch, graphs, loss)

    def validating(self) -> None:
        if self._session is not None:
            self._session.validating = True

    def epoch(self, row: EpochRow) -> None:
        if self._session is None or self._live is None:
            return
        self._session.epoch(row)
        epochs = self._session.plan.epochs
        if row.epoch < epochs and row.epoch * _MARKS // epochs > (row.epoch - 1) * _MARKS // epochs:
            texts = self._mark_line.fitted(_mark_pieces(self._session, row), self._live.console.width)
            self._live.console.print(_joined(texts), soft_wrap=True)

    def say(self, message: str) -> None:
        from rich.console import Console

        console = self._live.console if self._live else self._console or Console(stderr=True)
        console.print(words.printable(message), markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        if self._live is not None:
            self._over = True
            self._live.stop()  # draws the last state, which stays
        self._live = self._session = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich for every refresh."""
        if self._session is None:
            return
        width = next(bar for least, bar in reversed(_BAR_WIDTHS.items()) if options.max_width >= least)
        texts = self._line.fitted(_state_pieces(self._session, self._over), options.max_width - width - words.GAP)
        full, half = divmod(int(2 * width * min(self._session.epochs / max(self._session.plan.epochs, 1), 1.0)), 2)
        done = "-" * full if options.ascii_only else "━" * full + "╸" * half
        rest = " " if options.ascii_only or console.color_system is None or console.no_color else "━"
        line = _joined({"epoch": texts.pop("epoch"), "bar": done})
        line.append(rest * (width - len(done)) + " " * words.GAP, style="bar.back")
        yield line.append_text(_joined(texts))


def _state_pieces(session: Session, over: bool) -> list[words.Piece]:
    """Of the line that moves."""
    plan = session.plan
    batch = f"{session.done:>{len(str(plan.batches))}}/{plan.batches}"
    where = f"{'validating' if session.validating else f'batch {batch}':<10}"
    return [
        words.epoch_piece(session.number, plan),
        words.Piece("batch", ("",) if over else (where, batch, "")),
        words.speed_piece(session.speed),
        words.loss_piece(session.loss),
        *words.score_pieces(session.row, plan),
        words.time_piece(0 if over else session.left, session.elapsed),
    ]


def _mark_pieces(session: Session, row: EpochRow) -> list[words.Piece]:
    """Of a line that stays: the time since the start, since the time left will be wrong soon."""
    return [
        words.epoch_piece(row.epoch, session.plan),
        words.loss_piece(row.train_loss),
        *words.score_pieces(row, session.plan),
        words.Piece("left", (f"after {words.duration(session.elapsed)}", words.short_duration(session.elapsed))),
    ]


def _joined(texts: dict[str, str]) -> Text:
    from rich.text import Text

    line = Text(no_wrap=True, end="")
    for index, (name, text) in enumerate(texts.items()):
        line.append(" " * words.GAP if index else "")
        line.append(text, style=_STYLES.get(name))
    return line
