"""The numbers that ``pointset datasets show`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pointset.cli.console import plain_table
from pointset.cli.dataset_words import number, short_name
from pointset.cli.messages import counted, printable
from pointset.datasets.card import Card, Target, Task
from pointset.datasets.statistics import Column, Spread, Statistics, TargetColumn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SPREAD = ("mean", "std", "min", "max")


def print_statistics(console: Console, found: Statistics, card: Card) -> None:
    """Sizes, features and targets in tables."""
    console.print()
    console.print(_headline(found), style="bold", soft_wrap=not console.is_terminal)
    sizes = _table(console, "", *_SPREAD)
    for title, spread in (
        ("nodes per graph", found.nodes),
        ("edges per graph", found.edges),
        ("degree", found.degrees),
        ("components per graph", found.components),
    ):
        sizes.add_row(title, *_spread_cells(spread))
    tables = [sizes]
    for title, columns in (("node features", found.node_columns), ("edge features", found.edge_columns)):
        if columns:
            tables.append(_feature_table(console, title, columns))
    if found.targets:
        regression = card.task is Task.REGRESSION
        tables.append(
            _regression_table(console, found.targets) if regression else _class_table(console, found.targets, card)
        )
    for table in tables:
        console.print()
        console.print(table)


def _headline(found: Statistics) -> str:
    parts = [
        counted(found.graphs, "graph"),
        counted(found.total_nodes, "node"),
        counted(found.total_edges, "edge"),
        "all connected" if found.connected == found.graphs else f"{found.connected:,} connected",
    ]
    if found.isolated_nodes:
        parts.append(counted(found.isolated_nodes, "isolated node"))
    if found.self_loops:
        parts.append(counted(found.self_loops, "self-loop"))
    split = ", ".join(f"{part} {size:,}" for part, size in found.parts.items())
    return ", ".join(parts) + (f"; split: {split}" if split else "")


def _feature_table(console: Console, title: str, columns: Sequence[Column]) -> Table:
    categorical = all(column.categories is not None for column in columns)
    table = _table(console, title, *(("categories", "occurring") if categorical else (*_SPREAD, "missing")))
    for column in columns:
        name = short_name(column.name)
        if categorical:
            table.add_row(name, f"{column.categories:,}", f"{column.occurring:,}")
        else:
            table.add_row(name, *_spread_cells(column.spread), f"{column.missing:,}")
    return table


def _regression_table(console: Console, targets: Sequence[TargetColumn]) -> Table:
    missing = any(target.missing for target in targets)
    table = _table(console, "targets", *_SPREAD, *(("missing",) if missing else ()))
    for target in targets:
        name = Target(target.name, target.unit).label
        cells = [*_spread_cells(target.spread), *([f"{target.missing:,}"] if missing else [])]
        table.add_row(printable(name), *cells)
    return table


def _class_table(console: Console, targets: Sequence[TargetColumn], card: Card) -> Table:
    """A row for each class; where there are many labels with two classes each, a row for each label."""
    missing = any(target.missing for target in targets)
    if card.task is Task.MULTI_LABEL:
        table = _table(console, "labels", "yes", "no", "share of yes", *(("missing",) if missing else ()))
        for target in targets:
            no, yes = list((target.counts or {}).values())[:2]
            cells = [f"{yes:,}", f"{no:,}", _share(yes, yes + no), *([f"{target.missing:,}"] if missing else [])]
            table.add_row(printable(target.name), *cells)
        return table
    table = _table(console, "classes", "rows", "share")
    for target in targets:
        for name, count in (target.counts or {}).items():
            table.add_row(printable(name), f"{count:,}", _share(count, target.rows))
        if target.missing:
            table.add_row("missing", f"{target.missing:,}", _share(target.missing, target.rows))
    return table


def _table(console: Console, title: str, *headers: str) -> Table:
    table = plain_table(console)
    table.add_column(title, overflow="fold", min_width=20)
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True, min_width=9)
    return table


def _spread_cells(spread: Spread | None) -> list[str]:
    return ["–"] * 4 if spread is None else [number(getattr(spread, name)) for name in _SPREAD]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
