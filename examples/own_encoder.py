"""An encoder, a metric and a dataset of one's own, under names that recipes, the shell and bundles know.

    pointset --import examples/own_encoder.py train examples/own_encoder.yaml --run-dir runs/linear

The encoder is linear attention: a point sees all others through one sum, at a cost of n·r·d a layer instead of n²·r·d.
`python examples/own_encoder.py` checks that it is invariant.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import pointset
from pointset.datasets import Dataset
from pointset.encoders import MLP, ChannelLinear, PointState


@pointset.register_encoder("linear-attention")
class LinearAttention(nn.Module):
    """Linear attention: s_i ← s_i + MLP(s_i, q_i·k_i, q_i·Σ_j k_j s_j / n), with q = v W, k = v W'."""

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.projections = nn.ModuleList(ChannelLinear(channels, 2 * channels, bias=False) for _ in range(layers))
        self.mixers = nn.ModuleList(MLP([3 * channels, channels, channels], norm="layer") for _ in range(layers))

    def forward(self, state: PointState) -> PointState:
        s, n = state.s, max(state.s.shape[-1], 1)  # (d, B, n)
        for project, mix in zip(self.projections, self.mixers, strict=True):
            queries, keys = project(state.v).chunk(2)  # (d, B, n, r) each
            seen = torch.einsum("dbnr,dbr->dbn", queries, torch.einsum("dbnr,dbn->dbr", keys, s)) / n
            s = s + mix(torch.cat([s, (queries * keys).sum(-1), seen]))
        return state._replace(s=s)


@pointset.register_metric("max_error", label="largest error", higher_is_better=False)
def max_error(predictions: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    """The largest absolute error of all graphs."""
    return float(np.abs(predictions - targets).max())


@pointset.register_dataset("triangles")
def triangles(count: int = 200, seed: int = 0) -> Dataset:
    """How many triangles random graphs have."""
    graphs = [nx.gnp_random_graph(6 + index % 7, 0.4, seed=seed + index) for index in range(count)]
    numbers = [np.linalg.matrix_power(nx.to_numpy_array(graph), 3).trace() / 6 for graph in graphs]
    return pointset.datasets.from_graphs(graphs, targets=numbers, names=["triangles"], task="regression", seed=seed)


if __name__ == "__main__":
    model = pointset.PointModel.from_preset("linear-attention", dim=16, layers=2)
    pointset.testing.assert_invariant(model, [nx.karate_club_graph(), nx.cycle_graph(7)])
    print(f"{model.num_parameters:,} parameters; the same for every order of the nodes and every basis of the points")
