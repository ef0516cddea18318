"""Every colour of pictures and pages, and how strong lines and dots are: the one place to change how a chart looks.

Pages take them as variables of the style sheet (:func:`css_variables`), pictures directly. Nodes of graphs are coloured
by a category or a number, the same in all graphs of a picture (:func:`coloured`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats

Colour = tuple[float, float, float]

INK, QUIET, FAINT, HAIRLINE, PANEL, PAPER = "#1d2733", "#5f6b78", "#b3bdc8", "#e1e6ec", "#f6f8fa", "#ffffff"
WALLS = ("#f3f5f8", "#f8f9fb", "#edf0f4")  # greys of large surfaces
# Lines, dots and bars, in this order: c0 … c9. Most who see fewer colours can distinguish them.
SERIES = (
    "#2274a5", "#e4572e", "#2a9d8f", "#d99a1f", "#9b5fc0", "#6d9a45", "#d46a9f", "#4a5563", "#7a4e2d", "#31348b",
)  # fmt: skip
BLUE, RED = SERIES[:2]  # also the signs of numbers: negative and positive
DEEP_BLUE = "#16466f"  # for a total beside its parts
GOOD, DOUBTFUL, BAD = "#1f7a6e", "#d18a00", "#b8442a"  # green, amber and red, legible on white
BAD_PALE = "#fbe3e4"
LINE_WIDTH, DOT_SIZE, RING_SIZE, RING_WIDTH = 2.0, 3.6, 9.0, 2.4  # about pixels; diameters of dots and rings

# Scales, from low to high.
SCALE = ("#31348b", "#2274a5", "#2a9d8f", "#8ab364", "#f0b84b", "#e4572e")
SIGNED = ("#123f6d", BLUE, "#a9cbe3", PAPER, "#f6bfa8", RED, "#8a2413")
ERRORS = ("#1f7a54", "#a9d8be", "#fbf6e6", "#f2b66d", "#c2452f")
SHARES = ("#f6f7f9", "#d3e8ec", "#8cc6cb", "#237f89", "#12525c")

_LIGHT = {
    "ink": INK, "quiet": QUIET, "faint": FAINT, "hairline": HAIRLINE, "paper": PAPER, "panel": PANEL,
    "accent": SERIES[0], "strong": SERIES[0], "good": GOOD, "bad": BAD, "on-dark": PAPER, "on-light": INK,
}  # fmt: skip
_DARK = {  # on a dark screen: the same, lighter
    "ink": "#e6ebf1", "quiet": "#9aa7b4", "faint": "#55616e", "hairline": "#2b3540", "paper": "#12181f",
    "panel": "#1a222b", "accent": "#5aa9d6", "strong": "#1d5f88", "good": "#54c2b3", "bad": "#f0876a",
}  # fmt: skip
_DARK_SERIES = (
    "#5aa9d6", "#f57a55", "#46c0b0", "#f0b84b", "#bf8ae0", "#9cc977", "#e892bd", "#aab6c2", "#c0906a", "#8f93f0",
)  # fmt: skip


def css_variables() -> str:
    """The beginning of the style sheet: ``--ink``, ``--c0``, ``--line-width``, for light and for dark screens."""

    def rule(named: Mapping[str, object], series: Sequence[str]) -> str:
        values = {**named, **{f"c{index}": colour for index, colour in enumerate(series)}}
        values |= {f"element-{symbol}": element_ink(symbol, str(named["paper"])) for symbol in DRAWN_ELEMENTS.values()}
        return ":root { " + " ".join(f"--{name}: {value};" for name, value in values.items()) + " }"

    sizes = {"scale": ", ".join(SCALE), "line-width": LINE_WIDTH, "dot-size": DOT_SIZE, "ring-width": RING_WIDTH}
    classes = " ".join(f".c{index} {{ color: var(--c{index}); }}" for index in range(len(SERIES)))
    dark = rule(_DARK, _DARK_SERIES)
    return f"{rule(_LIGHT | sizes, SERIES)}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n{classes}\n"


def colours_on(scale: Sequence[str], shares: Any) -> Floats:
    """(…, 3) colours at these places of a scale, 0…1; what lies outside has the colour of the end."""
    stops = np.array([rgb(colour) for colour in scale])
    at = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(shares, at, stops[:, channel]) for channel in range(3)], axis=-1)


def as_hex(colour: Sequence[float] | Floats) -> str:
    """``#1d2733``."""
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in colour)


