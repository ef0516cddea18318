"""``pointset datasets show``: what is known of a dataset, its statistics, and drawings of some graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pointset.cli.console import load_torch, output_console, plain_table, print_json, reported_errors, say, show_error
from pointset.cli.options import JsonFlag, check_picture, refuse_options, usage_errors
from pointset.datasets.card import Card, Level, Target, Task
from pointset.errors import MissingDataError
from pointset.specs import Categories, Spec
from pointset.text import counted, number, percent, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointset.datasets.dataset import Dataset
    from pointset.datasets.sources import Benchmark
    from pointset.datasets.statistics import Column, Spread, Statistics, TargetColumn
    from pointset.points.graphs import Graph
    from pointset.reports.layout import Legend, Portrait

EXAMPLES = """
[bold]Examples[/bold]
  pointset datasets show NAME
  pointset datasets show NAME --graphs 0,5,17 --picture three.svg
  pointset datasets show NAME --picture some.png --count 12 --seed 1
  pointset datasets show NAME --json            [dim]card and statistics[/dim]
"""
DataFolderOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The folder of the data; by default what POINTSET_DATA names.", exists=True, file_okay=False
    ),
]
MOST_ROWS = 60  # of a table; columns may be many thousands
_MOST_DRAWN = 60  # graphs in a picture
_WIDEST = 110  # columns of text, and of drawings side by side
_SPREAD = ("mean", "std", "min", "max")
_SHOWN_TARGETS = 2  # of a regression, above a drawing


def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset, as `pointset datasets` lists it.")],
    data_dir: DataFolderOption = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw some of its graphs: .png, .svg, .pdf.")
    ] = None,
    graphs: Annotated[
        str | None, typer.Option(metavar="I,J,…", help="The graphs to draw, by number; by default small ones.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=_MOST_DRAWN, metavar="N", help="How many to draw.")] = 6,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Another seed draws other graphs.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Print what is known of a dataset, its statistics, and drawings of some graphs.

    Without its files, the card is printed and how to get them.
    """
    with reported_errors():
        benchmark = named_benchmark(name)
        if graphs is not None:
            refuse_options(context, ["count", "seed"], "chooses graphs, and --graphs names them; leave one out")
        wanted = None if graphs is None else _graph_numbers(graphs)
        if picture is not None:
            check_picture(picture)
        dataset, reason = _load(benchmark, data_dir)
        drawn = [] if dataset is None else _graphs_to_draw(dataset, wanted, count, seed)
        if as_json:
            print_json(describe(benchmark, dataset))
        else:
            show_dataset(benchmark, dataset, drawn)
        if dataset is not None and picture is not None:
            from pointset.reports.pictures import draw_gallery

            heading = f"{printable(dataset.card.title)}: {len(drawn):,} of {counted(len(dataset), 'graph')}"
            draw_gallery(_portraits(dataset, drawn), picture, heading=heading, legend=_legend(dataset))
            say(f"Picture of {counted(len(drawn), 'graph')} written to {picture}")
        elif reason and picture is not None:
            show_error(f"there is nothing to draw: {reason}")
            raise typer.Exit(1)
        elif reason:
            for line in f"No statistics and drawings: {reason}".split("\n"):
                say(line, style="yellow")


def named_benchmark(name: str) -> Benchmark:
    """The dataset of this name; another name is a usage error."""
    from pointset.datasets.loading import benchmark_named

    with usage_errors("NAME"):
        return benchmark_named(name)


