"""Event files for TensorBoard (:class:`TensorBoard`)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from pointset.errors import MissingExtraError
from pointset.training.watcher import EpochRow, Plan
from pointset.training.watching.quiet import Quiet


class TensorBoard(Quiet):
    """``train_loss``, ``lr`` and ``val_<metric>`` for each epoch, counted from 1.

    Raises:
        MissingExtraError: tensorboard is not installed.
    """

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
