"""Watching without a word (:class:`Quiet`)."""

from __future__ import annotations

from pointset.training.watcher import EpochRow, Plan


class Quiet:
    """Shows nothing, notes neither; and what watchers inherit that care for some events only."""

    def begin(self, plan: Plan) -> None: ...

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None: ...

    def validating(self) -> None: ...

    def epoch(self, row: EpochRow) -> None: ...

    def say(self, message: str) -> None: ...

    def end(self) -> None: ...
