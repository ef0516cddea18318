"""What the check for leaks found (:class:`LeakReport`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pointset.datasets.splits.parts import Integers

_SIDES = (("train", "test"), ("train", "val"), ("val", "test"))  # seen first, scored later


class LeakPair(NamedTuple):
    """One graph that stands on two sides."""

    seen: int  # number of the graph in the earlier part
    scored: int  # number of the same graph in the later part
    parts: tuple[str, str]  # such as ("train", "test")


@dataclass(frozen=True, eq=False)
class LeakReport:
    """Graphs that stand on two sides of a split. ``str(report)`` says it in words."""

    sizes: dict[str, int]  # part → number of its graphs
    groups: tuple[dict[str, Integers], ...]  # each one graph: part → the numbers under which it stands there
    duplicates: dict[str, int]  # part → graphs that are copies of an earlier one of the same part; no leak
    undecided: Integers  # graphs that could be the same as another, but were too large or too hard to compare

    @property
    def found(self) -> bool:
        """Whether there is a leak."""
        return bool(self.groups)

    @property
    def pairs(self) -> list[LeakPair]:
        """Every graph of a later part that is also in an earlier one, with its first copy there."""
        return [
            LeakPair(int(group[seen][0]), int(index), (seen, scored))
            for seen, scored in _SIDES
            for group in self.groups
            if seen in group and scored in group
            for index in group[scored]
        ]

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """(earlier part, later part) → how many graphs of the later are also in the earlier."""
        return {sides: len(self.affected(*sides)) for sides in _SIDES if set(sides) <= set(self.sizes)}

    def affected(self, seen: str, scored: str) -> Integers:
        """The graphs of the part ``scored`` that are also in the part ``seen``, sorted."""
        found = [group[scored] for group in self.groups if seen in group and scored in group]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def __str__(self) -> str:
        sentences = [self._leaks()]
        copies = [f"{count:,} in {part}" for part, count in self.duplicates.items() if count]
        if copies:
            sentences.append(f"Copies within one part, which are no leak: {', '.join(copies)}.")
        if len(self.undecided):
            shown = ", ".join(f"{index:,}" for index in self.undecided[:3])
            sentences.append(
                f"{_graphs(len(self.undecided))} could be the same as another but too large or too symmetric to "
                f"compare in full (e.g. graph {shown}); ask pointset.is_same_graph about those that matter."
            )
        return " ".join(sentences)

    def _leaks(self) -> str:
        if not self.found:
            return f"No graph stands on two sides of the split ({sum(self.sizes.values()):,} graphs compared)."
        clauses = []
        example = {pair.parts: pair for pair in reversed(self.pairs)}
        for (seen, scored), count in self.counts.items():
            if count:
                pair, size = example[seen, scored], self.sizes[scored]
                clauses.append(
                    f"{count:,} of {size:,} {scored} graphs ({percent(count / size)}) {'is' if count == 1 else 'are'} "
                    f"also in {seen} (e.g. graph {pair.scored:,} = graph {pair.seen:,})"
                )
        return (
            f"{'; '.join(clauses)}. Scores on them measure memory, not learning: take them out of the part that is "
            "scored or of the part that is learned from, or remove copies before splitting."
        )


def percent(share: float) -> str:
    """``12.5 %``; what is more than nothing is never ``0.0 %``."""
    return "< 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"


def _graphs(count: int) -> str:
    return "1 graph" if count == 1 else f"{count:,} graphs"
