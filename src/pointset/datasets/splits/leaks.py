"""The same graph on two sides of a split (:func:`find_leaks`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pointset.datasets.splits.fingerprints import alike
from pointset.datasets.splits.graph_colours import coloured_graphs
from pointset.datasets.splits.leak_report import LeakReport
from pointset.datasets.splits.parts import Split, check_split
from pointset.datasets.splits.same_graphs import ExactComparison
from pointset.points.graphs import GraphArrays, Integers
from pointset.progress import track


def find_leaks(graphs: GraphArrays, split: Split, *, progress: bool | None = None) -> LeakReport:
    """Find graphs that stand in two parts of a split: isomorphic, with the same node and edge features and weights.

    Positions and targets are ignored, and features and weights compared exactly. Colour refinement of all graphs at
    once leaves few that could be the same; those are compared exactly, so there is no false alarm. Not compared in full
    are graphs of more than 1,000 nodes whose copies are not verbatim, and what is left after 100 vain searches among
    graphs as alike as strongly regular ones: the report lists them as ``undecided``.

    Args:
        graphs: all graphs of the dataset.
        split: indices into them by part; graphs in no part are not looked at. Where val is test itself, it counts as
            test only.
        progress: show a bar; by default where stderr is a terminal.

    Returns:
        The report; ``report.found`` tells whether there is a leak, ``str(report)`` what to do.

    Raises:
        SpecError: the split is none of these graphs.
    """
    parts = {name: part for name, part in check_split(split, len(graphs)).items() if len(part)}
    if "test" in parts and "val" in parts and np.array_equal(parts["val"], parts["test"]):
        del parts["val"]
    used = np.sort(np.concatenate(list(parts.values())))
    coloured = coloured_graphs(graphs)
    groups = alike(coloured if len(used) == len(graphs) else coloured.take(used))
    comparison = ExactComparison()
    classes: list[Integers] = []
    undecided: list[Integers] = []
    for group in track(groups, "Comparing graphs that look alike", len(groups), show=progress):
        outcome = comparison.classes([graphs[index] for index in group.tolist()])
        classes += [group[positions] for positions in outcome.classes if len(positions) > 1]
        undecided.append(group[outcome.undecided])
    classes.sort(key=lambda members: int(members[0]))
    return _report(parts, len(graphs), classes, undecided)


def _report(parts: Split, count: int, classes: Iterable[Integers], undecided: list[Integers]) -> LeakReport:
    part_of = np.full(count, -1)
    for code, indices in enumerate(parts.values()):
        part_of[indices] = code
    groups: list[dict[str, Integers]] = []
    duplicates = dict.fromkeys(parts, 0)
    for members in classes:
        found = {part: np.sort(members[part_of[members] == code]) for code, part in enumerate(parts)}
        found = {part: indices for part, indices in found.items() if len(indices)}
        for part, indices in found.items():
            duplicates[part] += len(indices) - 1
        if len(found) > 1:
            groups.append(found)
    return LeakReport(
        sizes={part: len(indices) for part, indices in parts.items()},
        groups=tuple(groups),
        duplicates=duplicates,
        undecided=np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *undecided])),
    )
