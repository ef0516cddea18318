"""The learned eigenvalue functions f (:func:`function_figure`)."""

from __future__ import annotations

import numpy as np

from pointset.reports.run_pages.axis import Axis, Floats
from pointset.reports.run_pages.chart import Chart
from pointset.reports.run_pages.figure import Figure
from pointset.reports.run_pages.forms import FunctionsForm
from pointset.reports.run_pages.svg import add, short
from pointset.reports.run_pages.words import count

_MOST = 8  # channels that can be told apart
_MOST_GROUPS, _MOST_DOTS = 40, 400


def function_figure(functions: FunctionsForm) -> tuple[Figure, list[tuple[str, str]]] | None:
    """f_i(λ) of some channels i over the eigenvalues λ of an example graph, and the legend (channel, style)."""
    eigenvalues = np.asarray(functions.eigenvalues, dtype=np.float64)
    order = np.argsort(eigenvalues, kind="stable")
    eigenvalues = eigenvalues[order]
    values = np.asarray(functions.values, dtype=np.float64).reshape(len(order), len(functions.channels))[order][
        :, :_MOST
    ]
    if not values.size:
        return None
    x, y = Axis.around([eigenvalues], "eigenvalue λ"), Axis.around([values], "f(λ)")
    shown = count(values.shape[1], "channel")
    chart = Chart(x, y, f"Eigenvalue functions of {shown} over {count(len(order), 'eigenvalue')}", height=280)
    legend = [(f"channel {channel}", f"c{i}") for i, channel in enumerate(functions.channels[:_MOST])]
    some = slice(None, None, 1 + len(order) // _MOST_DOTS)
    for column, (_, style) in enumerate(legend):
        chart.dots(eigenvalues[some], values[some, column], f"{style} faint")
    for column, (_, style) in enumerate(legend):
        chart.line(*_smoothed(eigenvalues, values[:, column]), style)
    _draw_rug(chart, eigenvalues[some])
    matrix = functions.matrix.replace("_", " ")
    caption = (
        f"What {shown} make of the eigenvalues of the {matrix or 'matrix'}: a dot for each eigenvalue of some test "
        "graphs (strokes at the bottom), a line for their local mean. Where f(λ) is far from zero, eigenvectors with "
        "that eigenvalue weigh much in the coordinates of that channel; dots of one channel scatter because f sees all "
        "eigenvalues of a graph. Without learning it would be f(λ) = √λ."
    )
    return Figure(chart.svg(), "", caption), legend


def _smoothed(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Means over up to 40 groups of neighbouring eigenvalues; of a few eigenvalues the numbers themselves."""
    known = np.isfinite(x) & np.isfinite(y)
    groups = np.array_split(np.flatnonzero(known), min(_MOST_GROUPS, max(int(known.sum()), 1)))
    means = [(x[group].mean(), y[group].mean()) for group in groups if len(group)]
    return np.array([mean[0] for mean in means]), np.array([mean[1] for mean in means])


def _draw_rug(chart: Chart, eigenvalues: Floats) -> None:
    left, right, _, bottom = chart.place
    across = left + chart.x.shares(eigenvalues) * (right - left)
    path = "".join(f"M{short(a)} {short(bottom)}v-7" for a in across[np.isfinite(across)].tolist())
    add(chart.root, "path", d=path, class_="rug")
