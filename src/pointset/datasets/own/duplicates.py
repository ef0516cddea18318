"""The same molecule in several rows of a table: compared, and merged by a stated rule (:func:`merge_duplicates`).

Rows of one molecule become one, in the place of the first:

* numbers: the median of the exact values; where there are only limits (``>3``), the tightest of them;
* labels and classes: what most rows say;
* weights: their mean; rows of weight 0 have no say where others have a weight.

Where rows contradict each other so that no rule decides (as many 0 as 1, ``>10`` and ``<3``), the value is missing, and
a molecule without any other value is left out with the reason. Rows in different parts of a split that the user gave
stay apart, as merging would move one of them; the leak is named.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Integers
from pointset.datasets.card import Task
from pointset.datasets.table import GraphTable
from pointset.errors import SpecError, did_you_mean
from pointset.text import counted, listed, number

CHOICES = ("merge", "keep")
CONTRADICTING = "rows that contradict each other"
_KEEP = "duplicates='keep' (dataset.options.duplicates=keep) takes every row as it is"
_SHOWN_LINES, _SHOWN_TARGETS = 4, 3


class Merged(NamedTuple):
    """A table in which each molecule stands once, or once in each part of the split."""

    table: GraphTable  # of K graphs
    kept: Integers  # (K,) where each stands in the table before: the first row of each molecule
    contradicting: dict[int, str]  # graphs of the table before that are left out, with the reason
    notes: tuple[str, ...]  # for the card


def check_choice(duplicates: object) -> str:
    """``"merge"`` or ``"keep"``."""
    if duplicates not in CHOICES:
        hint = did_you_mean(str(duplicates), list(CHOICES))
        raise SpecError(f"got duplicates={duplicates!r}; expected {' or '.join(CHOICES)}{hint}")
    return str(duplicates)


def same_molecules(canonical: Sequence[str]) -> list[list[int]]:
    """The graphs with the same canonical SMILES, in the order of the rows; molecules that stand once are left out."""
    graphs: dict[str, list[int]] = {}
    for graph, smiles in enumerate(canonical):
        graphs.setdefault(smiles, []).append(graph)
    return [group for group in graphs.values() if len(group) > 1]


def kept_note(groups: Sequence[Sequence[int]], lines: Sequence[int]) -> tuple[str, ...]:
    """What is to be said where duplicates are kept."""
    if not groups:
        return ()
    return (
        f"{_stand(groups, lines)}, kept apart: copies may come into different parts of a split, and then scores "
        "measure memory",
    )


def merge_duplicates(
    table: GraphTable,
    groups: Sequence[Sequence[int]],
    *,
    task: Task,
    names: Sequence[str],
    lines: Sequence[int],
    parts: Integers | None = None,
) -> Merged:
    """The table with each molecule once.

    Args:
        table: G graphs with their targets, limits and weights.
        groups: of graphs that are the same molecule (:func:`same_molecules`).
        task: what the targets are.
        names: of the k targets.
        lines: (G,) the line of each graph, for messages.
        parts: (G,) the part of the split in which each graph is, as a number, where the user gave one; -1 for none.
    """
    together, apart = _divided(groups, parts)
    notes = _leak_note(apart, lines)
    merging = _Merging.of(table, task)
    stays = np.ones(len(table), dtype=bool)
    contradicting: dict[int, str] = {}
    for group in together:
        stays[group[1:]] = False
        if not merging.merge(group):
            stays[group[0]] = False
            told = f"the same molecule in lines {_shown(group, lines)} has values that contradict each other"
            contradicting |= dict.fromkeys(group, f"{told}; expected a majority. Remove the wrong ones")
    kept = np.flatnonzero(stays)
    if together:
        notes = (f"{_stand(together, lines)}, merged into one each: {merging.told(names, lines)}. {_KEEP}", *notes)
    return Merged(merging.table().chosen(kept), kept, contradicting, notes)


def _divided(groups: Sequence[Sequence[int]], parts: Integers | None) -> tuple[list[list[int]], list[Sequence[int]]]:
    """Groups of graphs to merge, of at least two; and the groups that are in more than one part."""
    if parts is None:
        return [list(group) for group in groups], []
    together, apart = [], []
    for group in groups:
        by_part: dict[int, list[int]] = {}
        for graph in group:
            by_part.setdefault(int(parts[graph]), []).append(graph)
        together += [some for some in by_part.values() if len(some) > 1]
        if len(set(by_part) - {-1}) > 1:
            apart.append(group)
    return together, apart


@dataclass
class _Merging:
    """Targets, limits and weights (G, …), merged in the place of each first row, and how far they differed."""

    original: GraphTable
    task: Task
    y: NDArray[Any] | None  # (G, k)
    lower: NDArray[np.float64] | None  # (G, k)
    upper: NDArray[np.float64] | None
    weights: NDArray[np.float64] | None  # (G,)
    spreads: dict[int, list[tuple[float, list[int]]]] = field(default_factory=dict)  # by target, of groups that differ
    undecided: Counter[int] = field(default_factory=Counter)  # by target: groups without a majority

    @classmethod
    def of(cls, table: GraphTable, task: Task) -> _Merging:
        kind = np.int64 if task is Task.MULTI_CLASS else np.float64  # the cache keeps classes in the smallest type
        y = None if table.y is None else table.y.reshape(len(table), -1).astype(kind)
        lower, upper, weights = (
            None if array is None else array.astype(np.float64) for array in (table.lower, table.upper, table.weights)
        )
        return cls(table, task, y, lower, upper, weights)

    def merge(self, group: list[int]) -> bool:
        """Whether anything is known of this molecule afterwards."""
        first, counting = group[0], group
        if self.weights is not None:
            counting = [graph for graph in group if self.weights[graph] > 0] or group
            self.weights[first] = self.weights[counting].mean()
        if self.y is None:
            return True
        known = False
        for target in range(self.y.shape[1]):
            self._note_spread(target, counting)
            value = self._value(self.y[counting, target])
            self.y[first, target] = (-1 if self.task is Task.MULTI_CLASS else np.nan) if value is None else value
            has_limit = self._merge_limits(target, first, counting, is_known=value is not None)
            if value is not None or has_limit:
                known = True
            elif self._says_anything(target, counting):
                self.undecided[target] += 1
        return known

    def _value(self, values: NDArray[Any]) -> Any:
        """Of rows (r,): the median, or the majority; None where nothing is known, or as many rows say another thing."""
        values = self._known(values)
        if not len(values):
            return None
        if self.task is Task.REGRESSION:
            return np.median(values)
        found, counts = np.unique(values, return_counts=True)
        best = np.flatnonzero(counts == counts.max())
        return found[best[0]] if len(best) == 1 else None

    def _known(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[values >= 0] if self.task is Task.MULTI_CLASS else values[~np.isnan(values)]

    def _says_anything(self, target: int, group: list[int]) -> bool:
        tables = (self.original.y, self.original.lower, self.original.upper)
        values = [table.reshape(len(table), -1)[group, target] for table in tables if table is not None]
        return any(len(self._known(some)) > 0 for some in values)

    def _merge_limits(self, target: int, first: int, counting: list[int], *, is_known: bool) -> bool:
        """The tightest limits; none where they exclude each other, or where an exact value is known."""
        if self.lower is None or self.upper is None:
            return False
        low = np.fmax.reduce(self.lower[counting, target])
        high = np.fmin.reduce(self.upper[counting, target])
        if is_known or low > high:
            low = high = np.nan
        self.lower[first, target], self.upper[first, target] = low, high
        return not (np.isnan(low) and np.isnan(high))

    def _note_spread(self, target: int, group: list[int]) -> None:
        values = self._known(np.asarray(self.original.y).reshape(len(self.original), -1)[group, target])
        if len(values) > 1 and (spread := float(values.max() - values.min())) > 0:
            self.spreads.setdefault(target, []).append((spread, group))

    def table(self) -> GraphTable:
        """The original one with what was merged; the other rows of each molecule are still there."""
        y = self.original.y
        if self.y is not None and y is not None:
            y = self.y.reshape(y.shape).astype(np.int64 if self.task is Task.MULTI_CLASS else y.dtype)
        return dataclasses.replace(self.original, y=y, lower=self.lower, upper=self.upper, weights=self.weights)

    def told(self, names: Sequence[str], lines: Sequence[int]) -> str:
        """By which rule, and how far the values differed."""
        if self.y is None:
            return "the first row stays"
        is_regression = self.task is Task.REGRESSION
        clauses = []
        for target, spreads in list(self.spreads.items())[:_SHOWN_TARGETS]:
            largest, group = max(spreads, key=lambda one: one[0])
            text = f"{names[target]!r} differs in {len(spreads):,}"
            if is_regression:
                middle = float(np.median([spread for spread, _ in spreads]))
                text += f", by {number(middle)} at the median and {number(largest)} at most"
            if undecided := self.undecided[target]:
                text += f", undecided and left out in {undecided:,}"
            clauses.append(f"{text} (lines {_shown(group, lines)})")
        if (more := len(self.spreads) - _SHOWN_TARGETS) > 0:
            clauses.append(f"{counted(more, 'more target')} differ")
        rule = "the median of the values counts" if is_regression else "what most rows say counts"
        return f"{rule}; {'; '.join(clauses) or 'their values are the same'}"


def _stand(groups: Sequence[Sequence[int]], lines: Sequence[int]) -> str:
    rows = sum(map(len, groups))
    verb = "stands" if len(groups) == 1 else "stand"
    return f"{counted(len(groups), 'molecule')} {verb} in {rows:,} rows (such as lines {_shown(groups[0], lines)})"


def _leak_note(apart: Sequence[Sequence[int]], lines: Sequence[int]) -> tuple[str, ...]:
    if not apart:
        return ()
    verb = "is" if len(apart) == 1 else "are"
    return (
        f"the split leaks: {counted(len(apart), 'molecule')} {verb} in more than one of its parts (such as lines "
        f"{_shown(apart[0], lines)}), where the rows are kept apart; scores on them measure memory",
    )


def _shown(group: Sequence[int], lines: Sequence[int]) -> str:
    return listed([str(lines[graph]) for graph in group], _SHOWN_LINES)
