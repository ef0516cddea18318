"""Learning on graphs without message passing: a graph becomes a set of points, losslessly, and back.

>>> import networkx as nx, pointset
>>> points = pointset.to_points(nx.karate_club_graph())  # graph → points
>>> graph = pointset.to_graph(points)  # points → the same graph
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use
from pointset.machine import VERSION

if TYPE_CHECKING:  # what a type checker and a reader see; at run time each name is loaded on first use
    from pointset import cluster as cluster
    from pointset import datasets as datasets
    from pointset import encodings as encodings
    from pointset import errors as errors
    from pointset import models as models
    from pointset import testing as testing
    from pointset.datasets.loading import register_dataset as register_dataset
    from pointset.encoders.batch import PointBatch as PointBatch
    from pointset.encoders.batch import collate as collate
    from pointset.encoders.loader import PointLoader as PointLoader
    from pointset.encoders.model import PointModel as PointModel
    from pointset.encoders.native import torch_path as torch_path
    from pointset.metrics import register_metric as register_metric
    from pointset.points.convert import to_points as to_points
    from pointset.points.convert import to_points_many as to_points_many
    from pointset.points.graphs import GraphArrays as GraphArrays
    from pointset.points.inverse import to_graph as to_graph
    from pointset.points.point_set import PointSet as PointSet
    from pointset.points.point_set import PointSets as PointSets
    from pointset.points.same_graph import align as align
    from pointset.points.same_graph import is_same_graph as is_same_graph
    from pointset.points.store import PointStore as PointStore
    from pointset.points.transforms import AddEncoding as AddEncoding
    from pointset.points.transforms import ToPoints as ToPoints
    from pointset.prediction.predictor import load as load
    from pointset.registry import register_encoder as register_encoder
    from pointset.runs.recipe_files import read_recipe as read_recipe
    from pointset.specs import Categories as Categories
    from pointset.specs import Reals as Reals
    from pointset.training.run import train as train
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
    __all__ += ["__version__"]

__version__ = VERSION
