"""``pointset inspect``: what a file of graphs or points holds, and what training on it will take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointset.cli.inspection import Encoder, Inspection
from pointset.cli.messages import load_torch, reported_errors, say, show_error, show_ignored, show_problems
from pointset.cli.options import MATRIX_HELP, MatrixName, check_graph_suffix, check_picture, is_given, is_points_file

if TYPE_CHECKING:
    from pointset.datasets.graph_facts import GraphFacts
    from pointset.datasets.graph_files.screening import Problem
    from pointset.points.graphs import Graph
    from pointset.points.point_set import PointSet

EXAMPLES = """
[bold]Examples[/bold]
  pointset inspect graphs.g6                          [dim]a table, and a summary[/dim]
  pointset inspect points.safetensors --json          [dim]all graphs, for programs[/dim]
  pointset inspect graphs.g6 --picture graph.png --graph 3
  pointset inspect graphs.g6 --width 128 --layers 10  [dim]will it fit?[/dim]

[bold]Forecast of memory[/bold]
  Graph of n nodes and rank r: 4 · layers · width · (n² + n·r) · 6 bytes.
  That is a float32 number for each channel, layer, pair of nodes and
  coordinate, times 6 for what a layer keeps in the forward pass and for the
  gradients. The 6 is counted from the equations, not measured; parameters
  come on top.
"""


def inspect(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A graph file, a folder of them, or a file of points.", exists=True)
    ],
    matrix: Annotated[MatrixName, typer.Option(metavar="NAME", help=MATRIX_HELP)] = MatrixName.LAPLACIAN,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with every graph.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw a graph, its spectrum, its points: .png, .svg, .pdf.")
    ] = None,
    graph: Annotated[int, typer.Option(min=0, metavar="I", help="The graph to draw, as numbered in the table.")] = 0,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Rows of the table.")] = 20,
    width: Annotated[
        int, typer.Option(min=1, metavar="N", help="Channels of the encoder, for the forecast of memory.")
    ] = 80,
    layers: Annotated[int, typer.Option(min=1, metavar="N", help="Its layers.")] = 6,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Graphs in a batch.")] = 128,
) -> None:
    """Show graphs and their points: size, rank, eigenvalues, round trip, and the memory that training will take."""
    with reported_errors():
        _check_usage(context, file, picture)
        load_torch()
        points, graphs, names, problems, decomposed = _points(file, matrix.value)
        show_problems(problems)
        if not names:
            show_error(f"no graph in {file} could be read")
            raise typer.Exit(1)
        if picture is not None and graph >= len(names):
            raise typer.BadParameter(f"there are {len(names)} graphs, numbered from 0", param_hint="--graph")
        found = Inspection(
            file=str(file),
            matrix=decomposed,
            facts=_facts(names, points, graphs, width, layers),
            problems=problems,
            encoder=Encoder(width, layers, batch),
        )
        _print(found, as_json, limit)
        if picture is not None:
            _draw(points[graph], names[graph], picture)


def _check_usage(context: typer.Context, file: Path, picture: Path | None) -> None:
    if is_points_file(file):
        if is_given(context, "matrix"):
            raise typer.BadParameter("a file of points has its matrix already; leave --matrix out")
    else:
        check_graph_suffix(file, "FILE")
    if picture is None and is_given(context, "graph"):
        raise typer.BadParameter("--graph says which graph --picture draws; add --picture OUT.png")
    if picture is not None:
        check_picture(picture)


def _points(
    file: Path, matrix: str
) -> tuple[Sequence[PointSet], Sequence[Graph] | None, Sequence[str], list[Problem], str]:
    if is_points_file(file):
        from pointset.points.point_files import read_points

        stored, names = read_points(file)
        return stored, None, names, [], ", ".join(stored.matrices)
    import torch

    from pointset.datasets.graph_files import read_graph_file
    from pointset.datasets.graph_files.screening import screen, solve
    from pointset.progress import track

    screened = screen(track(read_graph_file(file), "Reading", None))
    show_ignored(screened.ignored)
    solved = solve(screened, matrix=matrix, rank=None, dtype=torch.float64)
    return solved.points, solved.graphs, solved.names, solved.problems, matrix


def _facts(
    names: Sequence[str], points: Sequence[PointSet], graphs: Sequence[Graph] | None, width: int, layers: int
) -> list[GraphFacts]:
    from pointset.datasets.graph_facts import facts_of
    from pointset.progress import track

    originals: Iterable[Graph | None] = [None] * len(names) if graphs is None else graphs
    rows = zip(names, points, originals, strict=True)
    return [
        facts_of(name, one, original, width=width, layers=layers)
        for name, one, original in track(rows, "Going back", len(names))
    ]


def _print(found: Inspection, as_json: bool, limit: int) -> None:
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=1, ensure_ascii=False, allow_nan=False))
        return
    from pointset.cli.inspection_table import show

    show(found, limit)


def _draw(points: PointSet, name: str, path: Path) -> None:
    from pointset.reports.picture import draw_points

    draw_points(points, path, title=name)
    say(f"Picture of {name} written to {path}")
