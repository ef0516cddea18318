"""Models on points: batches of point sets in, predictions out. Plain modules, which know no dataset by name.

>>> from pointset.encoders import PointState, PSTLayer
>>> layer = PSTLayer(32)  # PointState → PointState: scalars (32, B, n), vectors (32, B, n, r)
"""

from __future__ import annotations

from pointset.encoders.batch import PointBatch, PointGroup, collate
from pointset.encoders.coordinates import (
    Coordinates,
    EdgeWeights,
    LearnedDeepSet,
    LearnedFromRoot,
    NodeScalars,
    PairWeights,
    RadialDistances,
    RootAndPolynomials,
    SquareRoot,
)
from pointset.encoders.layers import MLP, BatchEncoder, ChannelLinear, PairMLP, PointState, Readout
from pointset.encoders.loader import PointLoader
from pointset.encoders.model import Inspection, PointModel
from pointset.encoders.psds import PSDS, PSDSLayer
from pointset.encoders.pst import (
    PST,
    OneLayerPST,
    PointAttention,
    PSTLayer,
    ScalarMixer,
    SummingPST,
    SummingPSTLayer,
    VectorMixer,
)
from pointset.encoders.released import ReleasedPSDS, ReleasedPSDSLayer, ReleasedPST, ReleasedPSTLayer

__all__ = [
    "MLP",
    "PSDS",
    "PST",
    "BatchEncoder",
    "ChannelLinear",
    "Coordinates",
    "EdgeWeights",
    "Inspection",
    "LearnedDeepSet",
    "LearnedFromRoot",
    "NodeScalars",
    "OneLayerPST",
    "PSDSLayer",
    "PSTLayer",
    "PairMLP",
    "PairWeights",
    "PointAttention",
    "PointBatch",
    "PointGroup",
    "PointLoader",
    "PointModel",
    "PointState",
    "RadialDistances",
    "Readout",
    "ReleasedPSDS",
    "ReleasedPSDSLayer",
    "ReleasedPST",
    "ReleasedPSTLayer",
    "RootAndPolynomials",
    "ScalarMixer",
    "SquareRoot",
    "SummingPST",
    "SummingPSTLayer",
    "VectorMixer",
    "collate",
]
