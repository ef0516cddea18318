"""What a report shows of ``examples.json``: the graphs predicted worst, eigenvalue functions, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pointset.arrays import Floats, Integers
from pointset.reports.charts import Axis, Chart, Figure
from pointset.reports.layout import adjacency_of, node_gap, place_nodes, smooth_values, too_many
from pointset.reports.molecules import Contributions, contribution_legend, draw_molecule
from pointset.reports.palette import BLUE, RED, as_hex, coloured, is_dark
from pointset.reports.svg import Element, add, drawing, finished, picture_of, short
from pointset.runs.records import (
    AtomContributions,
    Attention,
    EigenvalueFunctions,
    ExampleGraph,
    Predictions,
    RunRecord,
    TargetValue,
    WorstGraph,
)
from pointset.runs.result import RunResult
from pointset.text import clipped, counted, fixed, number, with_interval

_MOST_GRAPHS, _MOST_TYPICAL, _MOST_VALUES, _LONGEST_SMILES = 12, 3, 3, 90
_NEGLIGIBLE = 0.02  # share of a prediction below which what is left over is not worth a word
_MOST_CHANNELS, _MOST_GROUPS, _MOST_DOTS = 8, 40, 400  # of the eigenvalue functions
_MOST_LAYERS, _MOST_PIXELS = 12, 128  # of the attention
_SIZE, _POINTER = 200.0, 14.0  # units of a matrix of attention: the whole drawing, the arrow at its left
_MOST_NODES = 300  # of a graph that is drawn; beyond it is a blot at this size
_WIDTH, _HEIGHT, _MARGIN = 300.0, 220.0, 16.0  # units of a drawing of a graph
_SMALLEST, _LARGEST, _LABELLED = 2.0, 11.0, 6.0  # radii of nodes, and from which on a label fits
_LONGEST_EDGE = 46.0  # units: two nodes do not fill the whole page
_LONGEST_LABEL = 3  # letters


class WorstGraphCard(NamedTuple):
    """A graph on the page; ``svg`` is markup, everything else is plain text."""

    svg: str
    name: str
    facts: str
    values: list[tuple[str, str, str]]  # target, true, predicted
    left_out: int  # values that are not shown
    smiles: str
    made_of: str = ""  # how the prediction is made up of contributions


class WorstSection(NamedTuple):
    """The graphs that were predicted worst, and what their colours mean."""

    intro: str
    cards: list[WorstGraphCard]
    typical: list[WorstGraphCard]  # of about the median error
    legend: list[tuple[str, str]]  # label and colour of nodes
    scale: str  # markup: the colours of contributions


def worst_section(run: RunRecord, noun: str) -> WorstSection | None:
    """Molecules are drawn as chemists draw them, with what each atom contributes where that is known."""
    worst = list(run.examples.worst[:_MOST_GRAPHS])
    if not worst:
        return None
    shown = [*worst, *run.examples.typical[:_MOST_TYPICAL]]
    colours, legend = _label_colours([one.graph for one in shown])
    largest = _largest_contribution(shown)
    molecules = [_molecule(one, largest) for one in shown]
    units = [] if run.result is None or not run.result.is_regression else list(run.result.units.values())
    unit = (units[0] or "") if len(units) == 1 and noun == "molecule" else None
    cards = [
        _card(one, molecule or _draw_graph(one.graph, colour, _described(one, noun)), run, noun, unit)
        for one, molecule, colour in zip(shown, molecules, colours, strict=True)
    ]
    intro, scale = _worst_intro(run.result, noun, in_units=unit is not None), ""
    if largest and any(molecules):
        scale = contribution_legend(largest, unit or "")
        intro += " Colours are what each atom and bond adds to the prediction: red raises it, blue lowers it."
        if run.result is not None and not run.result.is_regression:
            intro += " They are in units of the logit (log-odds)."
    return WorstSection(intro, cards[: len(worst)], cards[len(worst) :], legend if not all(molecules) else [], scale)


def _made_of(given: AtomContributions | None, result: RunResult | None) -> str:
    """``logS −1.6 = −2.9 for average atoms, +0.57 by these, +0.72 by the molecule as a whole``; empty where not known.

    The last is what is left: descriptors of the whole molecule that cannot be divided among its atoms.
    """
    if given is None or given.output is None or given.baseline is None:
        return ""
    atoms = sum(value for value in (*given.atoms, *(bond[2] for bond in given.bonds)) if value is not None)
    rest = given.output - given.baseline - atoms
    parts = [f"{number(given.baseline, 3)} for average atoms", f"{_signed(atoms)} by these"]
    if abs(rest) > _NEGLIGIBLE * (abs(atoms) + abs(rest)):
        parts.append(f"{_signed(rest)} by the molecule as a whole")
    name = given.target if result is not None and len(result.classes or result.units) > 1 else ""
    if result is not None and not result.is_regression:
        name = f"logit of {given.target}:" if given.target else "logit:"
    return f"{name} {number(given.output, 3)} = {', '.join(parts)}".strip()


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value, 2)}"


def _largest_contribution(worst: Sequence[WorstGraph]) -> float:
    """One scale for all molecules of the page; 0 without contributions."""
    known = [one.contributions for one in worst if one.contributions is not None]
    numbers = [value for one in known for value in (*one.atoms, *(bond[2] for bond in one.bonds))]
    return max((abs(value) for value in numbers if value is not None and np.isfinite(value)), default=0.0)


def _molecule(one: WorstGraph, largest: float) -> str | None:
    """None where the SMILES is missing or cannot be drawn."""
    if not one.graph.smiles:
        return None
    given = one.contributions
    description = f"Drawing of the molecule {clipped(one.graph.smiles, _LONGEST_SMILES)}"
    if given is not None and largest:
        contributions = Contributions(
            [0.0 if value is None else value for value in given.atoms],
            {(a, b): 0.0 if value is None else value for a, b, value in given.bonds},
            largest,
        )
        drawn = draw_molecule(given.read_as or one.graph.smiles, contributions, description=description)
        if drawn is not None:
            return drawn
    return draw_molecule(one.graph.smiles, description=description)


def _described(one: WorstGraph, noun: str) -> str:
    return f"Drawing of {_named(one, noun)}: {_size(one.graph)}"


def _named(one: WorstGraph, noun: str) -> str:
    name = one.graph.name or (f"graph {one.position}" if one.position is not None else "graph")
    return f"{noun} {one.position}" if noun != "graph" and one.position is not None and one.graph.smiles else name


def _size(graph: ExampleGraph) -> str:
    return f"{counted(graph.num_nodes, 'node')}, {counted(len(graph.edges), 'edge')}"


def _worst_intro(result: RunResult | None, noun: str, *, in_units: bool) -> str:
    """What the error of a graph is."""
    text = f"The {noun}s of the test split that were predicted worst."
    if result is None or in_units:
        return text
    if result.is_regression:
        text += " Their error is the mean distance to the truth, in standard deviations of a target that is scaled."
    else:
        text += " Their error is the probability that was given to wrong answers."
    return text + (" Values are those of the worst node." if result.level == "node" else "")


def _card(one: WorstGraph, svg: str, run: RunRecord, noun: str, unit: str | None) -> WorstGraphCard:
    """``unit`` is that of the only target of a regression, in which errors then are."""
    graph, predictions = one.graph, run.predictions
    error = "" if one.error is None else f"error {number(one.error, 3)}"
    if unit is not None and len(one.values) == 1 and _difference(one.values[0]) > 0:
        error = f"error {number(_difference(one.values[0]), 3)} {unit}".strip()
    row = _row_of(one, predictions)
    near = ""
    if predictions is not None and row is not None and predictions.similarity is not None:
        near = f"similarity to training {fixed(float(predictions.similarity[row]), 2)}"
        if predictions.in_domain is not None and predictions.in_domain[row] == 0:
            near += ", outside the domain"
    values = sorted(one.values, key=_difference, reverse=True)[:_MOST_VALUES]
    return WorstGraphCard(
        svg=svg,
        name=clipped(_named(one, noun), 60),
        facts=", ".join(filter(None, (error, near or (_size(graph) if noun == "graph" else "")))),
        values=[(value.target, _text(value.true), _with_interval(value, predictions, row)) for value in values],
        left_out=len(one.values) - len(values),
        smiles=clipped(graph.smiles or "", _LONGEST_SMILES),
        made_of=_made_of(one.contributions, run.result),
    )


def _row_of(one: WorstGraph, predictions: Predictions | None) -> int | None:
    """The row of predictions.csv; None of nodes, which have many."""
    if predictions is None or one.position is None:
        return None
    found = np.flatnonzero(predictions.graphs == one.position)
    return int(found[0]) if len(found) == 1 else None


def _with_interval(value: TargetValue, predictions: Predictions | None, row: int | None) -> str:
    if predictions is None or row is None or value.target not in predictions.intervals:
        return _text(value.predicted)
    lower, upper = (float(end[row]) for end in predictions.intervals[value.target])
    return (
        with_interval(value.predicted, lower, upper) if isinstance(value.predicted, float) else _text(value.predicted)
    )


def _difference(value: TargetValue) -> float:
    if isinstance(value.true, float) and isinstance(value.predicted, float):
        difference = abs(value.true - value.predicted)
        return difference if difference == difference else -1.0  # NaN comes last
    return 0.0


def _text(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value)


def function_figure(functions: EigenvalueFunctions) -> Figure | None:
    """f_i(λ) of some channels i over the eigenvalues λ of an example graph."""
    eigenvalues = np.asarray(functions.eigenvalues, dtype=np.float64)
    order = np.argsort(eigenvalues, kind="stable")
    eigenvalues = eigenvalues[order]
    values = np.asarray(functions.values, dtype=np.float64).reshape(len(order), len(functions.channels))
    values = values[order, :_MOST_CHANNELS]
    if not values.size:
        return None
    x, y = Axis.around([eigenvalues], "eigenvalue λ"), Axis.around([values], "f(λ)")
    shown = counted(values.shape[1], "channel")
    chart = Chart(x, y, f"Eigenvalue functions of {shown} over {counted(len(order), 'eigenvalue')}", height=280)
    some = slice(None, None, 1 + len(order) // _MOST_DOTS)
    channels = functions.channels[:_MOST_CHANNELS]
    for column in range(len(channels)):
        chart.dots(eigenvalues[some], values[some, column], f"c{column} faint")
    for column, channel in enumerate(channels):
        chart.line(*_smoothed(eigenvalues, values[:, column]), f"c{column}", f"channel {channel}")
    chart.rug(eigenvalues[some])
    matrix = functions.matrix.replace("_", " ")
    caption = (
        f"What {shown} make of the eigenvalues of the {matrix or 'matrix'}: a dot for each eigenvalue of some test "
        "graphs (strokes at the bottom), a line for their local mean. Where f(λ) is far from zero, eigenvectors with "
        "that eigenvalue weigh much in the coordinates of that channel; dots of one channel scatter because f sees all "
        "eigenvalues of a graph. Without learning it would be f(λ) = √λ."
    )
    return chart.figure("", caption)


def _smoothed(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Means over up to 40 groups of neighbouring eigenvalues; of a few eigenvalues the numbers themselves."""
    known = np.isfinite(x) & np.isfinite(y)
    groups = np.array_split(np.flatnonzero(known), min(_MOST_GROUPS, max(int(known.sum()), 1)))
    means = [(x[group].mean(), y[group].mean()) for group in groups if len(group)]
    return np.array([mean[0] for mean in means]), np.array([mean[1] for mean in means])


