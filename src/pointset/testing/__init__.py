"""Check that a model sees graphs and not their accidents: node order, basis of the points, the rest of the batch."""

from __future__ import annotations

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
    "TOLERANCE",
    "Change",
    "InvarianceError",
    "Measurement",
    "Symmetry",
    "assert_invariant",
    "measure_invariance",
    "random_rotation",
    "reordered_graph",
    "reordered_nodes",
    "rotated_in_eigenspaces",
]
