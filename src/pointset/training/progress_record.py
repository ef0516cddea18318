"""How far a run has come, as plain values that a checkpoint holds beside its tensors (:class:`ProgressRecord`)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from pointset.errors import FileFormatError
from pointset.training.watcher import EpochRow


@dataclass
class ProgressRecord:
    """Changes as the run goes on."""

    epoch: int = 0  # epochs that are done, validation included
    batch: int = 0  # batches that are done of the next one
    loss_sum: float = 0.0  # over the terms of those batches
    loss_terms: float = 0.0
    training_seconds: float = 0.0  # spent on those batches
    epoch_seconds: float = 0.0  # the same, with validation
    best_epoch: int = 0  # 1-based; 0: none yet
    best_value: float = math.nan  # its validation metric
    seconds: float = 0.0  # of training and validation, all sessions together
    stopped_early: bool = False
    history: list[EpochRow] = field(default_factory=list)

    @property
    def mean_loss(self) -> float:
        """Of the epoch so far."""
        return self.loss_sum / self.loss_terms if self.loss_terms else math.nan

    def spend(self, seconds: float, *, training: bool) -> None:
        """Time went by."""
        self.seconds += seconds
        self.epoch_seconds += seconds
        self.training_seconds += seconds if training else 0.0

    def end_epoch(self, row: EpochRow) -> None:
        """The epoch is done; the next one begins."""
        self.history.append(row)
        self.epoch += 1
        self.batch = 0
        self.loss_sum = self.loss_terms = self.training_seconds = self.epoch_seconds = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; floats survive exactly."""
        return dataclasses.asdict(self)

    def _check(self) -> None:
        for name in (one.name for one in dataclasses.fields(self) if one.name != "history"):
            value, kind = getattr(self, name), type(getattr(ProgressRecord, name))
            fits = isinstance(value, kind) or (kind is float and type(value) is int)
            if not fits or (kind is int and value < 0):
                raise TypeError(f"{name} is {value!r:.40}")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ProgressRecord:
        """The inverse of :meth:`as_dict`.

        Raises:
            FileFormatError: these are no such values.
        """
        try:
            record = cls(**(values | {"history": [EpochRow(**row) for row in values["history"]]}))
            record._check()
            return record
        except (TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(f"the checkpoint's record of progress is damaged ({error})") from None
