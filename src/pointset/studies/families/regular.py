"""Regular graphs: hypercubes and random ones."""

from __future__ import annotations

import networkx as nx
import numpy as np

from pointset.errors import SpecError
from pointset.studies.families.checks import whole_number


def hypercube(dimension: int) -> nx.Graph[int]:
    """The 2^d nodes of a cube, linked where one binary digit differs."""
    nodes = 1 << whole_number(dimension, "dimension", 0, 20)
    graph: nx.Graph[int] = nx.empty_graph(nodes)
    graph.add_edges_from(
        (node, node ^ (1 << digit)) for node in range(nodes) for digit in range(nodes.bit_length() - 1)
    )
    return graph


def random_regular(nodes: int, degree: int, seed: int) -> nx.Graph[int]:
    """A graph drawn at random from those in which every node has ``degree`` neighbours."""
    nodes = whole_number(nodes, "nodes", 1)
    degree = whole_number(degree, "degree", 0, nodes - 1)
    if nodes * degree % 2:
        raise SpecError(f"got {nodes} nodes of degree {degree}; expected an even product, as each edge has two ends")
    generator = np.random.default_rng(whole_number(seed, "seed", 0))
    dense = 2 * degree >= nodes  # then networkx would rarely succeed; the complement of a sparse one is as random
    drawn = nx.random_regular_graph(nodes - 1 - degree if dense else degree, nodes, seed=generator)
    graph: nx.Graph[int] = nx.empty_graph(nodes)  # with the nodes in order
    graph.add_edges_from(sorted((min(edge), max(edge)) for edge in drawn.edges))
    return nx.complement(graph) if dense else graph
