"""Ways to watch a training run: a bar, lines for a log, nothing, TensorBoard (:func:`watcher_for`).

A :class:`Watcher` is told what happens; :class:`Session` keeps the numbers, and pieces of text with shorter forms make
lines that fit any terminal. Light to import (no torch; rich only where a bar is drawn).
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pointset.errors import MissingExtraError, SpecError, did_you_mean
from pointset.metrics import metric_label
from pointset.progress import seconds_left
from pointset.text import clock, counted, log_number, short_clock, visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from pointset.runs.result import EpochRow

MODES = ("auto", "bar", "plain", "quiet")

_SETTLED_SECONDS = 0.5  # of an epoch, after which its speed says something
_EPOCH_SECONDS = 10  # between two lines of a log about epochs; the first and the last always have one
_BATCH_SECONDS = 60  # without any line, after which a long epoch gives a sign of life
_REFRESHES = 4  # of the bar per second, by a thread of rich's: a step only sets numbers
_MARKS = 10  # lines that stay above the bar, over the whole run
_BAR_WIDTHS = {0: 6, 70: 8, 90: 16, 110: 24}  # columns of the bar itself, from so many of the terminal on
_GAP = 2  # blanks between two pieces of a line
# Which piece takes its next form where a line is too long; the first goes first.
_SHORTENED = ("batch", "best", "speed", "val", "batch", "best", "left", "epoch", "speed", "loss", "best", "val")
_STYLES = {"epoch": "bold", "batch": "dim", "speed": "cyan", "best": "green", "left": "yellow"}


class Plan(NamedTuple):
    """What is about to be trained."""

    name: str
    epochs: int
    first_epoch: int  # from 0; above 0 when a run is resumed
    batches: int  # per epoch
    graphs: int  # per epoch
    metric: str  # the validation score that chooses the best epoch
    higher_is_better: bool
    parameters: int


class Watcher:
    """Told by the loop, in this order: begin, (batch …, validating, epoch) …, end. ``say`` may come at any time.

    Watchers override what they care about.
    """

    def begin(self, plan: Plan) -> None:
        """Training starts; after an ``end`` it may start again, with another plan."""

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        """A step is done: batch number ``batch`` (from 1) of epoch ``epoch`` (from 1), with ``graphs`` graphs;
        ``loss`` is the mean of the epoch so far.
        """

    def validating(self) -> None:
        """The last batch of the epoch is done, validation starts."""

    def epoch(self, row: EpochRow) -> None:
        """An epoch is done."""

    def say(self, message: str) -> None:
        """A note for people."""

    def end(self) -> None:
        """Training is over, whether it was finished, stopped or failed."""


def watcher_for(mode: str, *, log_dir: Path | None) -> Watcher:
    """The watcher of a mode, and TensorBoard's event files too where they are wanted.

    Args:
        mode: ``bar`` (a line that moves, on stderr), ``plain`` (lines for log files, on stderr), ``quiet``, or
            ``auto``: a bar where stderr is a terminal, otherwise plain.
        log_dir: the folder of the event files; None for none.

    Raises:
        SpecError: there is no such mode.
        MissingExtraError: tensorboard is not installed.
    """
    watcher: Watcher = {"bar": Bar, "plain": Plain, "quiet": Quiet}[_chosen(mode)]()
    return watcher if log_dir is None else Watchers(watcher, TensorBoard(log_dir))


def _chosen(mode: str) -> str:
    if mode not in MODES:
        raise SpecError(f"got progress {mode!r}; expected one of {', '.join(MODES)}{did_you_mean(mode, list(MODES))}")
    if mode == "auto":
        return "bar" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain"
    return mode


class Quiet(Watcher):
    """Shows nothing, notes nothing."""


class Watchers(Watcher):
    """Several as one; each is told all, in their order."""

    def __init__(self, *watchers: Watcher):
        for event in ("begin", "batch", "validating", "epoch", "say", "end"):
            setattr(self, event, partial(self._tell, watchers, event))

    @staticmethod
    def _tell(watchers: Sequence[Watcher], event: str, *about: Any) -> None:
        for watcher in watchers:
            getattr(watcher, event)(*about)


class Session:
    """The state of a run from where it was started or resumed. Keeping it costs a microsecond.

    A thread may read it at any moment: nothing read here is a state that only exists between two lines.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic):
        self.plan = plan
        self.clock = clock
        self.started = self.epoch_started = self.latest = clock()
        self.finished = plan.first_epoch  # epochs
        self._origin = float(plan.first_epoch)  # where this session took over, which may be within an epoch
        self.row: EpochRow | None = None  # of the last one that was finished in this session
        self.validating = False
        self.done = 0  # batches of this epoch
        self._graphs = 0  # of this epoch
        self._loss = 0.0

    def batch(self, batch: int, graphs: int, loss: float) -> None:
        """After a step."""
        if self.row is None and not self.done:
            self._origin = self.finished + (batch - 1) / max(self.plan.batches, 1)
        self._loss = loss
        self._graphs += graphs
        self.done = batch
        self.latest = self.clock()

    def epoch(self, row: EpochRow) -> None:
        """After an epoch."""
        self.epoch_started = self.latest = self.clock()
        self.finished = row.epoch
        self.validating = False
        self.done = self._graphs = 0
        self.row = row

    @property
    def number(self) -> int:
        """The epoch that is running, from 1; the last one when all are done."""
        return min(self.finished + 1, self.plan.epochs) if self.done or not self.row else self.finished

    @property
    def epochs(self) -> float:
        """How many epochs are done, with a part for the one that is running."""
        return self.finished + min(self.done / max(self.plan.batches, 1), 1.0)

    @property
    def loss(self) -> float | None:
        """The mean of this epoch so far; between two epochs that of the last."""
        if self.done:
            return self._loss
        return self.row.train_loss if self.row else None

    @property
    def speed(self) -> float | None:
        """Graphs per second of training, in this epoch, or in the last one where it has only begun."""
        seconds, graphs, row = self.latest - self.epoch_started, self._graphs, self.row
        if graphs and (seconds >= _SETTLED_SECONDS or not row):
            return graphs / seconds if seconds > 0 else None
        return row.graphs_per_second if row else None

    @property
    def elapsed(self) -> float:
        """Seconds of this session."""
        return self.clock() - self.started

    @property
    def left(self) -> int | None:
        """Seconds until the last epoch is done: by the mean of the epochs of this session, validation included;
        in the first one by the batches so far. Early stopping may be faster.
        """
        epochs, finished = self.plan.epochs - self._origin, self.finished - self._origin
        if self.row is None or finished <= 0:
            return seconds_left(self.elapsed, self.epochs - self._origin, epochs)
        took = self.epoch_started - self.started
        left = seconds_left(took, finished, epochs) or 0
        since = min(self.clock() - self.epoch_started, took / finished)  # an epoch that takes longer holds the time
        return max(round(left - since), 1) if left else 0


