"""What was found for one pair."""

from __future__ import annotations

from collections.abc import Mapping
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

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Outcome:
        """What :meth:`as_dict` gave.

        Raises:
            TypeError: an entry is missing, unknown, or of another kind.
        """
        outcome = cls(**content)
        kinds = {int: ("pair", "nodes"), str: ("category",), bool: ("separated", "unreliable"), float: ("seconds",)}
        for kind, names in kinds.items():
            for name in names:
                if type(value := getattr(outcome, name)) is not kind:
                    raise TypeError(f"{name}={value!r}; expected {kind.__name__}")
        return outcome
