"""A colour for each node by a category or a number, the same in all graphs of a picture (:func:`coloured`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.reports.drawing.element_colours import OTHERS as OTHER_ELEMENTS
from pointset.reports.drawing.element_colours import element_colours

Floats = NDArray[np.float64]
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
    chosen, others = (_CATEGORIES[: len(kept)], _OTHERS) if of_elements is None else (of_elements, OTHER_ELEMENTS)
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
