"""Searching the hyperparameters of a recipe with Optuna (:func:`tune`); ``pointset tune`` on the command line.

- :mod:`.ranges`: the paper's seven hyperparameters, and what is searched for a recipe
- :mod:`.search`, :mod:`.session`: from a recipe to all trials of its study
- :mod:`.study`: the study in its database, shared by any number of processes, some of which are killed
- :mod:`.result`: what was found, and the files it is written to
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:
    from pointset.tuning.ranges import Range as Range
    from pointset.tuning.result import TrialRecord as TrialRecord
    from pointset.tuning.result import TuningResult as TuningResult
    from pointset.tuning.search import tune as tune
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
