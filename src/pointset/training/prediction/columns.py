"""The columns of the output, and its cells (:class:`OutputColumns`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pointset.datasets.card import Card, Level, Task
from pointset.training.prediction.engine import Outcome
from pointset.training.prediction.sources import Entry

OK = "ok"


@dataclass(frozen=True)
class OutputColumns:
    """Behind the input's columns: perhaps the node, the answers, the status."""

    kept: Sequence[str]  # columns of the input
    answers: Sequence[str]
    classes: Sequence[str]  # a multi-class answer begins with the name of the class
    of_nodes: bool
    atoms: bool  # nodes are atoms of a SMILES: say in which writing they are counted

    @classmethod
    def of_predictions(cls, kept: Sequence[str], card: Card, *, smiles: bool) -> OutputColumns:
        """``predicted_<target>``; of classes also ``probability_<class>``."""
        answers = [f"predicted_{name}" for name in card.target_names]
        classes = card.classes if card.task is Task.MULTI_CLASS else ()
        if classes:
            answers = [*answers[:1], *(f"probability_{name}" for name in classes)]
        of_nodes = card.level is Level.NODE
        return cls(kept, answers, classes, of_nodes, smiles and of_nodes)

    @classmethod
    def of_representations(cls, kept: Sequence[str], dim: int, *, of_nodes: bool, smiles: bool) -> OutputColumns:
        """``e0``, ``e1``, …"""
        return cls(kept, [f"e{channel}" for channel in range(dim)], (), of_nodes, smiles and of_nodes)

    @property
    def usual(self) -> list[str]:
        """Names of the columns that are added."""
        nodes = [*(["read_as"] if self.atoms else []), *(["node"] if self.of_nodes else [])]
        return [*nodes, *self.answers, "status"]

    @property
    def own(self) -> list[str]:
        """The same; one that the input has too gets a number."""
        return [self._free(name) for name in self.usual]

    @property
    def header(self) -> list[str]:
        """All names."""
        return [*self.kept, *self.own]

    def _free(self, name: str) -> str:
        taken = {*self.kept} | ({*self.usual} - {name} if name in self.kept else set())
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        return next(candidate for candidate in candidates if candidate not in taken)

    def rows(self, entry: Entry, read: Any, outcome: Outcome) -> Iterator[list[str]]:
        """The rows of an entry: one, or one for each node; one with only its status where there is no answer.

        Args:
            entry: the row of the input.
            read: what its item was read as.
            outcome: the answer.
        """
        atoms = [str(getattr(read, "smiles", ""))] if self.atoms else []
        if not isinstance(outcome, Tensor):
            empty = [""] * (self.of_nodes + len(self.answers))
            yield [*entry.cells, *atoms, *empty, " ".join(str(outcome).split())]
            return
        numbers: list[list[float]] = (outcome if self.of_nodes else outcome.unsqueeze(0)).tolist()
        for node, row in enumerate(numbers):
            place = [str(node)] if self.of_nodes else []
            chosen = [self.classes[max(range(len(row)), key=row.__getitem__)]] if self.classes else []
            yield [*entry.cells, *atoms, *place, *chosen, *(f"{number:.9g}" for number in row), OK]
