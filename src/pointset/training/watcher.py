"""What a training run tells those who watch it (:class:`Watcher`): a bar, a log, TensorBoard, a test.

Light to import (no torch).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Plan(NamedTuple):
    """What is about to be trained."""

    name: str
    epochs: int
    first_epoch: int  # from 0; above 0 when the run goes on after a break
    batches: int  # per epoch
    graphs: int  # per epoch
    metric: str  # of the validation scores that which chooses the best epoch
    higher_is_better: bool
    parameters: int


@dataclass(frozen=True)
class EpochRow:
    """One finished epoch."""

    epoch: int  # from 1
    lr: float
    train_loss: float
    val: dict[str, float]  # validation scores by metric
    is_best: bool
    best_epoch: int  # so far, this one included
    best_value: float  # NaN as long as no epoch has a score
    seconds: float  # of this epoch
    graphs_per_second: float


class Watcher(Protocol):
    """Called by the loop, in this order: begin, (batch …, validating, epoch) …, end. ``say`` may come at any time."""

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
