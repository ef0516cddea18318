"""Graphs become points and come back: the first tour of pointset.

    python examples/graphs_and_points.py --output out/tour

Reads from top to bottom: some famous graphs, then every graph of up to seven nodes, then two graphs that eigenvalues
alone cannot tell apart, then two pictures. Ends with a non-zero exit code if a single graph does not come back.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import pointset
from pointset.paper.families import rook, shrikhande
from pointset.points.matrices import MATRICES
from pointset.reports.pictures import draw_points

Graph: TypeAlias = "nx.Graph[Any]"

# Where the output is not a terminal there is no width to ask for, and nothing is coloured.
console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def famous_graphs() -> dict[str, Graph]:
    """Small graphs that everyone knows, and a few that are awkward."""
    atlas = nx.graph_atlas_g()
    return {
        "karate club": nx.karate_club_graph(),
        "Petersen": nx.petersen_graph(),
        "8-cycle": nx.cycle_graph(8),
        "4-cube": nx.hypercube_graph(4),
        "rook 4×4": rook(4),
        "Shrikhande": shrikhande(),
        "binary tree": nx.balanced_tree(2, 4),
        "three components": nx.disjoint_union_all([nx.cycle_graph(3), nx.path_graph(4), nx.empty_graph(1)]),
        "5 nodes, no edge": nx.empty_graph(5),
        **{f"atlas {number}": atlas[number] for number in (52, 575, 1252)},
    }


def come_back(points: pointset.PointSet) -> tuple[float, bool]:
    """Points → graph → points: the reconstruction error, and whether it is the same graph."""
    graph = pointset.to_graph(points)
    again = pointset.to_points(graph, matrix=points.matrix)
    return graph.reconstruction_error, bool(pointset.is_same_graph(again, points))


def spectrum_of(points: pointset.PointSet, most: int = 4) -> str:
    """``"2×5 5×4"``: each eigenvalue with its multiplicity, the first few."""
    spaces = points.eigenspaces()
    shown = [f"{value:.3g}×{often}" if often > 1 else f"{value:.3g}" for value, often in spaces[:most]]
    return " ".join([*shown, "…"] if len(spaces) > most else shown) or "none"


def show_famous_graphs(graphs: dict[str, Graph]) -> bool:
    """One row for each graph; returns whether all came back."""
    console.print("[bold]Graph → points → graph[/bold], by the Laplacian")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("graph", no_wrap=True)
    for name in ("nodes", "edges", "rank"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("eigenvalue×multiplicity")
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("same graph", justify="center", no_wrap=True)
    all_same = True
    for name, points in zip(graphs, pointset.to_points_many(graphs.values()), strict=True):
        error, same = come_back(points)
        sizes = (str(number) for number in (points.num_nodes, points.num_edges, points.rank))
        table.add_row(name, *sizes, spectrum_of(points), f"{error:.0e}", "✓" if same else "✗")
        all_same &= same
    console.print(table)
    return all_same


def show_whole_atlas() -> bool:
    """Every graph of up to seven nodes, under every matrix: is the edge list that comes back the one that went in?"""
    atlas = nx.graph_atlas_g()
    edges = [torch.from_numpy(np.argwhere(nx.to_numpy_array(graph)).T.copy()) for graph in atlas]
    console.print(f"\n[bold]All {len(atlas)} graphs of up to 7 nodes[/bold]")
    complete = True
    for matrix in MATRICES:
        start = time.perf_counter()
        points = pointset.to_points_many(atlas, matrix=matrix)
        exact = sum(torch.equal(pointset.to_graph(p).edge_index, e) for p, e in zip(points, edges, strict=True))
        seconds = time.perf_counter() - start
        console.print(f"  {matrix:<22}{exact} of {len(atlas)} come back exactly, {seconds:.1f} s there and back")
        complete &= exact == len(atlas)
    return complete


def show_twins(rook: Graph, shrikhande: Graph) -> bool:
    """Equal eigenvalues, different graphs: the points know more than the spectrum."""
    a, b = pointset.to_points(rook), pointset.to_points(shrikhande)
    equal_spectra = torch.allclose(a.eigenvalues, b.eigenvalues)
    found = pointset.is_same_graph(a, b)
    console.print("\n[bold]Rook 4×4 and Shrikhande[/bold]")
    console.print(f"  eigenvalues   {'equal' if equal_spectra else 'different'}: {spectrum_of(a)}  |  {spectrum_of(b)}")
    console.print(f"  is_same_graph {bool(found)}: {found.reason}")
    return equal_spectra and not found


def save_pictures(graphs: dict[str, Graph], folder: Path) -> None:
    """A graph, its spectrum, its points and their inner products on one page."""
    folder.mkdir(parents=True, exist_ok=True)
    console.print("\n[bold]Pictures[/bold]")
    for name, file, title in (
        ("karate club", "karate_club.png", "Zachary's karate club"),
        ("Shrikhande", "shrikhande.png", "The Shrikhande graph"),
    ):
        draw_points(pointset.to_points(graphs[name]), folder / file, title=title)
        console.print(f"  {folder / file}", soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Graphs become points and come back.")
    parser.add_argument("--output", type=Path, default=Path("out/tour"), help="folder for pictures (%(default)s)")
    output = parser.parse_args().output

    torch.set_num_threads(1)  # matrices of a few rows are not worth a second thread
    graphs = famous_graphs()
    fine = show_famous_graphs(graphs)
    fine &= show_whole_atlas()
    fine &= show_twins(graphs["rook 4×4"], graphs["Shrikhande"])
    save_pictures(graphs, output)
    console.print("\nEvery graph came back." if fine else "\nSome graph did NOT come back: see above.")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
