"""Check that a model sees graphs and not their accidents: node order, basis of the points, the rest of the batch."""

from __future__ import annotations

from pointset.testing.asserting import TOLERANCE, assert_invariant
from pointset.testing.changes import random_rotation, reordered_graph, reordered_nodes, rotated_in_eigenspaces
from pointset.testing.measuring import Change, Measurement, Symmetry, measure_invariance
from pointset.testing.rows import InvarianceError

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
