"""The families by name, so that they can be listed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pointset.studies.families import cycles, regular, strongly_regular_graphs
from pointset.studies.families.cai_fuerer_immerman import cfi
from pointset.studies.families.catalogue import strongly_regular
from pointset.studies.families.marks import marked
from pointset.studies.families.paley_graphs import paley


@dataclass(frozen=True)
class Family:
    """A family of graphs."""

    name: str  # with its parameters: "rook(side)"
    description: str  # one line
    make: Callable[..., Any]  # a networkx graph, a list of them, or with marks a PyG Data


def _family(make: Callable[..., Any]) -> Family:
    """Described by the function's own words."""
    parameters = ", ".join(inspect.signature(make).parameters)
    return Family(f"{make.__name__}({parameters})", (inspect.getdoc(make) or "").split("\n")[0], make)


FAMILIES: dict[str, Family] = {
    make.__name__: _family(make)
    for make in (
        cycles.cycle,
        cycles.two_cycles,
        cycles.circular_skip_links,
        cycles.csl_classes,
        regular.hypercube,
        regular.random_regular,
        strongly_regular_graphs.rook,
        strongly_regular_graphs.shrikhande,
        strongly_regular_graphs.triangular,
        strongly_regular_graphs.chang,
        strongly_regular_graphs.petersen,
        strongly_regular_graphs.clebsch,
        strongly_regular_graphs.schlaefli,
        strongly_regular_graphs.hoffman_singleton,
        strongly_regular_graphs.latin_square,
        paley,
        strongly_regular,
        cfi,
        marked,
    )
}
