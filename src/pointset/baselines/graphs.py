"""The graphs behind a batch of points: as edges for message passing, as dense matrices for the other baselines.

Message passing needs the graph itself. It is still there: the points lose nothing (paper, Theorem 3.1). A baseline has
a :class:`Structure` in the place of coordinates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pointset.encoders.batch import PointGroup
from pointset.encoders.coordinates import PairWeights
from pointset.errors import SpecError

WALK_STEPS = 16  # of the return probabilities
# Of max|λ|: far above the rounding of points in float32 (which a model in float64 may be given), about 1e-7, and far
# below a weight of 1.
_ROUNDING = 1e-5


class Structure(nn.Module, ABC):
    """What a baseline knows of the graphs of a group.

    ``function`` is a part with weights, for those that have one; ``pairs`` embeds edge features, None: there are none;
    ``noise`` is on coordinates, and not used.
    """

    def __init__(self, function: Any = None, pairs: PairWeights | None = None, *, noise: float = 0.0):
        super().__init__()
        self.function, self.pairs = function, pairs

    @abstractmethod
    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Any:
        """Group → what the encoder takes beside the scalars; ``generator`` is for noise, and not used."""


def restored_adjacency(group: PointGroup) -> Tensor:
    """A from the points of the Laplacian: Z = U diag(λ) Uᵀ = D − A, so A is −Z off the diagonal; (B, n, n).

    Entries that rounding alone could have made are 0: no edge. Weights come back up to rounding. Truncated points do
    not tell A: their edges stand in the group.
    """
    graphs, nodes, rank = group.shape
    if group.edges is not None and group.edge_weight is not None:
        adjacency = group.eigenvectors.new_zeros(graphs, nodes, nodes)
        adjacency[group.edges.unbind()] = group.edge_weight.to(adjacency)
        adjacency.diagonal(dim1=-2, dim2=-1).zero_()
        return adjacency
    if not rank:
        return group.eigenvectors.new_zeros(graphs, nodes, nodes)
    with torch.autocast(group.eigenvectors.device.type, enabled=False):  # with 8 bits, edges could not be distinguished
        adjacency = (group.eigenvectors * -group.eigenvalues.unsqueeze(-2)) @ group.eigenvectors.mT
    tolerance = _ROUNDING * group.eigenvalues.abs().amax(-1).view(graphs, 1, 1)
    adjacency = torch.where(adjacency.abs() > tolerance, adjacency, 0.0)
    adjacency.diagonal(dim1=-2, dim2=-1).zero_()
    return adjacency


def _weighted_edges(group: PointGroup, adjacency: Tensor | None) -> tuple[Tensor, Tensor]:
    """The edges (3, M) without self-loops and their weights (M,), which the group lists or ``adjacency`` holds."""
    if group.edges is not None and group.edge_weight is not None:
        proper = group.edges[1] != group.edges[2]
        return group.edges[:, proper], group.edge_weight[proper]
    adjacency = restored_adjacency(group) if adjacency is None else adjacency
    edges = adjacency.nonzero().mT
    return edges, adjacency[edges.unbind()]


class GroupEdges(NamedTuple):
    """The graphs of one group."""

    edges: Tensor  # (3, M) graph in the group, source, target; both directions
    weights: Tensor | None  # (M,) where edges have no features
    features: Tensor | None  # (d, M) where they have
    walks: Tensor | None  # (K, B, n) return probabilities


class EdgeList(Structure):
    """A group's edges, for message passing.

    A model for edge features takes the edges that carry them, and no weights beside them. Any other model takes the
    edges that the points tell, with their weights (1 in a graph without).
    """

    walk_steps = 0  # K, of the return probabilities; 0: none

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> GroupEdges:
        """Group → its edges."""
        adjacency = restored_adjacency(group) if self.walk_steps else None
        walks = None if adjacency is None else return_probabilities(adjacency, self.walk_steps)
        if self.pairs is None:
            return GroupEdges(*_weighted_edges(group, adjacency), None, walks)
        features = self.pairs.by_edge(group)
        if group.edges is None:
            raise SpecError("the batch has edge features without edges; expected the edges that they belong to")
        return GroupEdges(group.edges, None, features, walks)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"walk_steps={self.walk_steps}" if self.walk_steps else ""


class EdgeListAndWalks(EdgeList):
    """A group's edges, and the return probabilities of random walks."""

    walk_steps = WALK_STEPS


