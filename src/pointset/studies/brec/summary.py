"""Outcomes → a table by category, beside published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pointset.datasets.graph_pairs import CATEGORIES
from pointset.studies.brec.outcome import Outcome

Summary = dict[str, dict[str, int]]  # category → pairs, separated, unreliable


class Published(NamedTuple):
    """Pairs separated, of 60, 140, 100, 100 and 400, in Wang and Zhang's table (2024)."""

    basic: int
    regular: int  # with strongly regular graphs, those of the 4-vertex condition, and distance-regular ones
    extension: int
    cfi: int

    @property
    def total(self) -> int:
        """Of 400."""
        return sum(self)


PUBLISHED: Mapping[str, Published] = {
    "3-WL": Published(60, 50, 100, 60),
    "I²-GNN": Published(60, 100, 100, 21),
    "KP-GNN": Published(60, 106, 98, 11),
    "GSN": Published(60, 99, 95, 0),
    "PPGN": Published(60, 50, 100, 23),
    "NGNN": Published(59, 48, 59, 0),
    "Graphormer": Published(16, 12, 41, 10),
}
_GROUPS = {
    "Basic": ("Basic",),
    "Regular": ("Regular", "Regular-SRG", "4-Vertex_Condition", "Distance_Regular"),
    "Extension": ("Extension",),
    "CFI": ("CFI",),
}


def summarised(outcomes: Iterable[Outcome]) -> Summary:
    """For each category, in the published order: pairs tried, separated, unreliable.

    A pair is separated only where the model is reliable on it.
    """
    summary: Summary = {}
    listed = list(outcomes)
    for category in CATEGORIES:
        members = [one for one in listed if one.category == category]
        if members:
            summary[category] = {
                "pairs": len(members),
                "separated": sum(one.separated and not one.unreliable for one in members),
                "unreliable": sum(one.unreliable for one in members),
            }
    return summary


def grouped(summary: Summary) -> dict[str, tuple[int, int]]:
    """The published groups: name → (separated, pairs)."""
    return {
        group: (
            sum(summary[one]["separated"] for one in members if one in summary),
            sum(summary[one]["pairs"] for one in members if one in summary),
        )
        for group, members in _GROUPS.items()
    }


def total(summary: Summary, key: str) -> int:
    """Over all categories."""
    return sum(counts[key] for counts in summary.values())