def _graph_numbers(text: str) -> list[int]:
    """``0,5,17`` as numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,9}", part) for part in parts) or len(parts) > _MOST_DRAWN:
        raise typer.BadParameter(
            f"got {text!r}; expected up to {_MOST_DRAWN} numbers of graphs like 0,5,17", param_hint="--graphs"
        )
    return [int(part) for part in parts]


def _load(benchmark: Benchmark, data_dir: Path | None) -> tuple[Dataset | None, str]:
    """The dataset, or how to get it."""
    from pointset.datasets.sources import obtain

    try:
        obtain(benchmark, data_dir, download=False)
    except MissingDataError as error:
        return None, str(error)
    load_torch()
    from pointset.datasets.loading import load

    return load(benchmark.card.name, data_dir, download=False), ""


def _graphs_to_draw(dataset: Dataset, wanted: list[int] | None, count: int, seed: int) -> list[int]:
    if wanted is None:
        return choose_graphs(dataset.arrays.num_nodes, count, seed)
    if beyond := [index for index in wanted if index >= len(dataset)]:
        raise typer.BadParameter(
            f"there is no graph {beyond[0]:,}; {dataset.card.name} has {len(dataset):,}, numbered from 0",
            param_hint="--graphs",
        )
    return wanted


# --- the card


def show_dataset(benchmark: Benchmark, dataset: Dataset | None, drawn: Sequence[int]) -> None:
    """Print the card, and where the dataset is at hand its numbers and some graphs."""
    console = output_console()
    card = benchmark.card if dataset is None else dataset.card
    _print_card(console, card, benchmark)
    if dataset is None:
        return
    from pointset.datasets.statistics import statistics_of
    from pointset.reports.terminal_drawing import drawn_side_by_side

    _print_statistics(console, statistics_of(dataset), card)
    console.print()
    for line in drawn_side_by_side(_portraits(dataset, drawn), min(console.width, _WIDEST), _legend(dataset)):
        console.print(line)


def describe(benchmark: Benchmark, dataset: Dataset | None) -> dict[str, Any]:
    """The object that ``--json`` prints."""
    from pointset.datasets.sources import known_files

    about: dict[str, Any] = {
        "card": benchmark.card.as_dict(),
        "options": dict(benchmark.options),
        "known_files": [file._asdict() for source in benchmark.sources for file in known_files(source)],
    }
    if dataset is None:
        return about | {"origin": None, "files": [], "sha256": [], "statistics": None}
    from pointset.datasets.statistics import statistics_of

    return about | {
        "card": dataset.card.as_dict(),
        "origin": dataset.provenance.origin,
        "files": [str(file) for file in dataset.provenance.files],
        "sha256": list(dataset.provenance.sha256),
        "statistics": statistics_of(dataset).as_dict(),
    }


def _print_card(console: Console, card: Card, benchmark: Benchmark) -> None:
    width = min(console.width, _WIDEST)
    console.print(Text.assemble((printable(card.title), "bold"), f" ({printable(card.name)})"))
    console.print(Text(printable(card.description)), width=width)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    previous = ""
    for title, text in _card_lines(card, benchmark):
        grid.add_row(title if title != previous else "", Text(printable(text)))
        previous = title
    console.print(Padding(grid, (1, 0, 0, 0)), width=width)


def _card_lines(card: Card, benchmark: Benchmark) -> Iterator[tuple[str, str]]:
    from pointset.datasets.sources import known_files

    better = "higher" if card.metric.higher_is_better else "lower"
    scored = f"{describe_task(card)}; scored by {card.metric.with_arrow} ({better} is better)"
    yield "task", scored if card.targets else f"none (no targets; pass --{'target' if card.molecules else 'table'})"
    noun = ("label" if card.task is Task.MULTI_LABEL else "target") + ("s" if len(card.targets) > 1 else "")
    for meaning, same in groupby(card.targets, key=lambda target: target.meaning):
        labels = ", ".join(target.label for target in same)
        yield noun, f"{labels}: {meaning}" if meaning else labels
    if card.classes:
        yield "classes", ", ".join(card.classes)
    sizes = ", ".join(f"{part} {size:,}" for part, size in card.split_sizes.items())
    yield "split", f"{card.split} ({sizes})" if sizes else card.split
    yield from (("node features", text) for text in _feature_texts(card.node, card.node_columns))
    yield from (("edge features", text) for text in _feature_texts(card.edge, card.edge_columns))
    if card.positions:
        yield "positions", "3D, of every node"
    if card.paper is not None:
        twice = ", every edge in both directions" if card.paper.both_directions else ""
        yield (
            "in the paper",
            f"{card.paper.graphs:,} graphs; on average {card.paper.nodes:,} nodes, {card.paper.edges:,} edges{twice}",
        )
        if card.paper.slip:
            yield "in the paper", f"slip: {card.paper.slip}"
    for title, text in (("licence", card.licence), ("source", card.source), ("reference", card.reference)):
        if text:
            yield title, text
    for source in benchmark.sources:
        if files := known_files(source):
            yield "files", f"{source.title}: {', '.join(file.description for file in files)}"
    yield from (("note", note) for note in card.notes)
    yield from (("note", f"{source.title}: {source.note}") for source in benchmark.sources if source.note)
    yield from (("option", f"{name}: {meaning}") for name, meaning in benchmark.options.items())


def _feature_texts(spec: Spec, names: Sequence[str]) -> Iterator[str]:
    """A line for each column, with the number of its categories."""
    if spec is None:
        yield "none"
    elif isinstance(spec, Categories):
        for column, size in enumerate(spec.sizes):
            name = names[column] if column < len(names) else f"column {column}"
            yield f"{name} [{size} categories]"
    elif not names:
        yield f"{spec.width} real columns"
    else:
        yield from (f"{name} [real]" for name in names)


def describe_task(card: Card, *, brief: bool = False) -> str:
    """``node regression, 13 targets``; brief, in at most 16 letters, ``13 targets/node``."""
    kind, count = card.task.value, ""
    if card.task is Task.MULTI_CLASS:
        kind, count = "classification", f"{len(card.classes)} classes"
    elif card.task is Task.MULTI_LABEL:  # of which a row has any number
        kind, count = "classification", f"{len(card.targets)} labels"
    elif len(card.targets) > 1:
        count = f"{len(card.targets)} targets"
    of_nodes = card.level is Level.NODE
    if brief:
        return (count or kind.split()[0]) + ("/node" if of_nodes else "")
    return ("node " if of_nodes else "") + kind + (f", {count}" if count else "")


def short_name(column: str) -> str:
    """A column's name without its explanation: what follows a colon or stands in brackets."""
    return printable(re.split(r"[:(]", column)[0])


