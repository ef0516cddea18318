"""A colour for each node by a category or a number, the same in all graphs of a picture (:func:`coloured`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.reports.layout import Floats, place_nodes

if TYPE_CHECKING:
    from pointset.points.graphs import Graph

# The colours that chemists know elements by: carbon grey, oxygen red, nitrogen blue (:func:`element_colours`).


_USUAL = {
    "H": "#d3d9e0", "C": "#59636f", "N": "#2f5fd0", "O": "#d8332b", "F": "#8fd05a", "Cl": "#1f8f3a", "Br": "#8a4b2a",
    "I": "#7d3cb5", "P": "#f08a24", "S": "#e6bd1a", "B": "#eba58f", "Si": "#b59a6a",
}  # fmt: skip
_UNUSUAL = ("#2a9d8f", "#5ec4d6", "#31348b", "#a8326e", "#a3b536", "#c4a0dc", "#14505a", "#6b7a1e", "#e070b0")
_NO_ELEMENT = ("misc",)  # what a list of elements may have besides
OTHERS = "#f2b6cf"


def element_colours(names: Sequence[str]) -> list[str] | None:
    """A colour for each category, of which there are 9 at most, and no colour twice; None where they are not elements.

    ``N H2 +`` is a kind of nitrogen: ``N`` has the element's colour, other kinds have lighter and darker ones.
    """
    elements = [name.partition(" ")[0] for name in names]
    if not any(element in _USUAL for element in elements) or not all(map(_may_be_element, elements)):
        return None
    colours: dict[str, str] = {}
    for name in sorted(names, key=lambda name: " " in name):  # the plain element first
        free = (colour for colour in _candidates(name.partition(" ")[0]) if colour not in colours.values())
        colours[name] = next(free)
    return [colours[name] for name in names]


def _may_be_element(text: str) -> bool:
    return text in _NO_ELEMENT or (text.isalpha() and text.istitle() and len(text) <= 2)


def _candidates(element: str) -> Iterator[str]:
    if usual := _USUAL.get(element):
        yield usual
        yield from (_mixed(usual, 255, 0.45), _mixed(usual, 0, 0.4), _mixed(usual, 255, 0.7), _mixed(usual, 0, 0.65))
    yield from _UNUSUAL


def _mixed(colour: str, other: int, share: float) -> str:
    """With white (255) or black (0)."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (other - part)):02x}" for part in parts)


Colour = tuple[float, float, float]

SCALE = ("#31348b", "#2274a5", "#2a9d8f", "#8ab364", "#f0b84b", "#e4572e")  # from low to high
# The most frequent category is quiet, so that the others stand out; the last is for all that find no place.
_CATEGORIES = ("#4a5563", "#e4572e", "#2274a5", "#f0b84b", "#2a9d8f", "#9b5fc0", "#8ab364", "#d46a9f", "#7a4e2d")
_OTHERS = "#c3cad2"


class Colouring(NamedTuple):
    """Colours of the nodes of several graphs, and what they mean."""

    colours: list[Floats]  # of each graph, (n, 3) in 0…1
    legend: list[tuple[str, Colour]]  # categories, the most frequent first; empty for numbers
    span: tuple[float, float] | None  # the numbers at both ends of the scale; None for categories


def coloured(values: Sequence[NDArray[Any]], names: Mapping[int, str] | None = None) -> Colouring:
    """Colours for the values (n,) of each graph: whole numbers are categories, real numbers lie on a scale.

    Args:
        values: of the nodes of each graph. NaN is as low as the lowest.
        names: of categories; by default their numbers. Elements have their usual colours.
    """
    if all(np.issubdtype(one.dtype, np.integer) for one in values):
        return _by_category(values, names or {})
    return _on_scale(values)


def scale_colours(shares: Floats) -> Floats:
    """(k, 3) colours at these places of the scale, 0…1."""
    stops = np.array([_rgb(colour) for colour in SCALE])
    at = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(shares, at, stops[:, channel]) for channel in range(3)], axis=-1)


def as_hex(colour: Sequence[float] | Floats) -> str:
    """``#1d2733``."""
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in colour)


def _by_category(values: Sequence[NDArray[Any]], names: Mapping[int, str]) -> Colouring:
    everything = np.concatenate([np.zeros(0, dtype=np.int64), *values])
    present, counts = np.unique(everything, return_counts=True)
    order = present[np.argsort(-counts, kind="stable")]
    kept = order if len(order) <= len(_CATEGORIES) else order[: len(_CATEGORIES) - 1]
    labels = [names.get(int(value), str(value)) for value in kept]
    of_elements = element_colours(labels)
    chosen, others = (_CATEGORIES[: len(kept)], _OTHERS) if of_elements is None else (of_elements, OTHERS)
    palette = np.array([_rgb(colour) for colour in (*chosen, others)])
    position = np.full(len(present), len(kept))
    position[np.searchsorted(present, kept)] = np.arange(len(kept))
    legend = [(label, _rgb(colour)) for label, colour in zip(labels, chosen, strict=True)]
    if len(kept) < len(order):
        legend.append((f"{len(order) - len(kept)} others", _rgb(others)))
    return Colouring([palette[position[np.searchsorted(present, one)]] for one in values], legend, None)


def _on_scale(values: Sequence[NDArray[Any]]) -> Colouring:
    everything = np.concatenate([np.zeros(0), *(np.asarray(one, dtype=np.float64) for one in values)])
    finite = everything[np.isfinite(everything)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    width = (high - low) or 1.0
    shares = [np.clip(np.nan_to_num((np.asarray(one, dtype=np.float64) - low) / width), 0, 1) for one in values]
    return Colouring([scale_colours(share) for share in shares], [], (low, high))


def _rgb(colour: str) -> Colour:
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


# What a picture of several graphs is made of (:class:`Portrait`), on paper or in the terminal.


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


def ends_of(span: tuple[float, float]) -> tuple[str, str]:
    """The numbers at both ends of a scale of colours, as they are written beside it."""
    low, high = (f"{number:,.4g}".replace("-", "−") for number in span)
    return low, high


def positions_of(graph: Graph) -> Floats:
    """(n, 2) where the nodes are drawn; the same graph always gives the same picture."""
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    first, second = graph.edges[:, graph.edges[0] != graph.edges[1]]
    adjacency[first, second] = adjacency[second, first] = 1.0
    return place_nodes(adjacency)


def colouring_of(portraits: Sequence[Portrait], names: Mapping[int, str] | None) -> Colouring:
    """Colours of all nodes; where any graph has no values, every node has the same colour and there is no legend."""
    values = [portrait.node_values for portrait in portraits]
    given = [one for one in values if one is not None]
    if len(given) < len(values) or not given:
        plain = coloured([np.zeros(portrait.graph.num_nodes, dtype=np.int64) for portrait in portraits])
        return plain._replace(legend=[])
    return coloured(given, names)
