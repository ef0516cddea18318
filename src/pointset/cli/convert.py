"""``pointset convert``: graphs → points, points → graphs, and one graph format into another."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointset.cli.console import load_torch, reported_errors, show_error, show_forecast, show_ignored, show_left_out
from pointset.cli.options import (
    ClusterOption,
    FloatType,
    MatrixName,
    MatrixOption,
    QuietFlag,
    RankOption,
    WhichName,
    WhichOption,
    check_folder_of,
    check_graph_suffix,
    check_which_usage,
    is_points_file,
    refuse_options,
)
from pointset.text import byte_size, counted

if TYPE_CHECKING:
    from pointset.datasets.graph_files.checking import CheckedGraphs, CheckedPoints, Problem

EXAMPLES = """
[bold]Examples[/bold]
  pointset convert graphs.g6 points.safetensors       [dim]graphs to points[/dim]
  pointset convert points.safetensors graphs.graphml  [dim]and back[/dim]
  pointset convert web.csv web.safetensors --matrix adjacency --rank 64
  pointset convert dataset.pt dataset.s6 --lossy      [dim]format to format[/dim]
  pointset convert proteins/ proteins.safetensors --cluster tcp://head:8786

[bold]Formats[/bold]
  .safetensors  points, with all features
  .graphml      GraphML: everything (features as x0, …, pos0, …, y0, …)
  .pt           PyG: a Data, a list of them, or a saved dataset
  .csv          edge list: source,target and weight,graph,edge_attr0,…
  .s6           sparse6: edges and self-loops, a line for each graph
  .g6           graph6: edges, a line for each graph
  (none)        a folder: any of these in; GraphML, one for each graph, out
"""


def convert(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A graph file, a folder of them, or a file of points.", exists=True)
    ],
    output: Annotated[
        str, typer.Argument(metavar="OUT", help="The file to write; its suffix names the format, none means a folder.")
    ],
    matrix: MatrixOption = MatrixName.LAPLACIAN,
    rank: RankOption = None,
    which: WhichOption = WhichName.BOTH,
    dtype: Annotated[
        FloatType, typer.Option(metavar="TYPE", help="float64 or float32, of the eigenpairs.")
    ] = FloatType.FLOAT64,
    strict: Annotated[bool, typer.Option("--strict", help="Write nothing if any graph is bad.")] = False,
    lossy: Annotated[bool, typer.Option("--lossy", help="Leave out what the graph format of OUT cannot hold.")] = False,
    cluster: ClusterOption = None,
    quiet: QuietFlag = False,
) -> None:
    """Turn graphs into points, losslessly, or points into graphs.

    Structure, features and whole-number weights come back exactly, real
    weights up to rounding. A bad graph in a file is reported with its place
    and the reason, and does not stop the rest, unless --strict is given.
    """
    with reported_errors():
        target = Path(output)
        _check_usage(context, source, target, rank, is_folder=output.endswith(os.sep) or target.is_dir())
        start = time.monotonic()
        load_torch()
        from pointset.cluster import connected

        checked = _read(source, quiet)
        show_ignored(checked.ignored)
        if is_points_file(target):
            choice = {"matrix": matrix.value, "rank": rank, "which": which.value}
            with connected(cluster):
                summary = _write_points(checked, target, choice, dtype.value, strict, quiet)
        else:
            summary = _write_graphs(checked, target, strict, lossy)
        if not quiet:
            size = sum(file.stat().st_size for file in (target.iterdir() if target.is_dir() else [target]))
            typer.echo(f"{summary} → {target} ({byte_size(size)}) in {time.monotonic() - start:.1f} s")


def _check_usage(context: typer.Context, source: Path, target: Path, rank: int | None, *, is_folder: bool) -> None:
    if is_folder and target.suffix:  # which names a file's format; a folder always holds GraphML
        raise typer.BadParameter(
            f"{target.name} is a folder (it exists, or ends in '/'), but {target.suffix} is the name of a file format; "
            "choose a name without it",
            param_hint="OUT",
        )
    if not is_points_file(source):
        check_graph_suffix(source, "IN")
    if not is_points_file(target):
        check_graph_suffix(target, "OUT")
        reason = f"is about points, and {target} is a graph file; leave it out, or write .safetensors"
        refuse_options(context, ["matrix", "rank", "which", "dtype", "cluster"], reason)
    else:
        check_which_usage(context, rank)
        refuse_options(context, ["lossy"], "is about graph files; a file of points holds everything")
    check_folder_of(target, "OUT")
    if target.exists() and target.samefile(source):
        raise typer.BadParameter("OUT is the same file as IN; choose another name", param_hint="OUT")
    if target.is_dir() and any(target.iterdir()):
        raise typer.BadParameter(f"the folder {target} is not empty; choose a new one", param_hint="OUT")


def _read(source: Path, quiet: bool) -> CheckedGraphs:
    from pointset.datasets.graph_files.checking import check_graphs, rebuild_graphs
    from pointset.progress import track

    show = False if quiet else None
    if is_points_file(source):
        from pointset.points.point_files import read_points

        points, names = read_points(source)
        return rebuild_graphs(track(points, "Rebuilding", len(points), show=show), names)
    from pointset.datasets.graph_files import read_graph_file

    return check_graphs(track(read_graph_file(source), "Reading", None, show=show))


def _write_points(
    checked: CheckedGraphs, target: Path, choice: dict[str, Any], dtype: str, strict: bool, quiet: bool
) -> str:
    import torch

    from pointset.datasets.graph_files.checking import solve_graphs
    from pointset.points.point_files import write_points

    if not quiet:
        show_forecast([graph.num_nodes for graph in checked.graphs], choice["rank"])
    solved = solve_graphs(checked, **choice, dtype=getattr(torch, dtype), progress=False if quiet else None)
    _settle(solved.problems, len(solved.names), strict)
    points = list(solved.points)
    write_points(target, points, solved.names)
    ranks = [one.rank for one in points]
    span = str(min(ranks)) if min(ranks) == max(ranks) else f"{min(ranks)}–{max(ranks)}"
    return f"{_count(solved)}, rank {span}"


def _write_graphs(checked: CheckedGraphs, target: Path, strict: bool, lossy: bool) -> str:
    from pointset.datasets.graph_files import write_graph_file

    _settle(checked.problems, len(checked.names), strict)
    write_graph_file(target, checked.graphs, checked.names, lossy=lossy)
    return _count(checked)


def _settle(problems: list[Problem], good: int, strict: bool) -> None:
    """Report what was left out, and stop where nothing is to be written."""
    show_left_out(problems)
    if not good:
        show_error("no graph could be converted; nothing was written")
    elif problems and strict:
        show_error(
            f"{len(problems)} of {counted(good + len(problems), 'graph')} cannot be converted; nothing was written. "
            "Without --strict the others are"
        )
    else:
        return
    raise typer.Exit(1)


def _count(checked: CheckedGraphs | CheckedPoints) -> str:
    good, bad = len(checked.names), len(checked.problems)
    graphs = f"{good:,} of {counted(good + bad, 'graph')}" if bad else counted(good, "graph")
    return f"{graphs}, {counted(sum(graph.num_nodes for graph in checked.graphs), 'node')}"
