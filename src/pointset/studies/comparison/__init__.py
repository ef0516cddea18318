"""Models on the same data, split, loop and metric, at the same number of parameters (``pointset compare``).

- :mod:`pointset.studies.comparison.matching`: the width at which a model has so many parameters
- :mod:`pointset.studies.comparison.cost`: time and memory of an epoch, measured side by side
- :mod:`pointset.studies.comparison.growing`: time and memory of a training step against the size of graphs
- :mod:`pointset.studies.comparison.comparing`: every model trained, in one record
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy_names import on_first_use

if TYPE_CHECKING:
    from pointset.studies.comparison.comparing import compare as compare
    from pointset.studies.comparison.cost import Cost as Cost
    from pointset.studies.comparison.cost import measure_cost as measure_cost
    from pointset.studies.comparison.growing import Growth as Growth
    from pointset.studies.comparison.growing import growth as growth
    from pointset.studies.comparison.matching import matched as matched
    from pointset.studies.comparison.records import Comparison as Comparison

_HOMES = {
    "compare": "comparing",
    "Comparison": "records",
    "Cost": "cost",
    "measure_cost": "cost",
    "Growth": "growing",
    "growth": "growing",
    "matched": "matching",
}
__all__ = list(_HOMES)

__getattr__ = on_first_use(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
