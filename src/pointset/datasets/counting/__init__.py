"""The counting benchmark: random graphs, exact counts of 13 substructures, and the paper's closed formulas."""

from pointset.datasets.counting.formulas import cycle_counts as cycle_counts
from pointset.datasets.counting.formulas import path_matrix as path_matrix
from pointset.datasets.counting.generator import counting_graphs as counting_graphs
from pointset.datasets.counting.substructures import SUBSTRUCTURES as SUBSTRUCTURES
from pointset.datasets.counting.substructures import count_many as count_many
from pointset.datasets.counting.substructures import count_substructures as count_substructures
