"""Graphs for the tests: hypothesis strategies, textbook graphs, relabelling."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import networkx as nx
import numpy as np
import torch
from hypothesis import strategies as st
from networkx.algorithms.isomorphism import GraphMatcher
from networkx.generators.atlas import graph_atlas_g
from numpy.typing import NDArray
from torch_geometric.data import Data

from pointset import Reals
from pointset.paper import families
from pointset.paper.theorems import small_graphs
from pointset.registry import PRESETS, preset_names

MATRIX_NAMES = ("laplacian", "adjacency", "normalized_adjacency", "augmented")
ATLAS_UP_TO_6: list[nx.Graph[int]] = [graph for graph in graph_atlas_g() if len(graph) <= 6]


@st.composite
def adjacency_matrices(
    draw: st.DrawFn, max_nodes: int = 60, weighted: bool | None = None, min_nodes: int = 0
) -> NDArray[np.float64]:
    """Symmetric, zero diagonal; several components and isolated nodes occur."""
    n = draw(st.integers(min_nodes, max_nodes))
    density = draw(st.sampled_from([0.02, 0.1, 0.3, 0.7, 1.0]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(generator.random((n, n)) < density, 1).astype(float)
    if draw(st.booleans()) if weighted is None else weighted:
        upper *= generator.uniform(0.1, 3.0, (n, n))
    symmetric: NDArray[np.float64] = upper + upper.T
    return symmetric


def binary_adjacency(graph: nx.Graph[int]) -> NDArray[np.float64]:
    """(n, n) of zeros and ones, whatever the weights."""
    return np.asarray(nx.to_numpy_array(graph) != 0, dtype=np.float64)


def dense_adjacency(data: Data) -> torch.Tensor:
    """(n, n) adjacency matrix of a PyG graph, by the plainest loop."""
    matrix = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    for column in range(data.edge_index.shape[1]):
        u, v = data.edge_index[:, column].tolist()
        matrix[u, v] = float(data.edge_weight[column]) if "edge_weight" in data else 1.0
    return matrix


def relabelled(adjacency: NDArray[np.float64], seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """π(A) and π with π(A)[π(u), π(v)] = A[u, v] (paper, Section 2)."""
    permutation = np.random.default_rng(seed).permutation(len(adjacency))
    return small_graphs.relabelled(adjacency, permutation), permutation


# Repeated eigenvalues everywhere. Few sizes, so that a batch of them all has few groups and tests are fast.
SYMMETRIC_GRAPHS: dict[str, nx.Graph[Any]] = {
    "cycle": nx.cycle_graph(8),
    "cube": nx.hypercube_graph(3),
    "complete": nx.complete_graph(8),
    "star": nx.star_graph(7),
    "path": nx.path_graph(8),
    "two cycles": families.two_cycles(4),
    "no edges": nx.empty_graph(8),
    "tesseract": nx.hypercube_graph(4),
    "rook": families.rook(4),
    "Shrikhande": families.shrikhande(),
}


@functools.cache
def asymmetric_graphs() -> tuple[nx.Graph[int], ...]:
    """The eight graphs with six nodes and no symmetry; all are connected."""

    def automorphisms(graph: nx.Graph[int]) -> int:
        """1, or 2 for more than one."""
        return len(list(itertools.islice(GraphMatcher(graph, graph).isomorphisms_iter(), 2)))

    found = [graph for graph in ATLAS_UP_TO_6 if len(graph) == 6 and automorphisms(graph) == 1]
    assert len(found) == 8
    return tuple(found)


NODE_CATEGORIES = (5, 3)
EDGE_CATEGORIES = (4,)
RELEASED = [name for name in preset_names("paper") if PRESETS[name].pairs == PRESETS["pst-released"].pairs]


def edge_spec(preset: str) -> Any:
    """Categories; of the released model they leave nothing (``TestReleasedEdges``), so there they are a number."""
    return Reals(1) if preset in RELEASED else EDGE_CATEGORIES


def with_features(graph: nx.Graph[Any], seed: int) -> Data:
    """The graph with random categories on nodes (two columns) and edges (one), and random positions."""
    generator = torch.Generator().manual_seed(seed)
    graph = nx.convert_node_labels_to_integers(graph)
    edges = torch.tensor(sorted(graph.edges()), dtype=torch.long).reshape(-1, 2)

    def drawn(rows: int, sizes: tuple[int, ...]) -> torch.Tensor:
        return torch.stack([torch.randint(0, size, (rows,), generator=generator) for size in sizes], dim=1)

    edge_attr = drawn(len(edges), EDGE_CATEGORIES)
    return Data(
        num_nodes=len(graph),
        edge_index=torch.cat([edges, edges.flip(1)]).mT.contiguous(),
        edge_attr=torch.cat([edge_attr, edge_attr]),
        x=drawn(len(graph), NODE_CATEGORIES),
        pos=torch.randn(len(graph), 3, generator=generator, dtype=torch.float64),
    )
