"""What other models can distinguish: graph transformers at most, by refinement of colours; and real models with random
weights, in float64, measured against relabelled copies of a graph.

The bound of a graph transformer is a refinement over all pairs of nodes, which carry labels:

    h_i ← (h_i, {{(R_ij, h_j) : all j}})

A layer attends to all nodes, and what it knows of a pair is R_ij: the adjacency matrix (a vanilla graph transformer;
with return probabilities as features, GPS), shortest path distances (Graphormer), resistances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import networkx as nx
import numpy as np
import torch
from torch import Tensor, nn

from pointset.arrays import Array
from pointset.encoders.model import PointModel
from pointset.errors import SpecError
from pointset.paper.refinement import Colours, Refinement, like, num_classes, refine, split
from pointset.paper.theorems.small_graphs import distances, edge_index, return_probabilities, shuffled, whole_adjacency
from pointset.points.convert import to_points_many
from pointset.points.encodings import resistance_distance

NodeModel = Callable[[Sequence["nx.Graph[int]"], int], list[Tensor]]  # graphs, seed of the weights → (n, d) of each

SAME, SEPARATED = 1e-11, 1e-8  # relative; rounding is about 1e-15
SEEDS = (0, 1, 2)
GAP = 1e-9  # real numbers nearer than this are one label; rounding is 1e-15, different ones here differ by over 1e-4


def refine_by_relation(
    relations: Sequence[Array], features: Sequence[Array] | None = None, rounds: int | None = None
) -> Refinement:
    """Colours (n,) of the nodes of each graph, refined together by R (n, n), not negative, perhaps infinite.

    Nodes start from ``features`` (n, c), or all alike; rounds None: as many as split a class.
    """
    starts = [np.zeros((len(one), 0)) for one in relations] if features is None else [np.asarray(x) for x in features]
    if [one.shape for one in relations] != [(len(x), len(x)) for x in starts] or len({x.shape[1] for x in starts}) > 1:
        shapes = [(one.shape, x.shape) for one, x in zip(relations, starts, strict=False)]
        raise SpecError(f"got relations and features of shapes {shapes}; expected (n, n) and (n, c), c one number")
    labels = _numbered(relations)
    colours: Colours = [np.zeros(len(x), dtype=np.int64) for x in starts]
    for column in range(starts[0].shape[1] if starts else 0):
        colours = split(colours, _numbered([x[:, column] for x in starts]))

    def step(now: Colours) -> Colours:
        number: dict[bytes, int] = {}
        rows = [np.sort(R * num_classes(now) + h, axis=1) for R, h in zip(labels, now, strict=True)]
        return split(now, [np.array([number.setdefault(row.tobytes(), len(number)) for row in one]) for one in rows])

    return refine(colours, step, rounds)


def _numbered(values: Sequence[Array]) -> Colours:
    """Numbers 0, 1, … in the order of the values of all arrays, one for values nearer than ``GAP``."""
    every = np.nan_to_num(np.concatenate([one.ravel() for one in values]).astype(np.float64), posinf=-1.0)
    ordered = np.sort(every)
    classes = np.concatenate([[0], np.cumsum(np.diff(ordered) > GAP)]).astype(np.int64)
    return like(classes[np.searchsorted(ordered, every)], list(values))


def graphormer_same(first: nx.Graph[int], second: nx.Graph[int]) -> bool:
    """Whether Graphormer takes two graphs for one at any depth: distances of pairs, degrees of nodes."""
    degrees = [whole_adjacency(graph).sum(1, keepdims=True) for graph in (first, second)]
    return refine_by_relation([distances(first), distances(second)], degrees).same(0, 1)


def gps_same(first: nx.Graph[int], second: nx.Graph[int]) -> bool:
    """Whether GPS with RWSE does: message passing along A beside attention to all nodes, from return probabilities."""
    if len(first) != len(second):
        return False
    features = [return_probabilities(first), return_probabilities(second)]
    return refine_by_relation([whole_adjacency(first), whole_adjacency(second)], features).same(0, 1)


def resistance_same(first: nx.Graph[int], second: nx.Graph[int]) -> bool:
    """Whether refinement by resistances does."""
    return refine_by_relation([resistance_distance(g).numpy() for g in (first, second)]).same(0, 1)


@contextmanager
def _drawn_from(seed: int) -> Iterator[None]:
    """Weights are drawn from a seed, and the user's generator is left as it was."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        yield


