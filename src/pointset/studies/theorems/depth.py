"""A vanilla graph transformer needs the depth that message passing needs: Theorem C.2 and Lemma C.3."""

from __future__ import annotations

import networkx as nx
import torch

from pointset.studies.families.cycles import cycle, two_cycles
from pointset.studies.families.marks import marked
from pointset.studies.refinement.nodes import refine_nodes
from pointset.studies.statement import Finding, Statement, holds_if
from pointset.studies.theorems.relations import adjacency, refine_by_relation

Pair = tuple["nx.Graph[int]", "nx.Graph[int]"]


def printed_pair(k: int) -> Pair:
    """H_4(k+1) and G_4(k+1). For k = 0 the two "cycles" have two nodes each: an edge, for want of a cycle."""
    if k == 0:
        return cycle(4), nx.disjoint_union(nx.path_graph(2), nx.path_graph(2))
    return cycle(4 * (k + 1)), two_cycles(2 * (k + 1))


def message_passing_same(pair: Pair, layers: int) -> bool:
    """Whether an MPNN with so many layers takes them for one, node 0 of each marked."""
    return refine_nodes([marked(graph, 0) for graph in pair], layers).same(0, 1)


def transformer_same(pair: Pair, layers: int) -> bool:
    """Whether a vanilla graph transformer does: h_i ← (h_i, {{(A_ij, h_j) : all j}})."""
    marks = [torch.eye(len(graph), 1, dtype=torch.int64).numpy() for graph in pair]
    return refine_by_relation([adjacency(graph) for graph in pair], marks, layers).same(0, 1)


def lemma_c_3(most_layers: int = 8, fewer_layers: int = 0) -> Finding:
    """K and K + 1 layers (less ``fewer_layers``) on the marked pair, K = 0 … ``most_layers``."""
    every = range(fewer_layers, most_layers + 1)
    pairs = {k: printed_pair(k) for k in every}
    deeper = [k for k in every if not message_passing_same(pairs[k], k + 1 - fewer_layers)]
    shallow = [k for k in every if message_passing_same(pairs[k], k)]
    transformer = [k for k in every if transformer_same(pairs[k], k)]
    evidence = (
        f"H' and G' with 4(K + 1) nodes, K = {every.start} … {most_layers}: an MPNN with K + {1 - fewer_layers} "
        f"layers tells {len(deeper)} of {len(every)} pairs apart, with K layers it cannot for {len(shallow)}, "
        f"nor a vanilla graph transformer with K layers for {len(transformer)}. K = 0 is degenerate: "
        "a circle of two nodes is no simple graph, here it is read as an edge."
    )
    return holds_if(
        len(deeper) == len(shallow) == len(transformer) == len(every), evidence,
        pairs=len(every), told_apart_by_one_layer_more=len(deeper), taken_for_one_by_mpnn=len(shallow),
        taken_for_one_by_graph_transformer=len(transformer),
    )  # fmt: skip


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "Theorem C.2 and Lemma C.3",
        "For all K, K + 1 layers of an MPNN tell apart H' and G', one cycle of 4(K + 1) nodes and two of half as "
        "many, with one node marked; K layers of an MPNN or of a vanilla graph transformer cannot.",
        lemma_c_3,
    ),
)
