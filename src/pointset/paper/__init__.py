"""The paper's experiments, and what methods can and cannot do; nothing but the command line imports it.

- :mod:`pointset.paper.tables`: the paper's tables, run here (``pointset reproduce``, ``pointset results``)
- :mod:`pointset.paper.theorems`: every statement of the paper as an experiment (``pointset express theorems``)
- :mod:`pointset.paper.comparison`, :mod:`~pointset.paper.cost`: models side by side (``pointset compare``)
- :mod:`pointset.paper.families`: the graphs on which expressivity is decided (CSL, rook, Shrikhande, CFI, …)
- :mod:`pointset.paper.refinement`, :mod:`~pointset.paper.point_refinement`: 1-WL, 2-FWL, k-WL and the bound of PST
- :mod:`pointset.paper.brec`, :mod:`~pointset.paper.siamese`: 400 hard pairs of graphs (``pointset express brec``)
- :mod:`pointset.paper.trained_counting`, :mod:`~pointset.paper.trained_distances`: what a trained model counts and
  measures (``pointset express counting`` and ``distances``)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:  # loaded on first use: most of it needs torch
    from pointset.paper.comparison import Comparison as Comparison
    from pointset.paper.comparison import compare as compare
    from pointset.paper.comparison import matched as matched
    from pointset.paper.cost import Cost as Cost
    from pointset.paper.cost import Growth as Growth
    from pointset.paper.cost import growth as growth
    from pointset.paper.cost import measure_cost as measure_cost
    from pointset.paper.families import FAMILIES as FAMILIES
    from pointset.paper.point_refinement import refine_points as refine_points
    from pointset.paper.refinement import Refinement as Refinement
    from pointset.paper.refinement import refine_nodes as refine_nodes
    from pointset.paper.refinement import refine_pairs as refine_pairs
    from pointset.paper.refinement import refine_tuples as refine_tuples
    from pointset.paper.refinement import same_when_marked as same_when_marked
    from pointset.paper.trained_counting import count_fresh as count_fresh
    from pointset.paper.trained_distances import measure_distances as measure_distances
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