def attention_figures(attention: Attention) -> tuple[list[Figure], list[Figure], list[tuple[str, str]]]:
    """The graph as it is and as the node sees it, a matrix for each layer, and the legend of the labels."""
    graph, node = attention.graph, attention.node
    matrices = [np.nan_to_num(np.abs(np.asarray(layer, dtype=np.float64))) for layer in attention.layers]
    if not matrices or graph.num_nodes > _MOST_NODES:
        return [], [], []
    positions = place_nodes(_adjacency(graph))
    order: Integers = np.argsort(smooth_values(_adjacency(graph), positions), kind="stable")  # neighbours are near
    ((colours,), legend) = _label_colours([graph])
    name = graph.name or "the example graph"
    plain = _draw_graph(graph, colours, f"Drawing of {name}", positions=positions, ringed=node)
    row = np.mean([_scaled(matrix)[node] for matrix in matrices], axis=0)
    red = [RED] * graph.num_nodes
    text = f"{name}, coloured by the attention of node {node}"
    seen = _draw_graph(graph, red, text, positions=positions, ringed=node, strengths=row)
    drawings = [
        Figure(plain, "The graph", f"{name}: {counted(graph.num_nodes, 'node')}. Node {node} has a ring."),
        Figure(seen, f"What node {node} attends to", "The stronger the colour, the more, on average over the layers."),
    ]
    place = int(np.flatnonzero(order == node)[0])
    layers = [
        _matrix_figure(matrix[np.ix_(order, order)], index, place)
        for index, matrix in enumerate(matrices[:_MOST_LAYERS], start=1)
    ]
    return drawings, layers, legend


