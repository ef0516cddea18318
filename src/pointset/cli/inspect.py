"""``pointset inspect``: what a file of graphs or points holds, and what training on it will take."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pointset.cli.console import (
    load_torch,
    output_console,
    plain_table,
    print_json,
    reported_errors,
    say,
    show_error,
    show_forecast,
    show_ignored,
    show_left_out,
)
from pointset.cli.options import (
    JsonFlag,
    MatrixName,
    MatrixOption,
    RankOption,
    WhichName,
    WhichOption,
    check_graph_suffix,
    check_picture,
    check_which_usage,
    is_points_file,
    refuse_options,
)
from pointset.text import byte_size, counted, printable

if TYPE_CHECKING:
    from pointset.datasets.graph_files.checking import Problem
    from pointset.datasets.statistics import GraphFacts
    from pointset.points.graphs import Graph
    from pointset.points.point_set import PointSet

EXAMPLES = """
[bold]Examples[/bold]
  pointset inspect graphs.g6                          [dim]a table, and a summary[/dim]
  pointset inspect points.safetensors --json          [dim]all graphs, for programs[/dim]
  pointset inspect graphs.g6 --picture graph.png --graph 3
  pointset inspect graphs.g6 --width 128 --layers 10  [dim]will it fit?[/dim]
  pointset inspect web.csv --rank 16                  [dim]a large graph[/dim]

[bold]Forecast of memory[/bold]
  For a graph of n nodes and rank r: 4 · layers · width · (n² + n·r) · 6 bytes.
  That is a float32 number for each channel, layer, pair of nodes and
  coordinate, times 6 for what a layer keeps in the forward pass and for the
  gradients. The 6 is counted from the equations, not measured; the
  parameters come on top.
