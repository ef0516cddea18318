"""Checkpoints: all tensors and the progress of a run in one safetensors file, written whole or not at all.

Nothing is pickled. The file has a checksum, so that a damaged one is refused instead of continued.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pointset.arrays import Integers
from pointset.errors import FileFormatError, MissingDataError
from pointset.files import open_safetensors, replacing
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_settings, settings_digest
from pointset.runs.result import EpochRow

_NOTE, _VERSION = "pointset", 1
State = dict[str, Tensor]


@dataclass
class ProgressRecord:
    """How far a run has come: plain values that a checkpoint holds beside its tensors."""

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

    def end_epoch(self, row: EpochRow) -> None:
        """The epoch is done; the next one begins."""
        self.history.append(row)
        self.epoch += 1
        self.batch = 0
        self.loss_sum = self.loss_terms = self.training_seconds = self.epoch_seconds = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; floats survive exactly."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ProgressRecord:
        """The inverse of :meth:`as_dict`; damaged values are refused."""
        try:
            record = cls(**(values | {"history": [EpochRow(**row) for row in values["history"]]}))
            for name in (one.name for one in dataclasses.fields(cls) if one.name != "history"):
                value, kind = getattr(record, name), type(getattr(cls, name))
                fits = isinstance(value, kind) or (kind is float and type(value) is int)
                if not fits or (kind is int and value < 0):
                    raise TypeError(f"{name} is {value!r:.40}")
        except (TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(f"the checkpoint's record of progress is damaged ({error})") from None
        return record


class Checkpoint(NamedTuple):
    """What a file holds: tensors by group (``model``, ``average``, ``best``, ``optimizer``) and plain values."""

    groups: dict[str, State]
    progress: ProgressRecord
    run: str = ""  # which run it is of; empty in those of older versions


def save_checkpoint(
    path: Path, groups: Mapping[str, Mapping[str, Tensor]], progress: ProgressRecord, run: str = ""
) -> None:
    """Write a checkpoint of this run; the old one stays until the new one is whole."""
    from safetensors.torch import save_file

    tensors = {
        f"{group}/{name}": tensor.detach().to("cpu", copy=True).contiguous()
        for group, state in groups.items()
        for name, tensor in state.items()
    }
    note = {"version": _VERSION, "progress": progress.as_dict(), "sha256": _digest(tensors, progress), "run": run}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={_NOTE: json.dumps(note)})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read what :func:`save_checkpoint` wrote.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: it is damaged, or of a newer version.
    """
    from safetensors import SafetensorError

    if not path.exists():
        raise MissingDataError(f"there is no checkpoint {path}")
    try:
        with open_safetensors(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            note = json.loads(file.metadata()[_NOTE])
        if note["version"] > _VERSION:
            raise FileFormatError(
                f"{path} was written by a newer pointset; expected version {_VERSION}. Update pointset"
            )
        progress = ProgressRecord.from_dict(note["progress"])
        if note["sha256"] != _digest(tensors, progress):
            raise FileFormatError(f"{path} does not match its checksum; start the run again in another folder")
        groups: dict[str, State] = {}
        for name, tensor in tensors.items():
            group, _, key = name.partition("/")
            groups.setdefault(group, {})[key] = tensor
        return Checkpoint(groups, progress, str(note.get("run", "")))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is damaged ({error}); start the run again in another folder") from None


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """``3.exp_avg`` → tensor: the moments of each parameter, by its number."""
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{number}.{key}": torch.as_tensor(value) for number, moments in state.items() for key, value in moments.items()
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: State) -> None:
    """The inverse of :func:`optimizer_state`; learning rates are not in it, as the schedule sets them at each step."""
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in state.items():
        number, _, key = name.partition(".")
        moments.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})


def run_digest(folder: RunFolder, recipe: Recipe, split: Mapping[str, Integers]) -> str:
    """What a checkpoint must agree in with the run that it is resumed for: settings and split, SHA-256."""
    digest = hashlib.sha256(recipe_digest(folder, recipe).encode())
    for part in sorted(split):
        digest.update(part.encode() + np.ascontiguousarray(split[part], dtype="<i8").tobytes())
    return digest.hexdigest()


def recipe_digest(folder: RunFolder, recipe: Recipe) -> str:
    """The digest of all settings.

    Of a run that has begun, they are those that its ``recipe.yaml`` states: where an earlier version wrote it, keys
    that are newer are not among them, and the run is the same without them.
    """
    return settings_digest(read_settings(folder.recipe) if folder.has_run else recipe.as_dict())


def weights_of(module: nn.Module) -> State:
    """A copy of the weights."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _digest(tensors: Mapping[str, Tensor], progress: ProgressRecord) -> str:
    digest = hashlib.sha256(json.dumps(progress.as_dict(), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