def point_set_transformer(layers: int, preset: str = "pst") -> NodeModel:
    """Scalars of the points after the last layer.

    Weight matrices of the encoder are three times as large as those that training starts from: the question is what
    some weights can see, and with small ones the higher terms of the same functions drown in rounding.
    """

    def nodes(graphs: Sequence[nx.Graph[int]], seed: int) -> list[Tensor]:
        with _drawn_from(seed):
            model = PointModel.from_preset(preset, dim=16, layers=layers, level="node").double()
            for parameter in model.encoder.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(3)
            rows = model.embed(to_points_many(graphs, matrix=model.matrix, workers=1, progress=False))
            return list(torch.split(rows, [len(graph) for graph in graphs]))

    return nodes


def gin(layers: int, dim: int = 16) -> NodeModel:
    """PyG's GIN without node features."""

    def nodes(graphs: Sequence[nx.Graph[int]], seed: int) -> list[Tensor]:
        from torch_geometric.nn import GINConv

        with _drawn_from(seed):
            stack = [GINConv(_mlp(dim), train_eps=True).double() for _ in range(layers)]
            return [_through(stack, torch.ones(len(graph), dim, dtype=torch.float64), graph) for graph in graphs]

    return nodes


def gps(layers: int, dim: int = 16) -> NodeModel:
    """PyG's GPS (GIN and attention of two heads over all nodes, no normalisation) from RWSE; graphs of one size."""

    def nodes(graphs: Sequence[nx.Graph[int]], seed: int) -> list[Tensor]:
        from torch_geometric.nn import GINConv, GPSConv

        with _drawn_from(seed):
            first = nn.Linear(len(graphs[0]), dim).double()
            stack = [GPSConv(dim, GINConv(_mlp(dim)), heads=2, norm=None).double().eval() for _ in range(layers)]
            starts = [first(torch.from_numpy(return_probabilities(graph))) for graph in graphs]
            return [_through(stack, x, graph) for x, graph in zip(starts, graphs, strict=True)]

    return nodes


def _through(layers: Sequence[nn.Module], x: Tensor, graph: nx.Graph[int]) -> Tensor:
    edges = edge_index(graph)
    for layer in layers:
        x = layer(x, edges)
    return x


def _mlp(dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, dim))


@dataclass(frozen=True)
class Difference:
    """Of two graphs in the mean over their nodes, relative to its largest number."""

    apart: tuple[float, ...]  # between the graphs, for each seed
    copies: float  # between relabelled copies of one graph, the largest

    @property
    def separated(self) -> bool:
        """Every seed distinguishes them by far more than rounding."""
        return min(self.apart) > SEPARATED and self.copies < SAME

    @property
    def same(self) -> bool:
        """No seed distinguishes them."""
        return max(self.apart) < SAME and self.copies < SAME


def difference(model: NodeModel, first: nx.Graph[int], second: nx.Graph[int]) -> Difference:
    """How far apart a model with random weights puts two graphs, for several draws of the weights."""
    apart, copies = [], 0.0
    for seed in SEEDS:
        graphs = (first, second, shuffled(first, seed), shuffled(second, seed))
        one, other, one_again, other_again = (rows.mean(0) for rows in model(graphs, seed))
        size = float(max(one.abs().max(), other.abs().max()))
        apart.append(float((one - other).abs().max()) / size)
        copies = max(copies, *(float((a - b).abs().max()) / size for a, b in ((one, one_again), (other, other_again))))
    return Difference(tuple(apart), copies)
