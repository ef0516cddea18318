"""Structural encodings, under the name that users import: see :mod:`pointset.points.encodings`."""

from __future__ import annotations

from pointset.points.encodings import (
    ENCODINGS,
    adjacency_power,
    degree,
    heat_kernel,
    pseudoinverse,
    random_walk,
    resistance_distance,
    shortest_path,
    stable_laplacian,
    triangles,
)

__all__ = [
    "ENCODINGS",
    "adjacency_power",
    "degree",
    "heat_kernel",
    "pseudoinverse",
    "random_walk",
    "resistance_distance",
    "shortest_path",
    "stable_laplacian",
    "triangles",
]
