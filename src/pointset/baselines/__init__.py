"""Baselines: what others do with the same graphs. Each is a preset of :class:`pointset.PointModel`, such as ``gin``.

The classes here are the encoders of those presets; :mod:`pointset.registry` says which parts go with each.
"""

from __future__ import annotations

from pointset.baselines.message_passing import GCN, GIN, GatedGCN
from pointset.baselines.pairs import PPGN
from pointset.baselines.rooted import IDGNN, NestedGIN
from pointset.baselines.transformers import GPS, Graphormer, LaplacianTransformer

__all__ = ["GCN", "GIN", "GPS", "IDGNN", "PPGN", "GatedGCN", "Graphormer", "LaplacianTransformer", "NestedGIN"]