def rgb(colour: str) -> Colour:
    """Three numbers 0…1."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def is_dark(colour: str) -> bool:
    """Whether text on it should be white."""
    red, green, blue = rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.6


class Colouring(NamedTuple):
    """Colours of the nodes of several graphs, and what they mean."""

    colours: list[Floats]  # of each graph, (n, 3) in 0…1
    legend: list[tuple[str, Colour]]  # categories, the most frequent first; empty for numbers
    span: tuple[float, float] | None  # the numbers at both ends of the scale; None for categories


# The most frequent category is quiet, so that the others stand out; the last is for all that find no place.
_CATEGORIES = ("#4a5563", "#e4572e", "#2274a5", "#f0b84b", "#2a9d8f", "#9b5fc0", "#8ab364", "#d46a9f", "#7a4e2d")
_OTHERS, _OTHER_ELEMENTS = "#c3cad2", "#f2b6cf"


def coloured(values: Sequence[NDArray[Any]], names: Mapping[int, str] | None = None) -> Colouring:
    """Colours for the values (n,) of each graph: whole numbers are categories, real numbers lie on a scale.

    NaN is as low as the lowest. Categories are called by their ``names``; elements have their usual colours.
    """
    if all(np.issubdtype(one.dtype, np.integer) for one in values):
        return _by_category(values, names or {})
    return _by_number(values)


def _by_category(values: Sequence[NDArray[Any]], names: Mapping[int, str]) -> Colouring:
    everything = np.concatenate([np.zeros(0, dtype=np.int64), *values])
    present, counts = np.unique(everything, return_counts=True)
    order = present[np.argsort(-counts, kind="stable")]
    shown = order if len(order) <= len(_CATEGORIES) else order[: len(_CATEGORIES) - 1]
    labels = [names.get(int(value), str(value)) for value in shown]
    of_elements = element_colours(labels)
    chosen, others = (_CATEGORIES[: len(shown)], _OTHERS) if of_elements is None else (of_elements, _OTHER_ELEMENTS)
    colours = np.array([rgb(colour) for colour in (*chosen, others)])
    position = np.full(len(present), len(shown))
    position[np.searchsorted(present, shown)] = np.arange(len(shown))
    legend = [(label, rgb(colour)) for label, colour in zip(labels, chosen, strict=True)]
    if len(shown) < len(order):
        legend.append((f"{len(order) - len(shown)} others", rgb(others)))
    return Colouring([colours[position[np.searchsorted(present, one)]] for one in values], legend, None)


def _by_number(values: Sequence[NDArray[Any]]) -> Colouring:
    everything = np.concatenate([np.zeros(0), *(np.asarray(one, dtype=np.float64) for one in values)])
    finite = everything[np.isfinite(everything)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    width = (high - low) or 1.0
    shares = [np.nan_to_num((np.asarray(one, dtype=np.float64) - low) / width) for one in values]
    return Colouring([colours_on(SCALE, share) for share in shares], [], (low, high))


# The colours that chemists know elements by: carbon grey, oxygen red, nitrogen blue.
_ELEMENTS = {
    "H": "#d3d9e0", "C": "#59636f", "N": "#2f5fd0", "O": "#d8332b", "F": "#8fd05a", "Cl": "#1f8f3a", "Br": "#8a4b2a",
    "I": "#7d3cb5", "P": "#f08a24", "S": "#e6bd1a", "B": "#eba58f", "Si": "#b59a6a",
}  # fmt: skip
_RARE_ELEMENTS = ("#2a9d8f", "#5ec4d6", "#31348b", "#a8326e", "#a3b536", "#c4a0dc", "#14505a", "#6b7a1e", "#e070b0")
_NO_ELEMENT = ("misc",)  # what a list of elements may have besides


def element_colours(names: Sequence[str]) -> list[str] | None:
    """A colour for each category, of which there are 9 at most, and no colour twice; None where they are not elements.

    ``N H2 +`` is a kind of nitrogen: ``N`` has the element's colour, other kinds have lighter and darker ones.
    """
    elements = [name.partition(" ")[0] for name in names]
    if not any(element in _ELEMENTS for element in elements) or not all(map(_may_be_element, elements)):
        return None
    colours: dict[str, str] = {}
    for name in sorted(names, key=lambda name: " " in name):  # the plain element first
        free = (colour for colour in _candidates(name.partition(" ")[0]) if colour not in colours.values())
        colours[name] = next(free)
    return [colours[name] for name in names]


# Symbols of these are coloured in structural formulas, by atomic number; those of all others are ink.
DRAWN_ELEMENTS = {7: "N", 8: "O", 9: "F", 15: "P", 16: "S", 17: "Cl", 35: "Br", 53: "I", 5: "B", 14: "Si"}
_LEGIBLE = 4.5  # the least contrast of small text (WCAG 2, level AA)


def element_ink(symbol: str, paper: str = PAPER) -> str:
    """An element's colour as text: darker on light paper and lighter on dark paper, as far as legibility asks."""
    towards = 0.0 if _luminance(paper) > 0.2 else 1.0
    colour = rgb(_ELEMENTS[symbol])
    mixed = (as_hex([part + share / 40 * (towards - part) for part in colour]) for share in range(41))
    return next(candidate for candidate in mixed if _contrast(candidate, paper) >= _LEGIBLE)


def _contrast(first: str, second: str) -> float:
    dark, light = sorted([_luminance(first), _luminance(second)])
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, 0…1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _may_be_element(text: str) -> bool:
    return text in _NO_ELEMENT or (text.isalpha() and text.istitle() and len(text) <= 2)


def _candidates(element: str) -> Iterator[str]:
    if usual := _ELEMENTS.get(element):
        yield usual
        for white, share in ((1, 0.45), (0, 0.4), (1, 0.7), (0, 0.65)):  # lighter and darker ones
            yield as_hex([part + share * (white - part) for part in rgb(usual)])
    yield from _RARE_ELEMENTS
