"""Graph ⇄ points: matrices, eigenpairs, the way back, comparing graphs, files.

>>> from pointset.points import to_graph, to_points
>>> graph = to_graph(to_points((3, [(0, 1), (1, 2)])))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use
from pointset.points.convert import to_points, to_points_many
from pointset.points.graphs import Features, FlatFeatures, Graph, GraphArrays, WeightKind
from pointset.points.inputs import read_graph, read_graphs
from pointset.points.inverse import to_graph
from pointset.points.magnetic import MagneticPoints, magnetic_points
from pointset.points.matrices import MATRICES, matrix_named
from pointset.points.point_files import read_points, write_points
from pointset.points.point_set import PointSet, PointSets
from pointset.points.same_graph import SameGraph, align, is_same_graph
from pointset.points.store import PointStore

if TYPE_CHECKING:  # PyG takes 3 s to import, and only the transforms need it
    from pointset.points.transforms import AddEncoding, ToPoints
else:
    __getattr__, __dir__, _ = on_first_use(__name__)

__all__ = [
    "MATRICES",
    "AddEncoding",
    "Features",
    "FlatFeatures",
    "Graph",
    "GraphArrays",
    "MagneticPoints",
    "PointSet",
    "PointSets",
    "PointStore",
    "SameGraph",
    "ToPoints",
    "WeightKind",
    "align",
    "is_same_graph",
    "magnetic_points",
    "matrix_named",
    "read_graph",
    "read_graphs",
    "read_points",
    "to_graph",
    "to_points",
    "to_points_many",
    "write_points",
]