Pieces = dict[
    str, tuple[str, ...]
]  # of a line, by name: the forms of each, from the longest to the shortest, maybe empty


class Line:
    """Makes lines for a terminal. A form that was once too long does not come back, so that nothing jumps about."""

    def __init__(self) -> None:
        self._width = 0
        self._steps = 0

    def fitted(self, pieces: Pieces, width: int) -> dict[str, str]:
        """The pieces in the longest forms that fit into ``width`` columns together, without the empty ones."""
        if width > self._width:
            self._steps = 0
        self._width = width
        while True:
            done = _SHORTENED[: self._steps]
            texts = {name: forms[min(done.count(name), len(forms) - 1)] for name, forms in pieces.items()}
            texts = {name: text for name, text in texts.items() if text}
            if sum(len(text) + _GAP for text in texts.values()) - _GAP <= width or len(done) == len(_SHORTENED):
                return texts
            self._steps += 1


def title(plan: Plan) -> str:
    """``training own: 300 epochs of 10,000 graphs, 472,312 parameters; best epoch by MAE``."""
    epochs = f"{counted(plan.epochs, 'epoch')} of {counted(plan.graphs, 'graph')}"
    resumed = f"; resumed after epoch {plan.first_epoch:,}" if plan.first_epoch else ""
    chosen = f"; best epoch by {metric_label(plan.metric)}"
    return visible(f"training {plan.name}: {epochs}, {plan.parameters:,} parameters{chosen}{resumed}")


def line_pieces(
    session: Session, epoch: int, row: EpochRow | None, when: tuple[str, ...], batch: tuple[str, ...] = ("",)
) -> Pieces:
    """``epoch 12/300  batch 3/79  loss 0.2513  val MAE 0.2340  best 0.2200 (epoch 10)  4,532 graphs/s  3:12 left``.

    The scores are those of ``row``; what is not known is left out.
    """
    epochs, metric, loss, speed = session.plan.epochs, session.plan.metric, session.loss, session.speed
    number = f"{epoch:>{len(str(epochs))}}/{epochs}"
    pieces = {"epoch": (f"epoch {number}", number.strip()), "batch": batch}
    if loss is not None:
        pieces["loss"] = (f"loss {log_number(loss)}", "")
    if row is not None and metric in row.val:
        value = log_number(row.val[metric])
        pieces["val"] = (f"val {metric_label(metric)} {value}", f"val {value}", "")
    if row is not None and not math.isnan(row.best_value):
        best = f"best {log_number(row.best_value)}"
        pieces["best"] = (f"{best} (epoch {row.best_epoch})", f"{best} ({row.best_epoch})", best, "")
    if speed is not None and math.isfinite(speed):
        rate = f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}"
        pieces["speed"] = (f"{rate} graphs/s", f"{rate}/s", "")
    return pieces | {"left": when}