def category_names(columns: Sequence[str], labels: Sequence[Sequence[str]] = ()) -> dict[int, str]:
    """Names of the categories of the first column: its labels, or those that the card lists.

    ``element: 0 C, 1 N`` gives ``{0: "C", 1: "N"}``.
    """
    if labels or not columns:
        return dict(enumerate(map(printable, labels[0]))) if labels else {}
    listed = re.sub(r"\(.*?\)", "", columns[0].partition(":")[2]).split(",")
    found = [re.fullmatch(r"(\d+) (\S+( \S+){0,2})", part.strip()) for part in listed]
    return {int(match[1]): printable(match[2]) for match in found if match}


# --- statistics


def _print_statistics(console: Console, found: Statistics, card: Card) -> None:
    console.print()
    console.print(_headline(found), style="bold", soft_wrap=not console.is_terminal)
    sizes = {
        "nodes per graph": found.nodes,
        "edges per graph": found.edges,
        "degree": found.degrees,
        "components per graph": found.components,
    }
    _print_table(console, "", _SPREAD, [[title, *_spread_cells(spread)] for title, spread in sizes.items()])
    for title, columns in (("node features", found.node_columns), ("edge features", found.edge_columns)):
        if columns:
            _print_features(console, title, columns)
    if found.targets:
        _print_targets(console, found.targets, card)


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


def _print_features(console: Console, title: str, columns: Sequence[Column]) -> None:
    names = [short_name(column.name) for column in columns]
    if all(column.categories is not None for column in columns):
        headers: tuple[str, ...] = ("categories", "occurring")
        cells = [[f"{column.categories:,}", f"{column.occurring:,}"] for column in columns]
    else:
        headers = (*_SPREAD, "missing")
        cells = [[*_spread_cells(column.spread), f"{column.missing:,}"] for column in columns]
    _print_table(console, title, headers, [[name, *row] for name, row in zip(names, cells, strict=True)])


def _print_targets(console: Console, targets: Sequence[TargetColumn], card: Card) -> None:
    """A row for each target or label; where there is one with classes, for each class."""
    rows = []
    if card.task not in (Task.REGRESSION, Task.MULTI_LABEL):
        for target in targets:
            counts = [*(target.counts or {}).items(), *([("missing", target.missing)] if target.missing else [])]
            rows += [[printable(name), f"{count:,}", _share(count, target.rows)] for name, count in counts]
        _print_table(console, "classes", ("rows", "share"), rows)
        return
    missing = any(target.missing for target in targets)
    for target in targets:
        if card.task is Task.REGRESSION:
            cells = [Target(target.name, target.unit).label, *_spread_cells(target.spread)]
        else:
            no, yes = list((target.counts or {}).values())[:2]
            cells = [target.name, f"{yes:,}", f"{no:,}", _share(yes, yes + no)]
        rows.append([printable(cells[0]), *cells[1:], *([f"{target.missing:,}"] if missing else [])])
    title, headers = ("targets", _SPREAD) if card.task is Task.REGRESSION else ("labels", ("yes", "no", "share of yes"))
    _print_table(console, title, (*headers, *(["missing"] if missing else [])), rows)


