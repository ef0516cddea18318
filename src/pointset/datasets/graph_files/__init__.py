"""Graphs in files: graph6, sparse6, GraphML, edge lists, PyG, folders (:func:`read_graph_file`)."""

from pointset.datasets.graph_files.formats import GraphRecord as GraphRecord
from pointset.datasets.graph_files.formats import read_graph_file as read_graph_file
from pointset.datasets.graph_files.formats import write_graph_file as write_graph_file
