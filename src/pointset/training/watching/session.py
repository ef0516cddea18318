"""Where a run stands, as the bar and the log tell it (:class:`Session`)."""

from __future__ import annotations

import time
from collections.abc import Callable

from pointset.progress import seconds_left
from pointset.training.watcher import EpochRow, Plan

_SETTLED_SECONDS = 0.5  # of an epoch, after which its speed says something


class Session:
    """The state of a run from its begin, or from where it goes on after a break. Keeping it costs a microsecond.

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
