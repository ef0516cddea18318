"""Every model that can be trained, by name: the variants of the paper and its peers (:func:`build`)."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from pointset.baselines.graphs import EdgeList
from pointset.baselines.message_passing import GCN, GIN, GatedGCN
from pointset.baselines.pairs import PPGN, PairFeatures, PairStart
from pointset.baselines.rooted import IDGNN, EdgeScale, MessageWeights, NestedGIN
from pointset.baselines.transformers import (
    GPS,
    WALK_STEPS,
    DistanceBias,
    Graphormer,
    LaplacianEncoding,
    LaplacianTransformer,
    SignInvariantEncoding,
    StructureBias,
)
from pointset.encoders.layers import Level, Pooling
from pointset.encoders.model import PointModel, Settings
from pointset.encoders.presets import PRESETS, Preset
from pointset.errors import SpecError, did_you_mean
from pointset.specs import read_spec

PEERS: dict[str, Preset] = {
    "gin": Preset("GIN, with edge features GINE: message passing", GIN, nn.Identity, coordinates=EdgeList),
    "gcn": Preset("graph convolutional network", GCN, nn.Identity, coordinates=EdgeList),
    "gatedgcn": Preset("gated graph convolutions with states of edges", GatedGCN, nn.Identity, coordinates=EdgeList),
    "gps": Preset(
        "GPS: GIN(E) and attention over all nodes, random-walk encodings",
        GPS,
        nn.Identity,
        coordinates=partial(EdgeList, walk_steps=WALK_STEPS),
    ),
    "transformer": Preset(
        "transformer over all nodes with a Laplacian encoding",
        LaplacianTransformer,
        SignInvariantEncoding,
        coordinates=LaplacianEncoding,
    ),
    "ppgn": Preset("PPGN: products of pair matrices, as strong as 2-FWL", PPGN, PairStart, coordinates=PairFeatures),
    "nested-gin": Preset(
        "NGNN: a GIN in the 3-hop subgraph of each node, with distances to it",
        NestedGIN,
        EdgeScale,
        coordinates=MessageWeights,
    ),
    "id-gnn": Preset(
        "ID-GNN: message passing in 3-hop subgraphs that knows the root", IDGNN, EdgeScale, coordinates=MessageWeights
    ),
    "graphormer": Preset(
        "Graphormer-style: attention with a bias by distances and edges",
        Graphormer,
        DistanceBias,
        coordinates=StructureBias,
    ),
}


def model_names() -> list[str]:
    """The paper's variants first, then the peers."""
    return [*PRESETS, *PEERS]


def model_preset(name: str) -> Preset:
    """The parts of the model of this name.

    Raises:
        SpecError: there is none; the message lists them.
    """
    if not isinstance(name, str) or name not in model_names():
        raise SpecError(
            f"got the model {name!r}; expected one of {', '.join(model_names())}"
            f"{did_you_mean(str(name).lower(), model_names())}"
        )
    return PRESETS.get(name) or PEERS[name]


def build(
    name: str,
    *,
    node: Any = None,
    edge: Any = None,
    out: int = 1,
    level: Level = "graph",
    dim: int = 64,
    layers: int = 4,
    pooling: Pooling = "mean",
    noise: float = 0.0,
) -> PointModel:
    """A model by name; the arguments are those of :meth:`pointset.PointModel.from_preset`, for peers too.

    Raises:
        SpecError: there is no such model, or it cannot be of that size.
    """
    settings = Settings(name, read_spec(node, "node"), read_spec(edge, "edge"), out, level, dim, layers, pooling, noise)
    return PointModel.from_parts(model_preset(name), settings)
