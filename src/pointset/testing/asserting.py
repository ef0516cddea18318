"""Raise where a model's output depends on more than the graph (:func:`assert_invariant`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from pointset.errors import SpecError
from pointset.testing.measuring import Observation, as_points, largest_output, observations
from pointset.testing.rows import InvarianceError, RowsOfGraphs, at_rest

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}  # relative to the largest output


def assert_invariant(
    model: nn.Module, graphs: Sequence[Any], *, tolerance: float | None = None, seed: int = 0, repeats: int = 2
) -> None:
    """Raise where the model's output depends on more than the graph.

    Checked, each with ``repeats`` random draws: another order of the nodes; R ∈ O(r), reflections included, applied
    to the points; another basis inside each eigenspace (signs where it has one dimension); each graph alone instead of
    in the batch; another order of the batch. The model is put into evaluation mode and back.

    Args:
        model: a :class:`pointset.PointModel`, or any module that takes a :class:`pointset.PointBatch` and gives a row
            for each graph or for each node. R ∈ O(r) needs the coordinates, so it is tried where the model has a module
            :class:`~pointset.encoders.inputs.Coordinates`.
        graphs: graphs of any accepted kind, or point sets.
        tolerance: largest difference, relative to the largest output of all graphs; by default 1e-10 in float64 and
            1e-5 in float32.
        seed: of the random draws.
        repeats: number of random draws.

    Raises:
        SpecError: there are no graphs.
        InvarianceError: which change mattered, for which graph, and by how much.

    Example:
        >>> import networkx as nx, pointset
        >>> model = pointset.PointModel.from_preset("pst", dim=8, layers=2).double()
        >>> pointset.testing.assert_invariant(model, [nx.cycle_graph(6), nx.hypercube_graph(3)])
    """
    points = as_points(model, graphs)
    if not points:
        raise SpecError("got no graphs; expected one at least, as nothing is checked without")
    dtype = next((p.dtype for p in model.parameters()), torch.float64)
    allowed = TOLERANCE.get(dtype, 1e-5) if tolerance is None else tolerance
    with at_rest(model):
        for observation in observations(model, points, seed=seed, repeats=repeats, rows=RowsOfGraphs(model)):
            _check(observation, allowed)


def _check(observation: Observation, allowed: float) -> None:
    scale = largest_output(observation.before)
    for position, difference in enumerate(observation.differences):
        relative = difference / scale
        if not relative <= allowed and observation.before[position].numel():  # also where it is NaN
            raise InvarianceError(
                f"{observation.symmetry} changed the output for graph {position} by {relative:.1e} of the largest "
                f"output {scale:.3g}; allowed is {allowed:.0e}"
            )
