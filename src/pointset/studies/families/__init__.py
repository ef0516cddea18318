"""Graph families on which expressivity is decided: networkx graphs with nodes 0…n−1, and PyG Data with a mark.

``FAMILIES`` lists them by name, with a description of each::

    from pointset.studies.families import FAMILIES, cfi, rook

    rook(4)  # a networkx graph with 16 nodes
    cfi(rook(2), twisted=True)
    for family in FAMILIES.values():
        print(family.name, "–", family.description)
"""

from pointset.studies.families.cai_fuerer_immerman import cfi
from pointset.studies.families.catalogue import strongly_regular
from pointset.studies.families.cycles import circular_skip_links, csl_classes, cycle, two_cycles
from pointset.studies.families.marks import marked
from pointset.studies.families.paley_graphs import paley
from pointset.studies.families.registry import FAMILIES, Family
from pointset.studies.families.regular import hypercube, random_regular
from pointset.studies.families.strongly_regular_graphs import (
    Parameters,
    chang,
    clebsch,
    hoffman_singleton,
    latin_square,
    parameters,
    petersen,
    rook,
    schlaefli,
    seidel_switched,
    shrikhande,
    triangular,
)

__all__ = [
    "FAMILIES",
    "Family",
    "Parameters",
    "cfi",
    "chang",
    "circular_skip_links",
    "clebsch",
    "csl_classes",
    "cycle",
    "hoffman_singleton",
    "hypercube",
    "latin_square",
    "marked",
    "paley",
    "parameters",
    "petersen",
    "random_regular",
    "rook",
    "schlaefli",
    "seidel_switched",
    "shrikhande",
    "strongly_regular",
    "triangular",
    "two_cycles",
]
