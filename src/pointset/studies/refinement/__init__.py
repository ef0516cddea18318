"""The Weisfeiler–Leman tests and the bound of PST: exact references for what a model can tell apart at most.

All graphs of one call are refined together, so that colours can be compared between them::

    from pointset.studies.families import rook, shrikhande
    from pointset.studies.refinement import refine_pairs

    refinement = refine_pairs([rook(4), shrikhande()])
    refinement.same(0, 1)  # True: 2-FWL cannot tell the two apart
"""

from pointset.studies.refinement.colours import Refinement
from pointset.studies.refinement.marked import same_when_marked
from pointset.studies.refinement.nodes import refine_nodes
from pointset.studies.refinement.pairs import refine_pairs
from pointset.studies.refinement.points import PointRefinement, refine_points
from pointset.studies.refinement.tuples import refine_tuples

__all__ = [
    "PointRefinement",
    "Refinement",
    "refine_nodes",
    "refine_pairs",
    "refine_points",
    "refine_tuples",
    "same_when_marked",
]
