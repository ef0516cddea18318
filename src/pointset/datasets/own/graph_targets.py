"""Targets that the graph files themselves hold: ``y`` of graphs or of nodes (:func:`targets_in_files`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.card import Level, Task
from pointset.datasets.own.rejected import NO_TARGET
from pointset.datasets.own.target_values import whole_numbers_note
from pointset.errors import SpecError
from pointset.points.graphs import Graph

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class GraphTargets:
    """Targets of all graphs handed in; those with a problem have None."""

    level: Level
    task: Task
    names: tuple[str, ...] = ()
    y: Sequence[NDArray[Any] | None] | None = None  # of each graph: (1, k), or at the level of nodes (n, k)
    classes: tuple[str, ...] = ()
    problems: dict[int, tuple[str, str]] = field(default_factory=dict)  # graph → kind and reason
    notes: tuple[str, ...] = ()  # for the card


def targets_in_files(graphs: Sequence[Graph], level: Level | None, task: Task | None) -> GraphTargets:
    """The targets ``y`` of the graphs.

    ``y`` with one row is of the graph, with a row for each node of the nodes; numbers in a row are several targets.
    Where no graph has ``y`` there are no targets.

    Args:
        graphs: the graphs.
        level: whether they are of graphs or nodes; None to see it from their shapes.
        task: None to infer it: 0 and 1 are labels, everything else numbers. Classes have to be asked for.

    Raises:
        SpecError: more than one column for a task that has one.
    """
    if all(graph.features.y is None for graph in graphs):
        if level is Level.NODE:
            raise SpecError("got level='node' (--level), but the graphs carry no y; expected a row of y for each node")
        return GraphTargets(Level.GRAPH, task or Task.REGRESSION)
    level = level or _level(graphs)
    problems: dict[int, tuple[str, str]] = {}
    tables = [_table(graph, level, index, problems) for index, graph in enumerate(graphs)]
    widths = Counter(table.shape[1] for table in tables if table is not None)
    width = widths.most_common(1)[0][0] if widths else 0
    for index, table in enumerate(tables):
        if table is not None and table.shape[1] != width:
            problems[index] = ("other targets than most", f"y has {table.shape[1]} numbers; expected {width}, as most")
    names = ("y",) if width == 1 else tuple(f"y{column}" for column in range(width))
    return _finished(level, task, names, tables, problems)


def _finished(
    level: Level, task: Task | None, names: tuple[str, ...], tables: list[Numbers | None], problems: dict[int, Any]
) -> GraphTargets:
    notes: tuple[str, ...] = ()
    if task is None:
        sound = [table for index, table in enumerate(tables) if table is not None and index not in problems]
        task = _inferred(sound)
        if task is Task.REGRESSION and len(names) == 1 and sound:
            notes = whole_numbers_note(np.concatenate(sound), names[0])
    if task in (Task.BINARY, Task.MULTI_CLASS) and len(names) > 1:
        raise SpecError(
            f"the graphs have {len(names)} targets y for {task.value}; expected one. Pass task='multi-label' "
            "(--task multi-label)"
        )
    for index, table in enumerate(tables):
        if table is not None and index not in problems and (reason := _misfit(table, task)):
            problems[index] = ("targets that do not fit the task", reason)
    good = [table if index not in problems else None for index, table in enumerate(tables)]
    if task is not Task.MULTI_CLASS:
        kind = np.float64 if task is Task.REGRESSION else np.float32
        return GraphTargets(level, task, names, [_as_type(table, kind) for table in good], (), problems, notes)
    values = np.unique(np.concatenate([table for table in good if table is not None] or [np.zeros(0)]))
    numbered = [None if table is None else np.searchsorted(values, table) for table in good]
    return GraphTargets(
        level, task, names, numbered, tuple(repr(float(value)).removesuffix(".0") for value in values), problems
    )


def _level(graphs: Sequence[Graph]) -> Level:
    """By the shapes of y; where both would do, of the graph."""
    shapes = [(graph.features.y.shape, graph.num_nodes) for graph in graphs if graph.features.y is not None]
    of_graph = sum(len(shape) == 0 or shape[0] == 1 for shape, _ in shapes)
    of_nodes = sum(len(shape) > 0 and shape[0] == nodes for shape, nodes in shapes)
    return Level.NODE if of_nodes > of_graph else Level.GRAPH


def _table(graph: Graph, level: Level, index: int, problems: dict[int, tuple[str, str]]) -> Numbers | None:
    y = graph.features.y
    if y is None:
        problems[index] = (NO_TARGET, "it carries no y, as other graphs do")
        return None
    if y.is_complex():
        problems[index] = ("targets that are no numbers", "y holds complex numbers; expected real ones")
        return None
    rows = graph.num_nodes if level is Level.NODE else 1
    if level is Level.NODE and (y.dim() == 0 or y.shape[0] != rows):
        problems[index] = (
            "y not on every node",
            f"y has shape {tuple(y.shape)}; expected a row for each of {rows} nodes",
        )
        return None
    table: Numbers = y.detach().to("cpu").double().reshape(rows, y.numel() // max(rows, 1)).numpy()
    if np.isinf(table).any():
        problems[index] = (
            "targets that are no numbers",
            "y holds infinity; expected finite numbers, NaN where missing",
        )
    elif np.isnan(table).all():
        problems[index] = (NO_TARGET, "all of y is missing (NaN), or y is empty")
    return table


def _inferred(tables: Sequence[Numbers]) -> Task:
    if not tables or not all((np.isnan(table) | (table == 0) | (table == 1)).all() for table in tables):
        return Task.REGRESSION
    return Task.BINARY if tables[0].shape[1] == 1 else Task.MULTI_LABEL


def _misfit(table: Numbers, task: Task) -> str | None:
    if task is Task.REGRESSION:
        return None
    if task is Task.MULTI_CLASS:
        whole = (table == np.round(table)).all()  # NaN is no class either
        return None if whole else f"y holds {_strange(table, table == np.round(table))}; expected whole numbers"
    fits = np.isnan(table) | (table == 0) | (table == 1)
    return None if fits.all() else f"y holds {_strange(table, fits)}; expected 0 or 1, NaN where missing"


def _strange(table: Numbers, fits: NDArray[np.bool_]) -> str:
    return f"{table[~fits][0]:g}"


def _as_type(table: Numbers | None, kind: type[np.floating[Any]]) -> NDArray[Any] | None:
    return None if table is None else table.astype(kind)