def _scaled(matrix: Floats) -> Floats:
    """Numbers 0…1 from the weakest to the strongest pair of nodes; the square root makes weak ones visible."""
    low, high = _range(matrix)
    return np.sqrt(np.clip((matrix - low) / ((high - low) or 1.0), 0.0, 1.0))


def _range(matrix: Floats) -> tuple[float, float]:
    """The weakest and the strongest attention of a node to another one."""
    pairs = matrix[~np.eye(len(matrix), dtype=np.bool_)]
    return (float(pairs.min()), float(pairs.max())) if len(pairs) else (0.0, 1.0)


def _matrix_figure(matrix: Floats, layer: int, place: int) -> Figure:
    n = len(matrix)
    root = drawing(_SIZE, _SIZE, f"Attention of layer {layer}, {n} by {n}", "matrix")
    inner = _SIZE - _POINTER
    href = picture_of(_pooled(_scaled(matrix)), RED)
    add(root, "rect", x=_POINTER, y=0.0, width=inner, height=inner, class_="matrix-back")
    size: dict[str, Any] = {"width": inner, "height": inner, "preserveAspectRatio": "none"}
    add(root, "image", x=_POINTER, y=0.0, href=href, class_="pixels", **size)
    add(root, "rect", x=_POINTER, y=0.0, width=inner, height=inner, class_="frame")
    middle = (place + 0.5) * inner / n
    add(root, "path", d=f"M3 {middle - 4:.1f}l8 4l-8 4z", class_="pointer")
    low, high = (number(end, 3) for end in _range(matrix))
    return Figure(finished(root), f"Layer {layer}", f"{low} to {high}")


