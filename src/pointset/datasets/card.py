"""What a dataset says of itself: task, targets with units, metric, split, features, licence, source (:class:`Card`).

Nothing heavy is imported here: ``pointset datasets`` lists all cards without waiting for torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pointset.errors import SpecError, did_you_mean
from pointset.metrics import Metric as Metric
from pointset.metrics import Task as Task
from pointset.specs import Spec


class Level(StrEnum):
    """Whether there is a target for each graph, for each node, or for pairs of nodes."""

    GRAPH = "graph"
    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True)
class Target:
    """One column of ``y``, or the one label of a classification."""

    name: str
    unit: str = ""  # empty where it has none: classes, counts
    meaning: str = ""

    @property
    def label(self) -> str:
        """``gap (eV)``."""
        return f"{self.name} ({self.unit})" if self.unit and self.unit not in self.name else self.name


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's table of datasets (Appendix, Table "Statistics of the datasets")."""

    graphs: int
    nodes: float  # mean number of nodes
    edges: float  # mean number of edges, as printed
    both_directions: bool = False  # whether the printed number counts every edge twice
    slip: str = ""  # where the paper's row is known to be wrong, and how


@dataclass(frozen=True)
class Card:
    """All that a user, a model and a training need to know of a dataset besides its graphs.

    ``node`` and ``edge`` are the specs of ``x`` and ``edge_attr`` and go straight into
    :meth:`pointset.PointModel.from_preset`, as do ``outputs`` and ``level``.
    """

    name: str
    title: str
    description: str
    level: Level
    task: Task
    targets: tuple[Target, ...]
    metric: Metric
    split: str  # in words
    node: Spec = None
    edge: Spec = None
    positions: bool = False  # whether there are 3D positions
    node_columns: tuple[str, ...] = ()  # what each column of x means
    edge_columns: tuple[str, ...] = ()
    node_labels: tuple[tuple[str, ...], ...] = ()  # names of the categories of each column of x, in order
    edge_labels: tuple[tuple[str, ...], ...] = ()
    classes: tuple[str, ...] = ()  # names of the classes of a multi-class task, in order
    split_sizes: Mapping[str, int] = field(default_factory=dict)  # official sizes; empty where there are none
    scale_over: tuple[str, ...] = ("train",)  # the parts over which targets are normalised
    licence: str = "unknown"
    source: str = ""  # where it comes from, for people
    reference: str = ""  # the publication
    paper: PaperRow | None = None
    molecules: str | None = None  # how SMILES become graphs of this kind: "ogb", "zinc" or "qm9"
    descriptors: int = 0  # numbers that each graph brings as a whole
    notes: tuple[str, ...] = ()

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the targets, in the order of the columns of ``y``."""
        return tuple(target.name for target in self.targets)

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for each graph or node."""
        return len(self.classes) if self.task is Task.MULTI_CLASS else len(self.targets)

    def columns_of(self, names: Sequence[str]) -> list[int]:
        """Columns of ``y`` of the targets with these names, each named once."""
        known = list(self.target_names)
        for name in names:
            if name not in known:
                hint = did_you_mean(str(name), known)
                raise SpecError(f"{self.name} has no target {name!r}; expected some of {', '.join(known)}{hint}")
        if len(set(names)) < len(names) or not names:
            raise SpecError(f"got the targets {list(names)}; expected at least one, and each once")
        return [known.index(name) for name in names]

    def with_targets(self, names: Sequence[str]) -> Card:
        """The card of the dataset with only these targets."""
        return dataclasses.replace(self, targets=tuple(self.targets[column] for column in self.columns_of(names)))

    def as_dict(self) -> dict[str, Any]:
        """The card as plain values, for JSON."""
        values = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        return values | {
            "level": self.level.value,
            "task": self.task.value if self.targets else None,
            "metric": self.metric.value if self.targets else None,
            "higher_is_better": self.metric.higher_is_better if self.targets else None,
            "targets": [dataclasses.asdict(target) for target in self.targets],
            "split_sizes": dict(self.split_sizes),
            "node": None if self.node is None else repr(self.node),
            "edge": None if self.edge is None else repr(self.edge),
            "paper": None if self.paper is None else dataclasses.asdict(self.paper),
        }
