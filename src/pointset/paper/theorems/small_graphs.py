"""All graphs with up to seven nodes, which the statements are tried on, and what is known of a graph directly:
adjacency, distances, return probabilities. No coordinates and no models are used here.
"""

from __future__ import annotations

import functools

import networkx as nx
import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from pointset.arrays import Floats, Integers
from pointset.datasets.splits.parts import whole_number

LARGEST = 7  # the atlas that networkx ships ends here


@functools.cache
def small_graphs(max_nodes: int = LARGEST) -> tuple[nx.Graph[int], ...]:
    """Every graph with 0 … ``max_nodes`` nodes, numbered 0 … n−1, by size; 1,253 for seven. They are frozen."""
    if whole_number(max_nodes, "max_nodes", 0, LARGEST) < LARGEST:
        return tuple(graph for graph in small_graphs(LARGEST) if len(graph) <= max_nodes)
    return tuple(nx.freeze(graph) for graph in nx.graph_atlas_g())


@functools.cache
def small_adjacencies(max_nodes: int = LARGEST) -> tuple[Floats, ...]:
    """Their adjacency matrices (n, n), in the same order; not to be written to."""
    matrices = tuple(adjacency_of(graph) for graph in small_graphs(max_nodes))
    for matrix in matrices:
        matrix.flags.writeable = False
    return matrices


def random_weighted(nodes: int, density: float, generator: np.random.Generator) -> Floats:
    """(n, n) symmetric, weights uniform in (0, 2] on a random part of the pairs."""
    kept = np.triu(generator.random((nodes, nodes)) < density, 1)
    upper = np.where(kept, 2 - 2 * generator.random((nodes, nodes)), 0.0)
    return upper + upper.T


def relabelled(adjacency: Floats, permutation: Integers) -> Floats:
    """π(A) with π(A)[π(u), π(v)] = A[u, v] (Section 2)."""
    result = np.zeros_like(adjacency)
    result[np.ix_(permutation, permutation)] = adjacency
    return result


def shuffled(graph: nx.Graph[int], seed: int) -> nx.Graph[int]:
    """The same graph with its nodes in another order."""
    order = np.random.default_rng(seed).permutation(len(graph)).tolist()
    result: nx.Graph[int] = nx.empty_graph(len(graph))
    result.add_edges_from((order[u], order[v]) for u, v in graph.edges)
    return result


def described(adjacency: Floats | Integers) -> str:
    """``3 nodes with the edges 0–1, 0–2``: a graph for the reader of the evidence."""
    edges = ", ".join(f"{u}–{v}" for u, v in np.argwhere(np.triu(adjacency)))
    which = f"the edge{'s' if ',' in edges else ''} {edges}" if edges else "no edge"
    return f"{len(adjacency)} nodes with {which}"


def adjacency_of(graph: nx.Graph[int]) -> Floats:
    """(n, n), also for the graph without nodes, which networkx refuses."""
    n = len(graph)
    return nx.to_numpy_array(graph, nodelist=range(n)) if n else np.zeros((0, 0))


def whole_adjacency(graph: nx.Graph[int]) -> Integers:
    """The same in whole numbers."""
    return adjacency_of(graph).astype(np.int64)


def edge_index(graph: nx.Graph[int]) -> Tensor:
    """(2, 2m): every edge in both directions."""
    edges = torch.tensor([*graph.edges], dtype=torch.int64).reshape(-1, 2).T
    return torch.cat([edges, edges.flip(0)], dim=1)


def distances(graph: nx.Graph[int]) -> Floats:
    """Shortest path distances (n, n); infinite between components."""
    if not len(graph):
        return np.zeros((0, 0))
    return np.asarray(shortest_path(whole_adjacency(graph), unweighted=True))


def return_probabilities(graph: nx.Graph[int]) -> Floats:
    """RWSE: the diagonals of (D⁻¹A)^k for k = 1 … n, (n, n); longer walks depend on these (Cayley–Hamilton)."""
    A = whole_adjacency(graph)
    step = A / np.maximum(A.sum(1, keepdims=True), 1)
    return np.stack([np.linalg.matrix_power(step, k).diagonal() for k in range(1, len(graph) + 1)], axis=1)
