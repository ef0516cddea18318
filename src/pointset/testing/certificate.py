"""Every symmetry of a trained model measured and judged, in its own precision and in float64 (:func:`certify`).

In float32 rounding hides small violations and cannot be told from them. In float64 the same weights leave nothing of
rounding, so that what is left there is the structure's own fault.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from pointset.encoders.model import PointModel
from pointset.points.graphs import Graph
from pointset.progress import progress_bar
from pointset.testing.measuring import Measurement, Symmetry, measure_invariance
from pointset.testing.rows import RowsOfGraphs

ALLOWED = {"float32": 1e-4, "float64": 1e-8}  # of the largest output
_BATCH_SIZE = 64  # graphs
_BATCH_BYTES = 256 * 2**20  # of activations; large graphs come in smaller batches


class Check(NamedTuple):
    """One symmetry in one precision."""

    precision: str
    tolerance: float
    measured: Measurement

    @property
    def passed(self) -> bool:
        """Whether no graph's output changed by more than is allowed."""
        return self.measured.largest <= self.tolerance

    @property
    def excess(self) -> float:
        """How often the largest change holds what is allowed: above 1 is a violation."""
        return self.measured.largest / self.tolerance


def certify(
    model: PointModel,
    graphs: Sequence[Graph],
    *,
    seed: int = 0,
    repeats: int = 3,
    allowed: Mapping[str, float] = ALLOWED,
    progress: bool | None = None,
) -> list[Check]:
    """A check for each symmetry and precision. The model is not changed: float64 is computed with a copy.

    Args:
        model: trained, in float32 or float64.
        graphs: with the features that it takes.
        seed: of the random draws, which are the same in both precisions.
        repeats: number of random draws of each change.
        allowed: by precision, the largest difference relative to the largest output.
        progress: whether to show a bar; by default where there is a terminal.
    """
    own = next(model.parameters()).dtype
    computed = len(graphs) * (2 + repeats * (len(Symmetry) - 1))  # as given, alone; then the draws
    # Two batches at least, so that another order also means other graphs beside each.
    batch_size = max(2, min(_BATCH_SIZE, (len(graphs) + 1) // 2))
    checks: list[Check] = []
    precisions = list(dict.fromkeys((own, torch.float64)))
    with progress_bar("Checking", computed * len(precisions), show=progress) as advance:
        for dtype in precisions:
            tried = model if dtype is own else copy.deepcopy(model).to(dtype)
            rows = RowsOfGraphs(tried, batch_size=batch_size, batch_bytes=_BATCH_BYTES, advance=advance)
            name = str(dtype).removeprefix("torch.")
            found = measure_invariance(tried, graphs, seed=seed, repeats=repeats, rows=rows)
            checks += [Check(name, allowed[name], one) for one in found]
    return checks
