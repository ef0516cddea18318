"""Ways to watch a training run (:func:`watcher_for`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pointset.errors import SpecError, did_you_mean
from pointset.training.watcher import EpochRow, Plan, Watcher

MODES = ("auto", "bar", "plain", "quiet")


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
    if mode not in MODES:
        raise SpecError(f"got progress {mode!r}; expected one of {', '.join(MODES)}{did_you_mean(mode, list(MODES))}")
    if mode == "auto":
        mode = "bar" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain"
    watcher = _shown(mode)
    if log_dir is None:
        return watcher
    from pointset.training.watching.tensorboard import TensorBoard

    return Watchers(watcher, TensorBoard(log_dir))


def _shown(mode: str) -> Watcher:
    if mode == "bar":
        from pointset.training.watching.bar import Bar

        return Bar()
    if mode == "plain":
        from pointset.training.watching.plain import Plain

        return Plain()
    from pointset.training.watching.quiet import Quiet

    return Quiet()


class Watchers:
    """Several as one; each is told all, in their order."""

    def __init__(self, *watchers: Watcher):
        self.watchers = watchers

    def begin(self, plan: Plan) -> None:
        for watcher in self.watchers:
            watcher.begin(plan)

    def batch(self, epoch: int, batch: int, graphs: int, loss: float) -> None:
        for watcher in self.watchers:
            watcher.batch(epoch, batch, graphs, loss)

    def validating(self) -> None:
        for watcher in self.watchers:
            watcher.validating()

    def epoch(self, row: EpochRow) -> None:
        for watcher in self.watchers:
            watcher.epoch(row)

    def say(self, message: str) -> None:
        for watcher in self.watchers:
            watcher.say(message)

    def end(self) -> None:
        for watcher in self.watchers:
            watcher.end()