"""
_SHOWN_MULTIPLICITIES = 4
_FEW = 16  # eigenpairs, to look at a large graph


def inspect(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A graph file, a folder of them, or a file of points.", exists=True)
    ],
    matrix: MatrixOption = MatrixName.LAPLACIAN,
    rank: RankOption = None,
    which: WhichOption = WhichName.BOTH,
    as_json: JsonFlag = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw a graph, its spectrum, its points: .png, .svg, .pdf.")
    ] = None,
    graph: Annotated[int, typer.Option(min=0, metavar="I", help="The graph to draw, as numbered in the table.")] = 0,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Rows of the table.")] = 20,
    width: Annotated[
        int, typer.Option(min=1, metavar="N", help="Channels of the encoder, for the forecast of memory.")
    ] = 80,
    layers: Annotated[int, typer.Option(min=1, metavar="N", help="Layers of the encoder.")] = 6,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Graphs in a batch.")] = 128,
) -> None:
    """Show graphs and their points: size, rank, eigenvalues, round trip, and the memory that training will take."""
    with reported_errors():
        _check_usage(context, file, picture, rank)
        load_torch()
        points, graphs, names, problems, decomposed = _points(file, matrix.value, rank, which.value)
        show_left_out(problems)
        if not names:
            show_error(f"no graph in {file} could be read")
            raise typer.Exit(1)
        if picture is not None and graph >= len(names):
            raise typer.BadParameter(f"there are {len(names)} graphs, numbered from 0", param_hint="--graph")
        from pointset.datasets.statistics import facts_of
        from pointset.progress import track

        rows = track(zip(names, points, graphs, strict=True), "Going back", len(names))
        facts = [facts_of(name, one, original, width=width, layers=layers) for name, one, original in rows]
        summary = _summarise(facts, len(problems), {"width": width, "layers": layers, "batch": batch})
        if as_json:
            content = {
                "file": str(file),
                "matrix": decomposed,
                "graphs": [{"index": index, **dataclasses.asdict(one)} for index, one in enumerate(facts)],
                "summary": summary,
                "problems": [problem._asdict() for problem in problems],
            }
            print_json(content)
        else:
            console = output_console()
            _print_table(console, facts, limit)
            _print_summary(console, summary, decomposed)
        if picture is not None:
            from pointset.reports.pictures import draw_points

            draw_points(points[graph], picture, title=names[graph])
            say(f"Picture of {names[graph]} written to {picture}")


def _check_usage(context: typer.Context, file: Path, picture: Path | None, rank: int | None) -> None:
    if is_points_file(file):
        reason = "is about graphs; a file of points has its matrix and its eigenpairs already, so leave it out"
        refuse_options(context, ["matrix", "rank", "which"], reason)
    else:
        check_graph_suffix(file, "FILE")
        check_which_usage(context, rank)
    if picture is None:
        refuse_options(context, ["graph"], "says which graph --picture draws; add --picture OUT.png")
    else:
        check_picture(picture)


def _points(
    file: Path, matrix: str, rank: int | None, which: str
) -> tuple[Sequence[PointSet], Sequence[Graph | None], Sequence[str], list[Problem], str]:
    """The points, the graphs where the file holds them, names, what could not be read, and the matrix."""
    if is_points_file(file):
        from pointset.points.point_files import read_points

        stored, names = read_points(file)
        return stored, [None] * len(names), names, [], ", ".join(stored.matrices)
    import torch

    from pointset.datasets.graph_files import read_graph_file
    from pointset.datasets.graph_files.checking import check_graphs, solve_graphs
    from pointset.points.forecast import LONGEST_MINUTES, decomposition_seconds
    from pointset.points.spectra import check_which
    from pointset.progress import track

    checked = check_graphs(track(read_graph_file(file), "Reading", None))
    show_ignored(checked.ignored)
    sizes = [graph.num_nodes for graph in checked.graphs]
    show_forecast([n for n in sizes if decomposition_seconds(n, rank) <= 60 * LONGEST_MINUTES], rank)
    remedy = f"Look at it with --rank {_FEW}, which mostly takes seconds; pointset convert takes the time"
    solved = solve_graphs(
        checked, matrix=matrix, rank=rank, which=check_which(which, rank), dtype=torch.float64, too_long=remedy
    )
    return solved.points, solved.graphs, solved.names, solved.problems, matrix


def _summarise(facts: Sequence[GraphFacts], problems: int, encoder: Mapping[str, int]) -> dict[str, Any]:
    """The whole file in a few numbers; None where no graph has the fact."""
    training = _spread(one.training_bytes for one in facts)
    mean = training["mean"]
    return {
        "graphs": len(facts),
        "problems": problems,
        "nodes": _spread(one.nodes for one in facts),
        "edges": _spread(one.edges for one in facts),
        "components": _spread(one.components for one in facts if one.components is not None),
        "rank": _spread(one.rank for one in facts),
        "multiplicities": {
            str(multiplicity): count
            for multiplicity, count in sorted(Counter(m for one in facts for m in one.multiplicities).items())
        },
        "smallest_relative_gap": min(
            (one.smallest_relative_gap for one in facts if one.smallest_relative_gap is not None), default=None
        ),
        "round_trip": dict(Counter(one.round_trip for one in facts)),
        "largest_round_trip_error": max(
            (one.round_trip_error for one in facts if one.round_trip_error is not None), default=None
        ),
        "training_bytes": {**training, "batch": None if mean is None else round(mean * encoder["batch"])},
        "encoder": dict(encoder),
    }


def _spread(values: Iterable[int]) -> dict[str, int | float | None]:
    listed = list(values)
    if not listed:
        return {"min": None, "mean": None, "max": None, "total": 0}
    return {"min": min(listed), "mean": sum(listed) / len(listed), "max": max(listed), "total": sum(listed)}


# --- what is printed


def _print_table(console: Console, facts: Sequence[GraphFacts], limit: int) -> None:
    """The first graphs, a row for each."""
    if not limit:
        return
    titles = ("#", "graph", "nodes", "edges", "comp.", "rank", "multiplicities", "gap", "round trip", "memory")
    table = plain_table(console, *titles, numbers=set(titles) - {"graph", "multiplicities"})
    for column in table.columns:
        column.no_wrap = column.justify == "right"
        column.overflow = "fold"
    table.columns[0].style, table.columns[1].max_width = "dim", 32
    for index, one in enumerate(facts[:limit]):
        way_back = f"{one.round_trip_error or 0.0:.1e}" if one.round_trip == "ok" else one.round_trip
        colour = {"ok": "green", "truncated": "yellow", "failed": "red"}[one.round_trip]
        table.add_row(
            str(index),
            Text(printable(one.name)),
            f"{one.nodes:,}",
            f"{one.edges:,}",
            "–" if one.components is None else f"{one.components:,}",
            f"{one.rank:,}",
            multiplicities_text(one.multiplicities),
            "–" if one.smallest_relative_gap is None else f"{one.smallest_relative_gap:.1e}",
            Text(way_back, style=colour),
            byte_size(one.training_bytes),
        )
    console.print(table)
    if len(facts) > limit:
        console.print(f"… and {len(facts) - limit:,} more; --limit shows more, --json all", style="dim")


def multiplicities_text(multiplicities: list[int]) -> str:
    """``2×3, 1×4``: three eigenvalues that occur twice, four that occur once; the largest first."""
    counts = sorted(Counter(multiplicities).items(), reverse=True)
    shown = ", ".join(f"{multiplicity}×{count}" for multiplicity, count in counts[:_SHOWN_MULTIPLICITIES])
    return f"{shown}, …" if len(counts) > _SHOWN_MULTIPLICITIES else shown or "–"


def _print_summary(console: Console, summary: dict[str, Any], matrix: str) -> None:
    encoder = summary["encoder"]
    ranges = ", ".join(f"{what} {_range(summary[what])}" for what in ("nodes", "edges", "components", "rank"))
    training = summary["training_bytes"]
    lines = [
        f"[bold]{counted(summary['graphs'], 'graph')}[/bold] under the {matrix} matrix: {ranges}",
        f"[bold]Round trip[/bold]: {_round_trip(summary)}",
        f"[bold]Memory for training[/bold], forecast for {encoder['layers']} layers of width {encoder['width']}: "
        f"{byte_size(training['max'])} for the largest graph, {byte_size(training['batch'])} for a batch of "
        f"{encoder['batch']} average graphs",
        "[dim]2×3: three eigenvalues that occur twice. gap: smallest distance between distinct eigenvalues, relative "
        "to the largest. round trip: largest error in the matrix after going to points and back.[/dim]",
    ]
    for line in lines:
        console.print(Text.from_markup(line), soft_wrap=not console.is_terminal)


def _range(spread: dict[str, float | None]) -> str:
    lowest, highest, mean = spread["min"], spread["max"], spread["mean"]
    if lowest is None or mean is None:
        return "unknown"
    return f"{lowest:,}" if lowest == highest else f"{lowest:,}–{highest:,} (mean {mean:,.1f})"


def _round_trip(summary: dict[str, Any]) -> str:
    outcome = ", ".join(f"{count:,} {name}" for name, count in summary["round_trip"].items())
    error, gap = summary["largest_round_trip_error"], summary["smallest_relative_gap"]
    largest = "" if error is None else f"; largest error {error:.1e}"
    return f"{outcome}{largest}" + ("" if gap is None else f"; smallest gap {gap:.1e}")
