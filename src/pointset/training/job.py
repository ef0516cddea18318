"""A run as every process gets it: plain values (:class:`Job`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pointset.training.recipe import Recipe
from pointset.training.run_folder import RunFolder
from pointset.training.watcher import Watcher


@dataclass(frozen=True)
class Job:
    """A run as every process gets it; plain values, so that it can be handed to others."""

    recipe: Recipe
    run_dir: Path
    data_dir: Path | None = None
    device: str = "auto"
    devices: int = 1
    watch: str = "auto"  # auto, bar, plain or quiet
    watcher: Watcher | None = None  # is told too

    @property
    def folder(self) -> RunFolder:
        """Where it all goes."""
        return RunFolder(self.run_dir)

    @property
    def show_bars(self) -> bool | None:
        """Whether reading and decomposing show bars."""
        return {"bar": True, "auto": None}.get(self.watch, False)
