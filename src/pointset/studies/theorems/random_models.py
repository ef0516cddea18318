"""Real models with random weights, in float64: what they tell apart, measured against relabelled copies of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import networkx as nx
import numpy as np
import torch
from torch import Tensor, nn

from pointset.encoders.model import PointModel
from pointset.points.convert import to_points_many
from pointset.studies.theorems.relations import return_probabilities

NodeModel = Callable[[Sequence["nx.Graph[int]"], int], list[Tensor]]  # graphs, seed of the weights → (n, d) of each

SAME, SEPARATED = 1e-11, 1e-8  # relative; rounding is about 1e-15
SEEDS = (0, 1, 2)


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


def edge_index(graph: nx.Graph[int]) -> Tensor:
    """(2, 2m): every edge in both directions."""
    edges = torch.tensor([*graph.edges], dtype=torch.int64).reshape(-1, 2).T
    return torch.cat([edges, edges.flip(0)], dim=1)


@dataclass(frozen=True)
class Difference:
    """Of two graphs in the mean over their nodes, relative to its largest number."""

    apart: tuple[float, ...]  # between the graphs, for each seed
    copies: float  # between relabelled copies of one graph, the largest

    @property
    def separated(self) -> bool:
        """Every seed tells them apart by far more than rounding."""
        return min(self.apart) > SEPARATED and self.copies < SAME

    @property
    def same(self) -> bool:
        """No seed tells them apart."""
        return max(self.apart) < SAME and self.copies < SAME


def difference(model: NodeModel, first: nx.Graph[int], second: nx.Graph[int]) -> Difference:
    """How far a model with random weights takes two graphs apart, for several draws of the weights."""
    apart, copies = [], 0.0
    for seed in SEEDS:
        graphs = (first, second, shuffled(first, seed), shuffled(second, seed))
        one, other, one_again, other_again = (rows.mean(0) for rows in model(graphs, seed))
        size = float(max(one.abs().max(), other.abs().max()))
        apart.append(float((one - other).abs().max()) / size)
        copies = max(copies, *(float((a - b).abs().max()) / size for a, b in ((one, one_again), (other, other_again))))
    return Difference(tuple(apart), copies)


def shuffled(graph: nx.Graph[int], seed: int) -> nx.Graph[int]:
    """The same graph with its nodes in another order."""
    order = np.random.default_rng(seed).permutation(len(graph)).tolist()
    result: nx.Graph[int] = nx.empty_graph(len(graph))
    result.add_edges_from((order[u], order[v]) for u, v in graph.edges)
    return result
