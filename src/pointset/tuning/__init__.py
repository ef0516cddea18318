"""Searching the hyperparameters of a recipe with Optuna (:func:`tune`); ``pointset tune`` on the command line.

- :mod:`.ranges`, :mod:`.space`: the paper's seven hyperparameters, and what is searched for a recipe
- :mod:`.study`, :mod:`.storage`, :mod:`.sampler`: the study in its database, shared by any number of processes
- :mod:`.queue`, :mod:`.presence`: trials of processes that ended in the middle are taken up again
- :mod:`.objective`, :mod:`.searching`: one trial, and all of them
- :mod:`.records`, :mod:`.outcome`: what came out
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:
    from pointset.tuning.ranges import Range as Range
    from pointset.tuning.result import TuningResult as TuningResult
    from pointset.tuning.search import tune as tune

_HOME = {
    "tune": "pointset.tuning.search",
    "TuningResult": "pointset.tuning.result",
    "Range": "pointset.tuning.ranges",
}
__all__ = ["Range", "TuningResult", "tune"]

if not TYPE_CHECKING:
    __getattr__ = on_first_use(__name__, _HOME)
