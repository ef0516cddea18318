"""Lines for log files and pipes (:class:`Plain`)."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

from pointset.training.watcher import EpochRow, Plan
from pointset.training.watching import words
from pointset.training.watching.session import Session

_EPOCH_SECONDS = 10  # between two lines of epochs; the first and the last always have one
_BATCH_SECONDS = 60  # without any line, after which a long epoch gives a sign of life


class Plain:
    """A line for an epoch, on stderr, at most every 10 seconds, without colours."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._session: Session | None = None
        self._written = 0.0  # when the last line was
        self._shown: EpochRow | None = None  # in the last line of an epoch

    def begin(self, plan: Plan) -> None:
        self._session, self._shown = Session(plan, self._clock), None
        self._write(words.title(plan))

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        if self._session is None:
            return
        self._session.batch(batch, graphs, loss)
        if self._session.latest - self._written >= _BATCH_SECONDS:
            self._write_state(epoch, f"batch {batch}/{self._session.plan.batches}", None)

    def validating(self) -> None: ...

    def epoch(self, row: EpochRow) -> None:
        if self._session is None:
            return
        self._session.epoch(row)
        last = row.epoch >= self._session.plan.epochs
        if last or self._shown is None or self._clock() - self._written >= _EPOCH_SECONDS:
            self._write_state(row.epoch, "", row)

    def say(self, message: str) -> None:
        self._write(words.printable(message))

    def end(self) -> None:
        if self._session is None:
            return
        row = self._session.row
        if row is not None and row is not self._shown:  # stopped before its end: where it stood
            self._write_state(row.epoch, "", row, over=True)
        self._session = None

    def _write_state(self, epoch: int, batch: str, row: EpochRow | None, *, over: bool = False) -> None:
        if self._session is None:
            return
        plan = self._session.plan
        pieces = [
            words.epoch_piece(epoch, plan),
            words.Piece("batch", (batch,)),
            words.loss_piece(self._session.loss),
            *words.score_pieces(row, plan),
            words.speed_piece(self._session.speed),
            words.time_piece(0 if over else self._session.left, self._session.elapsed),
        ]
        self._write((" " * words.GAP).join(piece.forms[0] for piece in pieces if piece.forms[0]))
        self._shown = row or self._shown

    def _write(self, text: str) -> None:
        self._written = self._clock()
        with contextlib.suppress(OSError):  # a terminal that was closed does not end hours of training
            print(text, file=sys.stderr, flush=True)
