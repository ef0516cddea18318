"""What ``pointset inspect`` found, summed up: as a plain dictionary for ``--json`` and for the table."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pointset.datasets.graph_facts import GraphFacts
    from pointset.datasets.graph_files.screening import Problem


@dataclass(frozen=True)
class Encoder:
    """The encoder whose memory is forecast."""

    width: int
    layers: int
    batch: int


@dataclass(frozen=True)
class Inspection:
    """All that is known of a file."""

    file: str
    matrix: str
    facts: list[GraphFacts]
    problems: list[Problem]
    encoder: Encoder

    def as_dict(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        return {
            "file": self.file,
            "matrix": self.matrix,
            "graphs": [{"index": index, **dataclasses.asdict(facts)} for index, facts in enumerate(self.facts)],
            "summary": self.summary(),
            "problems": [problem._asdict() for problem in self.problems],
        }

    def summary(self) -> dict[str, Any]:
        """The whole file in a few numbers; None where no graph has the fact."""
        facts = self.facts
        training = _spread(one.training_bytes for one in facts)
        mean = training["mean"]
        return {
            "graphs": len(facts),
            "problems": len(self.problems),
            "nodes": _spread(one.nodes for one in facts),
            "edges": _spread(one.edges for one in facts),
            "components": _spread(one.components for one in facts if one.components is not None),
            "rank": _spread(one.rank for one in facts),
            "multiplicities": {
                str(multiplicity): count
                for multiplicity, count in sorted(Counter(m for one in facts for m in one.multiplicities).items())
            },
            "smallest_relative_gap": min(
                (one.smallest_relative_gap for one in facts if one.smallest_relative_gap is not None), default=None
            ),
            "round_trip": dict(Counter(one.round_trip for one in facts)),
            "largest_round_trip_error": max(
                (one.round_trip_error for one in facts if one.round_trip_error is not None), default=None
            ),
            "training_bytes": {**training, "batch": None if mean is None else round(mean * self.encoder.batch)},
            "encoder": dataclasses.asdict(self.encoder),
        }


def _spread(values: Iterable[int]) -> dict[str, int | float | None]:
    listed = list(values)
    if not listed:
        return {"min": None, "mean": None, "max": None, "total": 0}
    return {
        "min": min(listed),
        "mean": sum(listed) / len(listed),
        "max": max(listed),
        "total": sum(listed),
    }
