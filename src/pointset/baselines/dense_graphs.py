"""The graphs of a group as dense matrices: distances, components, what lies at the edges. For dense peers."""

from __future__ import annotations

import torch
from torch import Tensor

from pointset.encoders.batch import PointGroup
from pointset.encoders.pairs import PairWeights
from pointset.errors import SpecError


def hop_distances(adjacency: Tensor, most: int) -> Tensor:
    """Edges on a shortest path between two nodes, at most ``most`` (which stands for all that is farther, or apart).

    (B, n, n) → (B, n, n) whole numbers.
    """
    within = _identity(adjacency)
    step = within + (adjacency != 0)
    distance = 1 - within
    for _ in range(1, most):
        before, within = within, _joined(within, step)  # 1 where so many steps are enough
        if torch.equal(before, within):  # what is not reached by now is in another component
            return torch.where(within > 0, distance, most).long()
        distance += 1 - within
    return distance.long()


def same_component(adjacency: Tensor) -> Tensor:
    """Whether a path joins two nodes, (B, n, n) → (B, n, n) of bool: squares of the matrix of nodes that are near."""
    within = _identity(adjacency) + (adjacency != 0)
    while True:
        before, within = within, _joined(within, within)
        if torch.equal(before, within):
            return within > 0


def _joined(left: Tensor, right: Tensor) -> Tensor:
    """Product of matrices of 0 and 1 as relations."""
    with torch.autocast(left.device.type, enabled=False):
        return torch.bmm(left, right).clamp_(max=1)


def _identity(adjacency: Tensor) -> Tensor:
    return torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device).expand_as(adjacency)


def places_of_edges(group: PointGroup) -> Tensor:
    """(M,): where each edge of the group stands among all B·n·n pairs."""
    if group.edges is None:
        raise SpecError("the model was made for edge features, but the graphs carry none")
    graph, source, target = group.edges
    nodes = group.size[1]
    places: Tensor = (graph * nodes + source) * nodes + target
    return places


def mean_of_incident_edges(pairs: PairWeights, group: PointGroup) -> Tensor:
    """Mean embedding of the edges at each node, 0 at isolated nodes: (d, B, n)."""
    graphs, nodes, _ = group.size
    by_edge = pairs.by_edge(group)  # (d, M)
    source = places_of_edges(group) // max(nodes, 1)  # (M,)
    total = by_edge.new_zeros(len(by_edge), graphs * nodes).index_add(1, source, by_edge)
    count = by_edge.new_zeros(graphs * nodes).index_add(0, source, torch.ones_like(source, dtype=by_edge.dtype))
    return (total / count.clamp(min=1)).view(len(by_edge), graphs, nodes)