def time_left(session: Session, *, over: bool = False) -> tuple[str, ...]:
    """``3:12 left``; ``in 12:40`` where nothing is left to do; empty where it is not known."""
    left = 0 if over else session.left
    if left is None:
        return ("",)
    text = f"{clock(left)} left" if left else f"in {clock(session.elapsed)}"
    return text, short_clock(left or session.elapsed)


class Bar(Watcher):
    """One line that moves, on stderr: epoch, a bar, batch, loss, validation, best so far, speed, time left.

    Pieces are shortened and left out until the line fits the terminal. Ten lines of it stay.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic):
        from rich.console import Console

        self._console = console or Console(stderr=True)
        self._clock = clock
        self._session: Session | None = None
        self._live: Live | None = None
        self._over = False

    def begin(self, plan: Plan) -> None:
        from rich.live import Live

        self.end()
        console = self._console
        console.print(title(plan), style="dim", markup=False, highlight=False, soft_wrap=True)
        self._session, self._over = Session(plan, self._clock), False
        self._line, self._mark_line = Line(), Line()
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
        session, console = self._session, self._console
        if session is None:
            return
        session.epoch(row)
        epochs = session.plan.epochs
        if row.epoch < epochs and row.epoch * _MARKS // epochs > (row.epoch - 1) * _MARKS // epochs:
            # the time since the start, since the time left will be wrong soon
            after = f"after {clock(session.elapsed)}", short_clock(session.elapsed)
            pieces = line_pieces(session, row.epoch, row, after)
            console.print(_styled(self._mark_line.fitted(pieces, console.width)), soft_wrap=True)

    def say(self, message: str) -> None:
        self._console.print(visible(message), markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        if self._live is not None:
            self._over = True
            self._live.stop()  # draws the last state, which stays
        self._live = self._session = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich for every refresh."""
        session = self._session
        if session is None:
            return
        yield self.drawn(session, options.max_width)

    def drawn(self, session: Session, max_width: int) -> Table:
        """The line, as it stands now."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        width = next(bar for least, bar in reversed(_BAR_WIDTHS.items()) if max_width >= least)
        batch = f"{session.done:>{len(str(session.plan.batches))}}/{session.plan.batches}"
        where = f"{'validating' if session.validating else f'batch {batch}':<10}"
        forms = ("",) if self._over else (where, batch, "")
        pieces = line_pieces(session, session.number, session.row, time_left(session, over=self._over), forms)
        texts = self._line.fitted(pieces, max_width - width - _GAP)
        grid = Table.grid(padding=(0, _GAP))
        for column_width in (None, width, None):
            grid.add_column(width=column_width, no_wrap=True)
        bar = ProgressBar(total=max(session.plan.epochs, 1), completed=session.epochs, width=width)
        grid.add_row(_styled({"epoch": texts.pop("epoch")}), bar, _styled(texts))
        return grid


def _styled(texts: dict[str, str]) -> Text:
    from rich.text import Text

    gap = Text(" " * _GAP)
    return gap.join(Text(text, style=_STYLES.get(name, "")) for name, text in texts.items())


class Plain(Watcher):
    """A line for an epoch, on stderr, at most every 10 seconds, without colours: for log files and pipes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._session: Session | None = None
        self._written = 0.0  # when the last line was
        self._shown: EpochRow | None = None  # in the last line of an epoch

    def begin(self, plan: Plan) -> None:
        self._session, self._shown = Session(plan, self._clock), None
        self._write(title(plan))

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        session = self._session
        if session is None:
            return
        session.batch(batch, graphs, loss)
        if session.latest - self._written >= _BATCH_SECONDS:
            where = f"batch {batch}/{session.plan.batches}"
            self._write_pieces(line_pieces(session, epoch, None, time_left(session), (where,)))

    def epoch(self, row: EpochRow) -> None:
        session = self._session
        if session is None:
            return
        session.epoch(row)
        last = row.epoch >= session.plan.epochs
        if last or self._shown is None or self._clock() - self._written >= _EPOCH_SECONDS:
            self._write_pieces(line_pieces(session, row.epoch, row, time_left(session)))
            self._shown = row

    def say(self, message: str) -> None:
        self._write(visible(message))

    def end(self) -> None:
        session, self._session = self._session, None
        if session is not None and session.row is not None and session.row is not self._shown:
            # stopped before its end: where it stood
            self._write_pieces(line_pieces(session, session.row.epoch, session.row, time_left(session, over=True)))

    def _write_pieces(self, pieces: Pieces) -> None:
        self._write((" " * _GAP).join(forms[0] for forms in pieces.values() if forms[0]))

    def _write(self, text: str) -> None:
        self._written = self._clock()
        _print_to_log(text)


