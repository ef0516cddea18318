"""The graphs that were predicted worst, drawn with what was true and what was predicted (:func:`worst_graphs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pointset.reports.run_pages.forms import REGRESSION, Result, ValueForm, WorstForm
from pointset.reports.run_pages.graph_drawing import draw_graph, label_colours
from pointset.reports.run_pages.words import clipped, count, number

_MOST_GRAPHS, _MOST_VALUES = 12, 3
_LONGEST_SMILES = 90


class Portrait(NamedTuple):
    """A graph on the page; ``svg`` is markup, everything else is plain text."""

    svg: str
    name: str
    facts: str
    values: list[tuple[str, str, str]]  # target, true, predicted
    left_out: int  # values that are not shown
    smiles: str


def worst_graphs(worst: Sequence[WorstForm]) -> tuple[list[Portrait], list[tuple[str, str]]]:
    """The portraits, and what the colours of nodes mean: (label, colour)."""
    shown = list(worst[:_MOST_GRAPHS])
    colours, legend = label_colours([one.graph for one in shown])
    return [_portrait(one, colour) for one, colour in zip(shown, colours, strict=True)], legend


def error_words(result: Result | None) -> str:
    """What the error of a graph is."""
    text = "The graphs of the test split that were predicted worst."
    if result is None:
        return text
    if result.task == REGRESSION:
        text += (
            " Their error is the mean distance to the truth, in standard deviations of the target where it is scaled."
        )
    else:
        text += " Their error is the probability that was given to wrong answers."
    return text + (" Values are those of the worst node." if result.level == "node" else "")


def _portrait(one: WorstForm, colours: list[str]) -> Portrait:
    graph = one.graph
    name = graph.name or (f"graph {one.position}" if one.position is not None else "graph")
    size = f"{count(graph.num_nodes, 'node')}, {count(len(graph.edges), 'edge')}"
    error = "" if one.error is None else f"error {number(one.error, 3)}"
    values = sorted(one.values, key=_difference, reverse=True)[:_MOST_VALUES]
    return Portrait(
        svg=draw_graph(graph, colours, f"Drawing of {name}: {size}"),
        name=clipped(name, 60),
        facts=", ".join(filter(None, (error, size))),
        values=[(value.target, _text(value.true), _text(value.predicted)) for value in values],
        left_out=len(one.values) - len(values),
        smiles=clipped(graph.smiles or "", _LONGEST_SMILES),
    )


def _difference(value: ValueForm) -> float:
    if isinstance(value.true, float) and isinstance(value.predicted, float):
        difference = abs(value.true - value.predicted)
        return difference if difference == difference else -1.0  # NaN comes last
    return 0.0


def _text(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value)
