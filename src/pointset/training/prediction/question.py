"""What is asked of a model (:class:`Question`), known without importing torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Question:
    """An input, and what is wanted for each of its rows."""

    given: str  # INPUT: a table, graph files, or the name of a dataset
    embed: bool = False  # representations instead of predictions
    level: Literal["graph", "node"] | None = None  # of representations; by default that of the model
    smiles: str | None = None  # the column, by name or number
    header: bool = True
    part: str | None = None  # of a dataset's split
    data_dir: Path | None = None
    batch_size: int = 256
    workers: int | None = None  # processes that read SMILES