def _print_to_log(text: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that was closed does not end hours of training
        print(text, file=sys.stderr, flush=True)


class MemberDisplay:
    """The members of an ensemble, a line for each; to be entered before they train.

    ``mode`` is as for :func:`watcher_for`. What several members say alike is shown once.
    """

    def __init__(self, mode: str, names: Sequence[str], console: Console | None = None):
        self.mode, self._console = _chosen(mode), console
        self._said: set[str] = set()
        self._live: Live | None = None
        kinds: dict[str, Callable[[str], Watcher]] = {
            "bar": lambda name: _MemberBar(name, self),
            "plain": lambda name: _MemberLines(name, self),
            "quiet": lambda _name: Quiet(),
        }
        self._watchers = {name: kinds[self.mode](name) for name in names}

    def watcher(self, name: str, also: Watcher | None = None) -> Watcher:
        """What shows this member, and another that is told too."""
        return self._watchers[name] if also is None else Watchers(self._watchers[name], also)

    def finished(self, name: str) -> None:
        """Say that a member is trained."""
        watcher = self._watchers[name]
        if isinstance(watcher, _MemberBar | _MemberLines):
            watcher.finish()

    def say(self, message: str) -> None:
        """A note for people; the same one only once."""
        if self.mode == "quiet" or message in self._said:
            return
        self._said.add(message)
        if self._live is not None:
            self._live.console.print(visible(message), markup=False, highlight=False, soft_wrap=True)
        else:
            _print_to_log(visible(message))

    def __enter__(self) -> MemberDisplay:
        if self.mode == "bar":
            from rich.console import Console, Group
            from rich.live import Live

            lines: list[Any] = list(self._watchers.values())
            console, to_terminal = self._console or Console(stderr=True), sys.stdout.isatty()
            self._live = Live(
                Group(*lines), console=console, refresh_per_second=_REFRESHES, redirect_stdout=to_terminal
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class _MemberBar(Bar):
    """A line among others: its display draws it."""

    def __init__(self, name: str, display: MemberDisplay):
        super().__init__()
        self.name, self.display, self.state = name, display, "waiting"

    def finish(self) -> None:
        """It is trained; where it was before it came here, there is no line of its training."""
        self.state = "finished"

    def begin(self, plan: Plan) -> None:
        self.display.say(title(plan))
        self._session, self._over, self._line = Session(plan, self._clock), False, Line()

    def epoch(self, row: EpochRow) -> None:
        if self._session is not None:
            self._session.epoch(row)

    def say(self, message: str) -> None:
        self.display.say(message)

    def end(self) -> None:
        self._over = True  # its last state stays

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        name, session = Text(self.name, style="bold"), self._session
        if session is None:
            yield Text(f"{self.name}  {self.state}", style="dim")
            return
        grid = Table.grid(padding=(0, _GAP))
        grid.add_row(name, self.drawn(session, options.max_width - len(self.name) - _GAP))
        yield grid


class _MemberLines(Plain):
    """Lines that begin with the member's name."""

    def __init__(self, name: str, display: MemberDisplay):
        super().__init__()
        self.name, self.display = name, display

    def begin(self, plan: Plan) -> None:
        self._session, self._shown, self._written = Session(plan, self._clock), None, self._clock()
        self.display.say(title(plan))

    def say(self, message: str) -> None:
        self.display.say(message)

    def finish(self) -> None:
        """It is trained."""
        self._write("finished")

    def _write(self, text: str) -> None:
        super()._write(f"{self.name}  {text}")


class TensorBoard(Watcher):
    """``train_loss``, ``lr`` and ``val_<metric>`` for each epoch, counted from 1, as event files."""

    def __init__(self, log_dir: Path):
        self.log_dir = log_dir
        self._writer: Any = None
        try:  # asked for before any long work, though the files are opened when training starts
            self._make_writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        except ImportError:
            raise MissingExtraError(
                "logging for TensorBoard needs tensorboard, which is not installed: "
                "pip install 'pointset[tensorboard]', or set trainer.tensorboard=false"
            ) from None

    def begin(self, plan: Plan) -> None:
        self.end()
        first = plan.first_epoch + 1  # epochs from here on, which a killed run may have written, are written anew
        self._writer = self._make_writer(str(self.log_dir), purge_step=first if plan.first_epoch else None)

    def epoch(self, row: EpochRow) -> None:
        scores = {f"val_{metric}": value for metric, value in row.val.items()}
        for name, value in {"train_loss": row.train_loss, "lr": row.lr, **scores}.items():
            self._writer.add_scalar(name, value, row.epoch)

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