def _pooled(matrix: Floats) -> Floats:
    """Not more than 128 rows: of larger matrices the strongest of each block."""
    starts = np.unique(np.linspace(0, len(matrix), min(len(matrix), _MOST_PIXELS), endpoint=False).astype(np.int64))
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(matrix, starts, axis=0), starts, axis=1))


def _label_colours(graphs: Sequence[ExampleGraph]) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """A colour for each node of each graph by its label, the same in all, and the legend (label, colour)."""
    labels = [graph.labels or [""] * graph.num_nodes for graph in graphs]
    names = sorted({label for one in labels for label in one})
    if names in ([], [""]):
        return [[BLUE] * graph.num_nodes for graph in graphs], []
    codes = [np.array([names.index(label) for label in one], dtype=np.int64) for one in labels]
    found = coloured(codes, dict(enumerate(names)))
    legend = [(label, as_hex(colour)) for label, colour in found.legend]
    return [[as_hex(colour) for colour in colours] for colours in found.colours], legend


def _draw_graph(
    graph: ExampleGraph,
    colours: Sequence[str],
    description: str,
    *,
    strengths: Floats | None = None,
    ringed: int | None = None,
    positions: Floats | None = None,
) -> str:
    """A graph as a drawing for the page.

    A node has as much of its colour as ``strengths`` (n,) says, 0…1, by default all; the node ``ringed`` is marked.
    """
    root = drawing(_WIDTH, _HEIGHT, description, "graph")
    if not 0 < graph.num_nodes <= _MOST_NODES:
        message = too_many(graph.num_nodes).replace("\n", " ")
        add(root, "text", message, x=_WIDTH / 2, y=_HEIGHT / 2, text_anchor="middle", class_="label")
        return finished(root)
    places = _on_page(place_nodes(_adjacency(graph)) if positions is None else positions)
    radius = float(np.clip(0.38 * node_gap(places), _SMALLEST, _LARGEST))
    _draw_edges(root, graph, places, radius)
    for node, (x, y) in enumerate(places.tolist()):
        strength = None if strengths is None else float(strengths[node])
        if strength is None:
            add(root, "circle", cx=x, cy=y, r=radius, fill=colours[node], class_="node")
        else:
            add(root, "circle", cx=x, cy=y, r=radius, class_="node-back")
            add(root, "circle", cx=x, cy=y, r=radius, fill=colours[node], fill_opacity=f"{strength:.2f}")
        if ringed == node:
            add(root, "circle", cx=x, cy=y, r=radius + 3.5, class_="node-ring")
        if graph.labels is not None and radius >= _LABELLED:
            on_page = strength is not None and strength < 0.6  # hardly coloured
            style = "on-page" if on_page else "on-dark" if is_dark(colours[node]) else "on-light"
            text = graph.labels[node].partition(" ")[0][:_LONGEST_LABEL]
            size = short(radius * {1: 1.1, 2: 0.95}.get(len(text), 0.75))
            place = {"x": x, "y": y + radius * 0.38, "text_anchor": "middle", "font_size": size}
            add(root, "text", text, class_=f"element {style}", **place)
    return finished(root)


def _draw_edges(root: Element, graph: ExampleGraph, places: Floats, radius: float) -> None:
    """Lines, and rings for self-loops."""
    lines = "".join(
        f"M{short(places[a, 0])} {short(places[a, 1])}L{short(places[b, 0])} {short(places[b, 1])}"
        for a, b in graph.edges
        if a != b
    )
    add(root, "path", d=lines, class_="edges", stroke_width=float(np.clip(radius / 4, 0.7, 1.8)))
    for node in sorted({a for a, b in graph.edges if a == b}):
        add(root, "circle", cx=places[node, 0], cy=places[node, 1], r=radius * 1.7, class_="loop")


def _adjacency(graph: ExampleGraph) -> Floats:
    return adjacency_of(graph.num_nodes, np.array(graph.edges, dtype=np.int64).reshape(-1, 2).T)


def _on_page(positions: Floats) -> Floats:
    """(n, 2) units, x to the right and y down, as large as fits and in the middle."""
    low, high = positions.min(0), positions.max(0)
    room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    scale = float(min((room / np.maximum(high - low, 1e-9)).min(), _LONGEST_EDGE))
    return np.asarray((positions - (low + high) / 2) * (scale, -scale) + (_WIDTH / 2, _HEIGHT / 2))
