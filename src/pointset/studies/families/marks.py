"""A graph with one node singled out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from pointset.errors import GraphError
from pointset.points.inputs import read_graph
from pointset.studies.families.checks import whole_number


def marked(graph: Any, node: int) -> Data:
    """PyG Data with x (n, 1), 1 at the node and 0 elsewhere; nodes are numbered in the graph's own order.

    Args:
        graph: anything :func:`pointset.to_points` takes, without node features.
        node: number of the node, from 0.
    """
    read = read_graph(graph)[0]
    if read.features.x is not None:
        raise GraphError(f"the graph has node features x of shape {tuple(read.features.x.shape)}; expected none")
    if not read.num_nodes:
        raise GraphError("got a graph without nodes; expected one node to mark")
    x = torch.zeros(read.num_nodes, 1, dtype=torch.int64)
    x[whole_number(node, "node", 0, read.num_nodes - 1)] = 1
    back = np.flatnonzero(read.edges[0] != read.edges[1])  # a loop stands once
    order = torch.from_numpy(np.concatenate([np.arange(read.edges.shape[1]), back]))
    edges = np.concatenate([read.edges, read.edges[::-1, back]], axis=1)
    data = Data(x=x, edge_index=torch.from_numpy(edges), num_nodes=read.num_nodes)
    if read.weights is not None:
        data.edge_weight = torch.from_numpy(read.weights.copy())[order]
    if read.features.edge_attr is not None:
        data.edge_attr = read.features.edge_attr[order]
    return data
