"""The colours that chemists know elements by: carbon grey, oxygen red, nitrogen blue (:func:`element_colours`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
