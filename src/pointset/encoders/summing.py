"""PST whose sums over points are sums: equation (4) as it is printed, for tasks that count (:class:`SummingPST`).

The released model, and after it the other presets, scale the sums over n points by n^-0.925, which keeps values alike
in small and large graphs. To count, such a model has to find n and undo the factor, and graphs of different size pull
its weights in different directions. Here the factor is the same for all graphs, and scalars are bounded instead of
normalised, so that their size is not lost on the way.

Attention begins still larger than in the other presets (:func:`begin_in_sight`).
"""

from __future__ import annotations

import torch

from pointset.encoders.layers import LayerStack, PairMLP, PointState, ScalarBound, VectorBound, begin_in_sight
from pointset.encoders.pst import PSTLayer

_FIRST_SCALARS = 0.01
_LONGEST_VECTOR = 10.0  # also the products of long vectors are counts
_SUM_FACTOR = 1 / 16  # of the order of one over the number of points
_ATTENTION_GAIN = 3.0  # what few neighbours give is to be seen among all points
_SCALAR_GAIN = 0.1  # at the beginning the scalars of all points are alike, and say nothing of a pair


class SummingPSTLayer(PSTLayer):
    """A layer of PST with Σ_j Atten_ij s'_j / 16 and Σ_j Atten_ij v'_j / 16, whose scalars keep their size."""

    def __init__(self, channels: int, *, last: bool = False):
        super().__init__(channels, last=last)
        self.norm_s, self.bound_v = ScalarBound(), VectorBound(_LONGEST_VECTOR)

    def sum_factor(self, nodes: int) -> float:
        """The same for every n."""
        return _SUM_FACTOR


class SummingPST(LayerStack):
    """The Point Set Transformer for counting."""

    def __init__(self, channels: int, layers: int):
        super().__init__(SummingPSTLayer, channels, layers)
        begin_in_sight(self, attention=_ATTENTION_GAIN)
        with torch.no_grad():
            for part in self.modules():
                if isinstance(part, PairMLP):
                    part.weight1[:, :channels].mul_(_SCALAR_GAIN)

    def forward(self, state: PointState) -> PointState:
        """State → state; the first scalars are small beside what the layers add."""
        return super().forward(PointState(_FIRST_SCALARS * state.s, state.v))
