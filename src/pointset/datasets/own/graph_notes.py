"""What the card of graph files should tell: where targets come from, and what was not read (:func:`graph_notes`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pointset.datasets.own.graph_targets import GraphTargets
from pointset.datasets.own.target_table import TargetTable

_MOST_NAMES = 10
_NODE_NAMES = "node names"  # lost as well, but no attribute that could be named otherwise


def graph_notes(
    path: Path, ignored: Sequence[str], found: GraphTargets, searched: TargetTable | None
) -> tuple[str, ...]:
    """The notes of the card.

    Args:
        path: the graph file or folder.
        ignored: attributes of the files that are not kept.
        found: the targets.
        searched: the table of targets whose columns the user did not name.
    """
    notes = list(found.notes)
    if found.y is None:
        notes.append("no targets: nothing to learn from; put y into the files, or pass a table as targets= (--table)")
    elif searched is not None:
        where = f"{searched.file.path.name}: {', '.join(found.names)}"
        notes.append(f"targets are all columns of numbers in {where}. Choose others with columns= (--target)")
    if ignored:
        names = ", ".join(ignored[:_MOST_NAMES]) + (", …" if len(ignored) > _MOST_NAMES else "")
        attributes = any(not name.startswith(_NODE_NAMES) for name in ignored)
        notes.append(f"not kept: {names}" + (f". {_remedy(path)}" if attributes else ""))
    return tuple(notes)


def _remedy(path: Path) -> str:
    if path.suffix.lower() == ".pt":
        return "To keep numbers, put them into x, edge_attr, pos or y"
    return "To keep numeric attributes, name them x0, x1, … on nodes, edge_attr0, … on edges, y0, … as targets"
