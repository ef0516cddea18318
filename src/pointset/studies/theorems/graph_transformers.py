"""PST against graph transformers: Theorem B.2; with it those of Appendices B and C that other files check."""

from __future__ import annotations

import networkx as nx
import torch

from pointset.studies.refinement.pairs import refine_pairs
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems import depth, folklore_cycles, hub_graphs, initial_features, symmetric_nodes
from pointset.studies.theorems.dihedral_graphs import twelve_nodes
from pointset.studies.theorems.random_models import SEPARATED, difference, gps, point_set_transformer
from pointset.studies.theorems.relations import gps_same, graphormer_same, resistance_same
from pointset.studies.theorems.small_graphs import small_graphs

DEPTHS = (1, 2, 3)
PRESETS = ("pst", "pst-normadj")


def theorem_b_2(pair: tuple[nx.Graph[int], nx.Graph[int]] | None = None) -> Finding:
    """Strictness, on a pair that both transformers take for one at any depth and PST separates at every depth tried."""
    first, second = twelve_nodes() if pair is None else pair
    names = " and ".join(nx.to_graph6_bytes(graph, header=False).decode().strip() for graph in (first, second))
    bounds = graphormer_same(first, second), gps_same(first, second)
    layers_of_gps = [difference(gps(layers), first, second) for layers in DEPTHS]
    layers_of_pst = [
        difference(point_set_transformer(layers, preset), first, second) for layers in DEPTHS for preset in PRESETS
    ]
    told = "cannot tell the pair apart", "tells the pair apart"
    most_gps, least_pst = (max(max(one.apart) for one in layers_of_gps), min(min(one.apart) for one in layers_of_pst))
    copies = max(one.copies for one in layers_of_pst)
    small, nearest = nearest_small_graphs()
    evidence = (
        f"The graphs {names} (graph6; {len(first)} nodes): Graphormer's refinement (distances, degrees) "
        f"{told[not bounds[0]]}, that of GPS with RWSE {told[not bounds[1]]}, and a real GPS with random weights "
        f"differs by at most {most_gps:.0e}. PST with random weights, {', '.join(map(str, DEPTHS))} layers and the "
        f"points of the Laplacian or of D^-½AD^-½ differs by {least_pst:.1e} or more (relabelled copies: {copies:.0e} "
        f"or less). Refinement by resistances {told[not resistance_same(first, second)]}, 2-FWL "
        f"{told[not refine_pairs([first, second]).same(0, 1)]}. That PST tells apart what they do was seen on the "
        f"{small} graphs with up to six nodes: one layer puts any two apart by {nearest:.0e} or more."
    )
    return holds_if(
        all(bounds) and all(one.same for one in layers_of_gps) and all(one.separated for one in layers_of_pst)
        and nearest > SEPARATED, evidence,
        taken_for_one_by_graphormer=bounds[0], taken_for_one_by_gps=bounds[1], largest_difference_of_gps=most_gps,
        smallest_difference_of_pst=least_pst, largest_difference_of_copies=copies,
        smallest_difference_of_small_graphs=nearest,
    )  # fmt: skip


def nearest_small_graphs(max_nodes: int = 6) -> tuple[int, float]:
    """All small graphs, and the smallest relative difference that one layer of PST makes between two of one size."""
    graphs = [graph for graph in small_graphs(max_nodes) if len(graph)]
    rows = torch.stack([nodes.mean(0) for nodes in point_set_transformer(1)(graphs, 0)])
    sizes = torch.tensor([len(graph) for graph in graphs])
    apart = torch.cdist(rows, rows, p=torch.inf)
    others = (sizes == sizes[:, None]) & ~torch.eye(len(graphs), dtype=torch.bool)
    return len(graphs), float(apart[others].min() / rows.abs().max())


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem B.2",
        "PST with k layers is strictly more expressive than Graphormer and than GPS (with RWSE) with k layers: there "
        "are graphs that it tells apart and they do not.",
        theorem_b_2,
    ),
    *initial_features.STATEMENTS,
    *hub_graphs.STATEMENTS,
    *folklore_cycles.COMPARISON,
    *symmetric_nodes.STATEMENTS,
    *depth.STATEMENTS,
)
