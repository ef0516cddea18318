"""metrics.csv: a row for each epoch."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from pointset.files import replacing
from pointset.training.watcher import EpochRow


def write_metrics(path: Path, history: Sequence[EpochRow]) -> None:
    """Write all rows anew, so that the file is whole at every moment and never has an epoch twice."""
    names = list(next((row.val for row in history if row.val), {}))
    header = ["epoch", "lr", "train_loss", *(f"val_{name}" for name in names), "seconds", "graphs_per_second"]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in history:
            scores = (_text(row.val[name]) if row.val else "" for name in names)
            start = (row.epoch, _text(row.lr), _text(row.train_loss))
            writer.writerow([*start, *scores, f"{row.seconds:.3f}", f"{row.graphs_per_second:.1f}"])


def _text(value: float) -> str:
    return f"{value:.8g}"
