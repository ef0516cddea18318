"""Graphs in files: graph6, sparse6, GraphML, edge lists, PyG, folders (:func:`read_graph_file`).

Light to import: the command line refuses an unknown suffix before it waits for torch.
"""

from pointset.datasets.graph_files.formats import GraphRecord, read_graph_file, write_graph_file

__all__ = ["GraphRecord", "read_graph_file", "write_graph_file"]
