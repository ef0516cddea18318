"""What was found for one pair."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pointset.training.json_files import finite


@dataclass(frozen=True)
class Outcome:
    """Of one model, or one invariant, on one pair of graphs."""

    pair: int
    category: str
    nodes: int
    separated: bool
    unreliable: bool  # it told a graph from a relabelled copy of itself
    seconds: float
    t_squared: float | None = None  # of the two graphs; None for an invariant, which needs no test
    t_squared_of_copies: float | None = None  # of copies of the first graph
    distance: float | None = None  # mean length of the difference of the rows
    loss: float | None = None  # of the weights that were kept
    steps: int | None = None  # of training

    def as_dict(self) -> dict[str, Any]:
        """For JSON; numbers that are not finite become None."""
        content: dict[str, Any] = finite(asdict(self))
        return content
