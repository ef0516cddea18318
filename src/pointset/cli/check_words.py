"""What ``pointset datasets check`` says of rows left out and of leaks, in the user's own lines and molecules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pointset.cli.messages import printable, say

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset
    from pointset.datasets.own.rejected import Rejected
    from pointset.datasets.splits.leak_report import LeakReport

_SHOWN_ROWS = 20
_SHOWN_EXAMPLES = 3
_LONGEST_SMILES = 40


def show_left_out(rejected: Sequence[Rejected], *, kept: bool) -> None:
    """Bad rows with their reasons, the first 20 of them; then in one line those that only lack a target."""
    from pointset.datasets.own.rejected import NO_TARGET

    bad = [one for one in rejected if one.kind != NO_TARGET]
    without = [one for one in rejected if one.kind == NO_TARGET]
    for one in bad[:_SHOWN_ROWS]:
        say(f"left out {one.place} {one.row}: {one.reason}", style="yellow")
    if (more := len(bad) - _SHOWN_ROWS) > 0:
        remedy = "" if kept else f"; --rejected OUT.csv keeps all {len(rejected):,}"
        say(f"left out {more:,} more{remedy}", style="yellow")
    if without:
        shown = ", ".join(f"{one.place} {one.row}" for one in without[:_SHOWN_EXAMPLES])
        dots = ", …" if len(without) > _SHOWN_EXAMPLES else ""
        say(f"left out {len(without):,} with no target, which is no mistake: {shown}{dots}", style="yellow")


def leaks_in_words(leaks: LeakReport, dataset: Dataset) -> str:
    """How many graphs of each part were seen in an earlier one, with examples by line and SMILES."""
    clauses = []
    for (seen, scored), count in leaks.counts.items():
        if count:
            examples = [pair for pair in leaks.pairs if pair.parts == (seen, scored)][:_SHOWN_EXAMPLES]
            shown = "; ".join(f"{_named(dataset, pair.scored)} = {_named(dataset, pair.seen)}" for pair in examples)
            noun = "molecules" if dataset.smiles is not None else "graphs"
            verb = "is" if count == 1 else "are"
            clauses.append(f"{count:,} of {leaks.sizes[scored]:,} {scored} {noun} {verb} also in {seen} ({shown})")
    return (
        f"The split leaks: {'. '.join(clauses)}. Scores on them measure memory, not learning: remove the copies from "
        "the file, or put them into the same part with --split column:NAME"
    )


def _named(dataset: Dataset, graph: int) -> str:
    """``line 7 'CCO'`` of a molecule, ``graph 7`` of a graph, by its number in the file."""
    row = graph if dataset.rows is None else int(dataset.rows[graph])
    if dataset.smiles is None:
        return f"graph {row}"
    smiles = printable(dataset.smiles[graph])
    return f"line {row} {smiles if len(smiles) <= _LONGEST_SMILES else smiles[:_LONGEST_SMILES] + '…'!r}"