def return_probabilities(adjacency: Tensor, steps: int) -> Tensor:
    """diag((D⁻¹A)^k) for k = 1 … ``steps``: the probability that k steps from node i end at i, (steps, B, n).

    The structural encoding RWSE of GPS (Rampášek et al., 2022).
    D⁻¹A and the symmetric S = D^-½AD^-½ are similar by a diagonal matrix, so their powers have one diagonal; and
    diag(S^(a+b)) = Σ_j (S^a)_ij (S^b)_ij, so half of the powers are enough: ``steps``/2 products of n³.
    A weight counts by its size |w|; a node without edges has zeros. ``adjacency`` is (B, n, n), symmetric.
    """
    weights = adjacency.abs()
    degrees = weights.sum(-1)
    root = torch.where(degrees > 0, degrees.clamp(min=torch.finfo(degrees.dtype).tiny).rsqrt(), 0.0)
    walk = weights * root.unsqueeze(-1) * root.unsqueeze(-2)
    probabilities = [walk.diagonal(dim1=-2, dim2=-1)]
    power = walk
    with torch.autocast(walk.device.type, enabled=False):  # else the powers gather the rounding of bfloat16
        while len(probabilities) < steps:
            probabilities.append(power.square().sum(-1))
            following = power @ walk
            probabilities.append((power * following).sum(-1))
            power = following
    return torch.stack(probabilities[:steps])


class SparseGraphs(NamedTuple):
    """Graphs side by side as one graph of N nodes and M directed edges; nodes stand graph by graph."""

    edge_index: Tensor  # (2, M) source, target
    graph: Tensor  # (N,) which graph a node belongs to: 0, 1, …, ascending without gaps
    weights: Tensor | None  # (M,)
    features: Tensor | None  # (M, d)
    walks: Tensor | None  # (N, K)


def united(structures: Sequence[GroupEdges], sizes: Sequence[tuple[int, int]]) -> SparseGraphs:
    """The disjoint union of the graphs of all groups; ``sizes`` are (B, n) of each group."""
    edge_index, graph, nodes, graphs = [], [], 0, 0
    for structure, (count, n) in zip(structures, sizes, strict=True):
        edge_index.append(structure.edges[1:] + (nodes + n * structure.edges[0]))
        graph.append(torch.arange(graphs, graphs + count, device=structure.edges.device).repeat_interleave(n))
        nodes += count * n
        graphs += count if n else 0  # a graph without nodes has no number: attention would find nothing in it
    return SparseGraphs(
        edge_index=torch.cat(edge_index, dim=1),
        graph=torch.cat(graph),
        weights=_joined([structure.weights for structure in structures]),
        features=_joined([structure.features for structure in structures]),
        walks=_joined([structure.walks for structure in structures]),
    )


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """(rows,) or channel-first (d, …) → (Σ rows,) or (Σ rows, d); None where the batch has no such thing."""
    given = [part if part.dim() == 1 else part.flatten(1).mT for part in parts if part is not None]
    return torch.cat(given) if given else None


def hop_distances(adjacency: Tensor, most: int) -> Tensor:
    """Edges on a shortest path between two nodes, at most ``most`` (which stands for all that is farther, or apart).

    (B, n, n) → (B, n, n) whole numbers.
    """
    within = _identity(adjacency)
    step = within + (adjacency != 0)
    distance = 1 - within
    for _ in range(1, most):
        before, within = within, _composed(within, step)  # 1 where so many steps are enough
        if torch.equal(before, within):  # what is not reached by now is in another component
            return torch.where(within > 0, distance, most).long()
        distance += 1 - within
    return distance.long()


def same_component(adjacency: Tensor) -> Tensor:
    """Whether a path joins two nodes, (B, n, n) → (B, n, n) of bool: squares of the matrix of nodes that are near."""
    within = _identity(adjacency) + (adjacency != 0)
    while True:
        before, within = within, _composed(within, within)
        if torch.equal(before, within):
            return within > 0


def _composed(left: Tensor, right: Tensor) -> Tensor:
    """Matrices of 0 and 1 as relations: 1 where a middle node joins the two."""
    with torch.autocast(left.device.type, enabled=False):
        return torch.bmm(left, right).clamp_(max=1)


def _identity(adjacency: Tensor) -> Tensor:
    return torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device).expand_as(adjacency)


def mean_of_incident_edges(pairs: PairWeights, group: PointGroup) -> Tensor:
    """Mean embedding of the edges at each node, 0 at isolated nodes: (d, B, n)."""
    graphs, nodes, _ = group.shape
    by_edge = pairs.by_edge(group)  # (d, M)
    source = group.edge_places // max(nodes, 1)  # (M,)
    total = by_edge.new_zeros(len(by_edge), graphs * nodes).index_add(1, source, by_edge)
    count = by_edge.new_zeros(graphs * nodes).index_add(0, source, torch.ones_like(source, dtype=by_edge.dtype))
    return (total / count.clamp(min=1)).view(len(by_edge), graphs, nodes)
