"""What the methods can and cannot do, as experiments that anyone can run.

- :mod:`pointset.paper.families`: the graphs on which expressivity is decided (CSL, rook, Shrikhande, CFI, …)
- :mod:`pointset.paper.refinement`: 1-WL, 2-FWL (= 3-WL), k-WL and the bound of PST, exact
- :mod:`pointset.paper.theorems`: every statement of the paper (``pointset express theorems``)
- :mod:`pointset.paper.brec`: 400 hard pairs of graphs (``pointset express brec``)
- :mod:`pointset.paper.trained`: what a model counts and measures (``pointset express counting`` and ``distances``)
"""