def _print_table(console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = plain_table(console, title, *headers, numbers=headers)
    for column in table.columns[1:]:
        column.no_wrap, column.min_width = True, 9
    table.columns[0].overflow, table.columns[0].min_width = "fold", 20
    for row in rows[:MOST_ROWS]:
        table.add_row(*row)
    console.print()
    console.print(table)
    if (more := len(rows) - MOST_ROWS) > 0:
        console.print(f"… and {more:,} more; --json has all")


def _spread_cells(spread: Spread | None) -> list[str]:
    return ["–"] * 4 if spread is None else [number(getattr(spread, name)) for name in _SPREAD]


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if whole else "–"


# --- drawings


def choose_graphs(num_nodes: NDArray[np.int64], count: int, seed: int) -> list[int]:
    """Some of the smaller half of the graphs, drawn with the seed, in order."""
    import numpy as np

    by_size = np.argsort(num_nodes, kind="stable")
    smaller = by_size[: max(count, (len(by_size) + 1) // 2)]
    return sorted(np.random.default_rng(seed).choice(smaller, min(count, len(smaller)), replace=False).tolist())


def _portraits(dataset: Dataset, numbers: Sequence[int]) -> list[Portrait]:
    """These graphs with their targets."""
    from pointset.datasets.statistics import as_columns
    from pointset.reports.layout import Portrait

    card, portraits = dataset.card, []
    for index in numbers:
        graph = dataset.arrays[index]
        edges = as_columns(graph.features.edge_attr) if isinstance(card.edge, Categories) else []
        caption = printable(_caption(card, graph))
        node_values, edge_values = _node_values(card, graph), edges[0] if edges else None
        portraits.append(Portrait(graph, f"graph {index}", caption, node_values, edge_values))
    return portraits


def _legend(dataset: Dataset) -> Legend:
    """What :func:`_node_values` and the widths of edges mean."""
    from pointset.reports.layout import Legend

    card = dataset.card
    names: dict[int, str] = {}
    if isinstance(card.node, Categories):
        nodes = _first_name(card.node_columns)
        names = category_names(card.node_columns, card.node_labels)
    elif card.level is Level.NODE and dataset.targets is not None:
        nodes = card.targets[0].label
        names = dict(enumerate(map(printable, card.classes)))
    else:
        nodes = "degree" if card.node is None else _first_name(card.node_columns)
    edge_names = category_names(card.edge_columns, card.edge_labels)
    return Legend(f"nodes: {printable(nodes)}", f"edges: {_first_name(card.edge_columns)}", names, edge_names)


def _node_values(card: Card, graph: Graph) -> Any:
    """(n,) the first category of each node; without categories its target, its first feature, or its degree."""
    import numpy as np

    from pointset.datasets.statistics import as_columns

    x, y = as_columns(graph.features.x), as_columns(graph.features.y)
    if isinstance(card.node, Categories) and x:
        return x[0]
    if card.level is Level.NODE and y:
        return y[0] if card.task is not Task.REGRESSION else y[0].astype(np.float64)
    if x:
        return x[0].astype(np.float64)
    return np.bincount(graph.edges.ravel(), minlength=graph.num_nodes).astype(np.float64)


def _caption(card: Card, graph: Graph) -> str:
    """What is to be predicted for a graph; its size where that is something for each node."""
    from pointset.datasets.statistics import as_columns

    columns = as_columns(graph.features.y)
    if card.level is Level.NODE or not columns or not len(columns[0]):
        return f"{graph.num_nodes:,} nodes, {graph.edges.shape[1]:,} edges"
    values = [float(column[0]) for column in columns]
    if card.task is Task.MULTI_LABEL:
        positive = [target.name for target, value in zip(card.targets, values, strict=False) if value == 1]
        return ", ".join(positive) or "no label"
    if card.task is not Task.REGRESSION:
        value = values[0]
        named = value.is_integer() and 0 <= value < len(card.classes)
        return f"{card.targets[0].name}: {card.classes[int(value)] if named else _value(value)}"
    shown = [
        f"{target.name} {_value(value)} {target.unit if target.unit not in target.name else ''}".strip()
        for target, value in zip(card.targets[:_SHOWN_TARGETS], values, strict=False)
    ]
    return ", ".join(shown) + (", …" if len(values) > _SHOWN_TARGETS else "")


def _value(value: float) -> str:
    return "missing" if value != value else number(value)


def _first_name(columns: Sequence[str]) -> str:
    return short_name(columns[0]) if columns else "first feature"
