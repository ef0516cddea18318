"""Where the nodes of a graph are drawn, on a page, in a picture or in the terminal (:func:`place_nodes`).

The same graph always gives the same picture. :class:`Portrait` and :class:`Legend` are what a picture of several graphs
is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse.csgraph
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from pointset.arrays import Flags, Floats, Integers
from pointset.reports.palette import Colouring, coloured

if TYPE_CHECKING:
    from pointset.points.graphs import Graph


_BEND = 2.2  # radians: the longest shortest path is drawn as an arc of this angle, which uses the page better
_SMALL, _STARTS = 100, 60  # fewer for larger graphs, none beyond: small symmetric ones have many poor local optima
_STEPS, _MORE_STEPS = 60, 300  # of the majorisation from every start, and from the best result
_STILL = 1e-4  # it ends earlier when no node moves further than this in a step
_TOO_CLOSE = 0.12  # of a node to an edge that is not its own, in edge lengths
_ITERATIONS = 200  # of power methods, far more than the eye needs
_GAP = 1.0  # white space between components, in edge lengths
_ASPECT = 1.0  # width to height of the space for the drawing
_ROUND = 0.97  # ratio of the short to the long direction from which a drawing counts as round


class Portrait(NamedTuple):
    """One graph to be drawn, with what is written above it."""

    graph: Graph
    title: str
    caption: str = ""
    node_values: NDArray[Any] | None = None  # (n,) what colours the nodes: whole numbers are categories
    edge_values: NDArray[Any] | None = None  # (m,) whole numbers that make edges wider


class Legend(NamedTuple):
    """What colours of nodes and widths of edges mean."""

    nodes: str = ""
    edges: str = ""
    node_names: Mapping[int, str] | None = None  # of categories; by default their numbers
    edge_names: Mapping[int, str] | None = None


NO_LEGEND = Legend()
MOST_NODES = 1000  # of a graph that is drawn; beyond it is a blot


def too_many(nodes: int) -> str:
    """What is said instead of a drawing, on two lines."""
    return f"{nodes:,} nodes:\ntoo many to draw" if nodes else "no nodes"


def positions_of(graph: Graph) -> Floats:
    """(n, 2) where the nodes are drawn."""
    return place_nodes(adjacency_of(graph.num_nodes, graph.edges))


def adjacency_of(num_nodes: int, edges: Integers) -> Floats:
    """(n, n) ones where two nodes are joined by an edge of (2, m); without self-loops."""
    adjacency = np.zeros((num_nodes, num_nodes))
    first, second = edges[:, edges[0] != edges[1]]
    adjacency[first, second] = adjacency[second, first] = 1.0
    return adjacency


def node_gap(positions: Floats) -> float:
    """How far apart neighbours on the page are: a fifth of the nodes have less space. Infinity for a single node."""
    if len(positions) < 2:
        return np.inf
    nearest, _ = KDTree(positions).query(positions, k=[2])  # the first is the node itself
    return float(np.quantile(nearest, 0.2))


def colouring_of(portraits: Sequence[Portrait], names: Mapping[int, str] | None) -> Colouring:
    """Colours of all nodes; where any graph has no values, every node has the same colour and there is no legend."""
    given = [one.node_values for one in portraits if one.node_values is not None]
    if len(given) < len(portraits) or not given:
        plain = coloured([np.zeros(portrait.graph.num_nodes, dtype=np.int64) for portrait in portraits])
        return plain._replace(legend=[])
    return coloured(given, names)


def components(adjacency: Floats) -> list[Integers]:
    """The nodes of each connected component, the largest first."""
    count, label = scipy.sparse.csgraph.connected_components(adjacency != 0, directed=False)
    parts = [np.flatnonzero(label == index) for index in range(count)]
    return sorted(parts, key=lambda nodes: (-len(nodes), nodes[0]))


def place_nodes(adjacency: Floats) -> Floats:
    """Positions (n, 2): every component by stress majorisation, then all of them side by side."""
    parts = components(adjacency)
    n = len(adjacency)
    starts = _STARTS if n <= 20 else 20 * _STARTS // n if n <= _SMALL else 0
    boxes = [_upright(_least_stress(adjacency[np.ix_(nodes, nodes)], starts)) for nodes in parts]
    positions = np.zeros((len(adjacency), 2))
    for nodes, box, corner in zip(parts, boxes, _pack([box.max(0) for box in boxes]), strict=True):
        positions[nodes] = box + corner
    return positions


def smooth_values(adjacency: Floats, positions: Floats) -> Floats:
    """A number in (0, 1) for each node, close for neighbours: ranks in the Fiedler vector, component by component."""
    values = np.zeros(len(adjacency))
    start = 0
    for nodes in sorted(components(adjacency), key=lambda nodes: float(positions[nodes, 0].mean())):
        ranks = even_ranks(_fiedler_vector(adjacency[np.ix_(nodes, nodes)], positions[nodes, 0]))
        values[nodes] = (start + 0.5 + ranks) / len(adjacency)
        start += len(nodes)
    return values


def even_ranks(values: Floats) -> Floats:
    """Ranks 0…n−1; numbers that differ by rounding only share their mean rank."""
    scale = max(float(np.abs(values).max(initial=0.0)), np.finfo(np.float64).tiny)
    return np.asarray(rankdata(np.round(values / scale, 7), method="average") - 1, dtype=np.float64)


def _fiedler_vector(adjacency: Floats, along: Floats) -> Floats:
    """Of all eigenvectors to the smallest positive eigenvalue of D − |A|, the one nearest to ``along``.

    Inverse iteration from ``along`` finds just this one, and takes less time than all eigenvectors.
    """
    if len(along) == 1:
        return along
    vector = along - along.mean()
    weights = np.abs(adjacency)
    ridge = 1e-10 * weights.max() * np.eye(len(weights))  # keeps it invertible where weights differ by many orders
    smoother = np.linalg.inv(np.diag(weights.sum(0)) - weights + weights.mean() + ridge)
    for _ in range(_ITERATIONS):
        vector = smoother @ vector
        vector = (vector - vector.mean()) / max(float(np.abs(vector).max()), np.finfo(np.float64).tiny)
    return np.asarray(vector, dtype=np.float64)


def _least_stress(adjacency: Floats, random_starts: int) -> Floats:
    """Positions (n, 2) that minimise Σ (‖x_i − x_j‖ − d_ij)² / d_ij² (Gansner, Koren, North 2004), by SMACOF."""
    n = len(adjacency)
    if n < 3:
        return np.stack([np.arange(n, dtype=np.float64), np.zeros(n)], axis=1)
    hops = np.asarray(scipy.sparse.csgraph.shortest_path(adjacency != 0, directed=False, unweighted=True))
    radius = float(hops.max()) / _BEND
    wanted = 2 * radius * np.sin(hops / (2 * radius))  # the chord of an arc as long as the path
    weights = 1 / (wanted + np.eye(n)) ** 2 - np.eye(n)
    stiffness = np.diag(weights.sum(0)) - weights + 1 / n  # the constant removes the null space
    solver = np.asarray(np.linalg.inv(stiffness), dtype=np.float64)
    random = np.random.default_rng(0)
    starts = [_classical_scaling(wanted) + 0.01 * random.standard_normal((n, 2))]
    starts += [random.standard_normal((n, 2)) * wanted.mean() for _ in range(random_starts)]
    best = starts[0]
    if random_starts:
        found = [_majorise(start, wanted, weights, solver, _STEPS) for start in starts]
        best = min(found, key=lambda positions: _badness(positions, wanted, weights, hops == 1))
    return _majorise(best, wanted, weights, solver, _MORE_STEPS if n <= 300 else 300 * _MORE_STEPS // n)


def _majorise(positions: Floats, wanted: Floats, weights: Floats, solver: Floats, steps: int) -> Floats:
    for _ in range(steps):
        pull = -weights * wanted / np.maximum(cdist(positions, positions), 1e-9)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(0))
        moved = solver @ (pull @ positions)
        still = float(np.abs(moved - positions).max()) < _STILL
        positions = moved
        if still:
            break
    return positions


def _badness(positions: Floats, wanted: Floats, weights: Floats, edges: Flags) -> float:
    """Stress, more where edges run over nodes. Rounded: equal optima are decided by order, not by the last bit."""
    stress = float((weights * (cdist(positions, positions) - wanted) ** 2).sum())
    source, target = np.nonzero(np.triu(edges))
    along = positions[target] - positions[source]  # (m, 2)
    offset = positions - positions[source][:, None]  # (m, n, 2)
    share = np.clip((offset * along[:, None]).sum(-1) / (along**2).sum(-1)[:, None], 0.0, 1.0)
    off = np.sqrt(((offset - share[..., None] * along[:, None]) ** 2).sum(-1))  # (m, n): node to edge
    off[np.arange(len(source)), source] = off[np.arange(len(source)), target] = np.inf
    return round(stress * (1 + 0.3 * float((off < _TOO_CLOSE).sum()) / len(source)), 6)


def _classical_scaling(distances: Floats) -> Floats:
    """The two leading principal coordinates, by orthogonal iteration: only a place to start from."""
    squared = distances**2
    centred = squared.mean(0) + squared.mean(1)[:, None] - squared - squared.mean()
    vectors = np.random.default_rng(0).standard_normal((len(distances), 2))
    for _ in range(_ITERATIONS):
        vectors = np.linalg.qr(centred @ vectors)[0]
    lengths = np.sqrt(np.abs((vectors * (centred @ vectors)).sum(0)) / 2)
    return np.asarray(vectors * lengths, dtype=np.float64)


def _upright(positions: Floats) -> Floats:
    """Turned so that the longest direction is horizontal and arcs open downwards; lower left corner at the origin.

    A round drawing has no longest direction: there the outermost node comes to the top.
    """
    centred = positions - positions.mean(0)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    if len(lengths) == 2 and lengths[1] > _ROUND * lengths[0] > 0:
        radius = np.sqrt((centred**2).sum(1))
        x, y = centred[np.argmax(radius > radius.max() * (1 - 1e-3))]
        axes = np.array([[y, -x], [x, y]]) / np.hypot(x, y)
    turned = np.asarray(centred @ axes.T if len(axes) == 2 else centred, dtype=np.float64)
    if lengths[-1] < _ROUND * lengths[0] and float((turned[:, 1] ** 3).sum()) > 0:
        turned = turned * [1, -1]
    return np.asarray(turned - turned.min(0))


def _pack(sizes: list[Floats]) -> list[Floats]:
    """Lower left corners of boxes that are set like words in centred lines, as wide as fits the page best."""
    padded = np.array(sizes).reshape(-1, 2) + _GAP
    if not len(padded):
        return []
    widths = np.linspace(padded[:, 0].max(), padded[:, 0].sum(), 40)
    candidates = [_set_in_lines(padded, width * 1.0001) for width in widths]
    best = min(candidates, key=lambda found: round(max(found[1] / _ASPECT, found[2]), 6))
    return [corner + _GAP / 2 for corner in best[0]]


def _set_in_lines(boxes: Floats, width: float) -> tuple[Floats, float, float]:
    """Lower left corners (k, 2) of boxes in lines not wider than ``width``, and the width and height used."""
    lines: list[list[int]] = [[]]
    for index, box in enumerate(boxes):
        if lines[-1] and boxes[lines[-1], 0].sum() + box[0] > width:
            lines.append([])
        lines[-1].append(index)
    corners, bottom, widest = np.zeros_like(boxes), 0.0, 0.0
    for line in lines:
        ends, height = np.cumsum(boxes[line, 0]), boxes[line, 1].max()
        bottom, widest = bottom - height, max(widest, ends[-1])
        corners[line, 0] = ends - boxes[line, 0] - ends[-1] / 2
        corners[line, 1] = bottom + (height - boxes[line, 1]) / 2
    return corners, widest, -bottom
