"""Check that a model sees graphs and not their accidents: node order, basis of the points, the rest of the batch.

And that a small change of the edge weights, which splits repeated eigenvalues, changes little.
"""

from __future__ import annotations

from pointset.testing.stability import SIZES, Stability, measure_stability
from pointset.testing.symmetry import (
    TOLERANCE,
    Change,
    InvarianceError,
    Measurement,
    Symmetry,
    assert_invariant,
    measure_invariance,
    random_rotation,
    reordered_graph,
    reordered_nodes,
    rotated_in_eigenspaces,
)

__all__ = [
    "SIZES",
    "TOLERANCE",
    "Change",
    "InvarianceError",
    "Measurement",
    "Stability",
    "Symmetry",
    "assert_invariant",
    "measure_invariance",
    "measure_stability",
    "random_rotation",
    "reordered_graph",
    "reordered_nodes",
    "rotated_in_eigenspaces",
]
