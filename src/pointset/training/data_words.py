"""What is about to be learned from what, in one line (:func:`data_in_words`)."""

from __future__ import annotations

from pointset.datasets.card import Card, Level, Task
from pointset.training.data import TrainingData

_TASKS = {
    Task.REGRESSION: "regression",
    Task.BINARY: "binary classification",
    Task.MULTI_LABEL: "labels",
    Task.MULTI_CLASS: "classes",
}
_MOST_NAMES = 6


def data_in_words(data: TrainingData) -> str:
    """``my.csv: regression of logS; 80 graphs to train, 10 to validate, 10 to test; 2 of 102 rows are left out …``.

    Own data is read with guesses (which columns are targets, what the task is), so people must see them.
    """
    parts = ((len(data.part(name)), verb) for name, verb in (("train", "train"), ("val", "validate"), ("test", "test")))
    sizes = ", ".join(f"{size:,}{' graphs' if verb == 'train' else ''} to {verb}" for size, verb in parts)
    words = f"{data.card.title or data.card.name}: {_learned(data.card)}; {sizes}"
    if left_out := len(data.dataset.rejected):
        rows = len(data.dataset) + left_out
        words += f"; {left_out:,} of {rows:,} are left out (pointset datasets check says which, and why)"
    return words


def _learned(card: Card) -> str:
    names = list(card.classes if card.task is Task.MULTI_CLASS else card.target_names)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    of_nodes = "node " if card.level is Level.NODE else ""
    of = "" if card.task is Task.MULTI_CLASS else "of "
    return f"{of_nodes}{_TASKS[card.task]} {of}{', '.join(names[:_MOST_NAMES])}{more}"
