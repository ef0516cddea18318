"""Molecules as chemists draw them, with bond orders and stereo, and what each atom and bond contributes in colour.

:func:`draw_molecule` gives SVG for a page, whose colours follow the page's mode, or for a file, on white;
:func:`molecule_png` a picture file. Both give None where RDKit is not installed or cannot read the SMILES: the caller
then draws the plain graph. Contributions c are coloured blue (c < 0) and red (c > 0) up to ±``largest``, and
:func:`contribution_legend` draws that scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from pointset.reports.palette import BLUE, DRAWN_ELEMENTS, INK, PAPER, QUIET, RED, element_ink, rgb
from pointset.reports.svg import Element, add, drawing, finished, short
from pointset.text import number, signed

WIDTH, HEIGHT = 300.0, 220.0  # units of a drawing
_MOST_ATOMS = 250  # beyond, a drawing of this size is a blot
_BOND_LENGTH, _BOND_WIDTH = 30.0, 1.6  # units, of a molecule that fits
_CIRCLE, _BAND = 0.36, 0.24  # radius of an atom's colour and width of a bond's, in bond lengths
_STRONGEST = 0.72  # opacity of the largest contribution: symbols stay legible on it
_STEPS = 41  # colours of the legend
_PIXELS = 3.0  # of a picture file, for each unit

Bond = tuple[int, int]


class Contributions(NamedTuple):
    """What each atom and bond adds to a prediction, and where the scale of colours ends."""

    atoms: Sequence[float]  # (n,) in the order of the SMILES
    bonds: Mapping[Bond, float] = {}  # by the atoms that they join, in either order
    largest: float | None = None  # |c| of the strongest colour; None: the largest here

    @property
    def scale(self) -> float:
        """|c| of the strongest colour; 0 where nothing contributes."""
        if self.largest is not None:
            return self.largest
        return max((abs(c) for c in (*self.atoms, *self.bonds.values()) if c == c), default=0.0)


def draw_molecule(
    smiles: str,
    contributions: Contributions | None = None,
    *,
    width: float = WIDTH,
    height: float = HEIGHT,
    description: str = "",
    numbered: bool = False,
    for_file: bool = False,
) -> str | None:
    """The molecule as SVG; None without RDKit, for a SMILES that it cannot read, or where the atoms do not match.

    Args:
        smiles: in the order of atoms that ``contributions`` follow; hydrogens stand behind all other atoms where there
            are contributions for them.
        contributions: colours for atoms and bonds; their numbers are shown on hovering.
        width: of the drawing, in its own units.
        height: likewise.
        description: for those who cannot see it.
        numbered: whether atoms carry their numbers, from 0.
        for_file: fixed colours on white, for a file or a notebook; otherwise the variables of our pages.
    """
    root = molecule_element(
        smiles,
        contributions,
        width=width,
        height=height,
        description=description,
        numbered=numbered,
        for_file=for_file,
    )
    if root is None:
        return None
    if for_file:
        root.set("xmlns", "http://www.w3.org/2000/svg")
        root.set("width", short(width))
        root.set("height", short(height))
    return finished(root)


def molecule_element(
    smiles: str,
    contributions: Contributions | None,
    *,
    width: float,
    height: float,
    description: str = "",
    numbered: bool = False,
    for_file: bool = False,
) -> Element | None:
    """The same to be put into a drawing."""
    mol = _read(smiles, contributions)
    if mol is None:
        return None
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(round(width), round(height))
    _draw(drawer, mol, coloured=contributions is None, numbered=numbered)
    root = drawing(width, height, description or f"Drawing of the molecule {smiles}", "molecule")
    if for_file:
        add(root, "rect", width="100%", height="100%", fill=PAPER)
    if contributions is not None:
        places = [(point.x, point.y) for point in map(drawer.GetDrawCoords, range(mol.GetNumAtoms()))]
        _add_contributions(root, mol, places, contributions)
    _copy(root, drawer.GetDrawingText(), for_file=for_file)
    return root


def molecule_png(
    smiles: str,
    contributions: Contributions | None = None,
    *,
    width: float = WIDTH,
    height: float = HEIGHT,
    numbered: bool = False,
) -> bytes | None:
    """The same as a picture file, three pixels for each unit; also None where RDKit was built without Cairo."""
    mol = _read(smiles, contributions)
    if mol is None:
        return None
    from rdkit.Chem.Draw import rdMolDraw2D

    if not hasattr(rdMolDraw2D, "MolDraw2DCairo"):
        return None
    drawer = rdMolDraw2D.MolDraw2DCairo(round(_PIXELS * width), round(_PIXELS * height))
    colours: dict[str, Any] = {}
    if contributions is not None:
        bonds = {at: c for at, (_, c) in enumerate(_bond_values(mol, contributions)) if c}
        colours = {
            "highlightAtoms": list(range(mol.GetNumAtoms())),
            "highlightBonds": list(bonds),
            "highlightAtomColors": {at: _on_white(c, contributions.scale) for at, c in enumerate(contributions.atoms)},
            "highlightBondColors": {at: _on_white(c, contributions.scale) for at, c in bonds.items()},
        }
    _draw(drawer, mol, coloured=contributions is None, numbered=numbered, scale=_PIXELS, **colours)
    picture: bytes = drawer.GetDrawingText()
    return picture


def contribution_legend(largest: float, unit: str = "", *, for_file: bool = False) -> str:
    """The scale of colours as SVG, from −largest to largest."""
    root = drawing(260, 34, f"Colours of contributions from {number(-largest)} to {number(largest)}", "scale")
    root.set("style", "width: 260px; height: 34px")
    if for_file:
        root.set("xmlns", "http://www.w3.org/2000/svg")
        add(root, "rect", width="100%", height="100%", fill=PAPER)
    add_legend(root, 7.0, 6.0, 246.0, largest, unit, for_file=for_file)
    return finished(root)


def add_legend(
    parent: Element, x: float, y: float, width: float, largest: float, unit: str = "", *, for_file: bool = True
) -> None:
    """The same as a part of a drawing: a bar of 10 units at (x, y), with numbers below it."""
    step = width / _STEPS
    bar = add(parent, "g", shape_rendering="crispEdges")
    for at in range(_STEPS):
        colour, opacity = _colour(2 * at / (_STEPS - 1) - 1)
        add(bar, "rect", x=x + at * step, y=y, width=step, height=10.0, fill=colour, fill_opacity=opacity)
    style = f"fill: {QUIET if for_file else 'var(--quiet)'}; font: 11px system-ui, sans-serif"
    ends = (f"−{number(largest)}", "0", f"+{number(largest)}{' ' + unit if unit else ''}")
    for share, anchor, text in zip((0.0, 0.5, 1.0), ("start", "middle", "end"), ends, strict=True):
        add(parent, "text", text, x=x + share * width, y=y + 23.0, text_anchor=anchor, style=style)


def _read(smiles: str, contributions: Contributions | None) -> Any | None:
    """RDKit's molecule with positions on paper, and with hydrogens if only so the contributions are for its atoms."""
    atoms = None if contributions is None else len(contributions.atoms)
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdDepictor
        from rdkit.Chem.Draw import rdMolDraw2D
    except ImportError:
        return None
    with rdBase.BlockLogs():
        try:
            mol = Chem.MolFromSmiles(smiles)
            if mol is None:  # impossible chemistry is drawn as it is written
                mol = Chem.MolFromSmiles(smiles, sanitize=False)
                if mol is None:
                    return None
                mol.UpdatePropertyCache(strict=False)
                Chem.FastFindRings(mol)
            if atoms is not None and mol.GetNumAtoms() < atoms:
                mol = Chem.AddHs(mol)
            if not 0 < mol.GetNumAtoms() <= _MOST_ATOMS or atoms not in (None, mol.GetNumAtoms()):
                return None
            if contributions is not None and not all(_joined(mol, *bond) for bond in contributions.bonds):
                return None  # the numbers follow another order of the atoms
            for atom in mol.GetAtoms():
                atom.SetAtomMapNum(0)  # labels of a reaction, not chemistry
            try:
                mol = rdMolDraw2D.PrepareMolForDrawing(mol, addChiralHs=False)
            except (RuntimeError, ValueError):  # rings that cannot be written with single and double bonds
                mol = rdMolDraw2D.PrepareMolForDrawing(mol, kekulize=False, addChiralHs=False)
            rdDepictor.Compute2DCoords(mol)
            rdDepictor.StraightenDepiction(mol)
            return mol
        except (RuntimeError, ValueError):
            return None


def _joined(mol: Any, first: int, second: int) -> bool:
    atoms = range(mol.GetNumAtoms())
    return first in atoms and second in atoms and mol.GetBondBetweenAtoms(first, second) is not None


def _draw(drawer: Any, mol: Any, *, coloured: bool, numbered: bool, scale: float = 1.0, **highlights: Any) -> None:
    """Draw with our colours; elements are ``coloured`` where colours do not mean contributions."""
    options = drawer.drawOptions()
    options.prepareMolsBeforeDrawing = False
    options.clearBackground = bool(highlights) or scale != 1
    options.fixedBondLength = _BOND_LENGTH * scale
    options.bondLineWidth = _BOND_WIDTH * scale
    options.scaleBondWidth = False
    options.padding = 0.09  # room for the colours of atoms at the rim
    options.minFontSize = -1
    options.maxFontSize = round(16 * scale)
    options.addAtomIndices = numbered
    options.annotationFontScale = 0.6
    options.atomHighlightsAreCircles = options.fillHighlights = True
    options.highlightRadius = 1.5 * _CIRCLE  # in units in which a bond is 1.5 long
    options.scaleHighlightBondWidth = True
    options.setAnnotationColour(rgb(QUIET))
    options.setAtomNoteColour(rgb(QUIET))
    options.setSymbolColour(rgb(INK))
    elements = {number: rgb(element_ink(symbol)) for number, symbol in DRAWN_ELEMENTS.items()} if coloured else {}
    options.setAtomPalette({-1: rgb(INK), **elements})
    drawer.DrawMolecule(mol, **highlights)
    drawer.FinishDrawing()


def _colour(share: float) -> tuple[str, str]:
    """Colour and opacity of a contribution, −1…1 of the scale."""
    strength = min(abs(share), 1.0) if share == share else 0.0
    return RED if share > 0 else BLUE, f"{_STRONGEST * strength:.3f}"


def _on_white(contribution: float, scale: float) -> tuple[float, ...]:
    colour, opacity = _colour(contribution / scale if scale else 0.0)
    return tuple(1 + float(opacity) * (part - 1) for part in rgb(colour))


def _bond_values(mol: Any, contributions: Contributions) -> list[tuple[Bond, float]]:
    """The atoms of each bond of the molecule and its contribution, 0 where none is given."""
    given = {(min(bond), max(bond)): value for bond, value in contributions.bonds.items()}
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    return [((a, b), given.get((min(a, b), max(a, b)), 0.0)) for a, b in ends]


def _add_contributions(
    root: Element, mol: Any, places: Sequence[tuple[float, float]], contributions: Contributions
) -> None:
    """A circle under each atom and a band under each bond, from circle to circle."""
    scale, bonds = contributions.scale, _bond_values(mol, contributions)
    lengths = [abs(complex(*places[a]) - complex(*places[b])) for (a, b), _ in bonds]
    length = sum(lengths) / len(lengths) if lengths else _BOND_LENGTH
    for (a, b), value in bonds:
        if value:
            start, end = complex(*places[a]), complex(*places[b])
            gap = (end - start) * min(_CIRCLE * length / max(abs(end - start), 1e-9), 0.5)
            start, end = start + gap, end - gap
            colour, opacity = _colour(value / scale)
            ends: dict[str, Any] = {"x1": start.real, "y1": start.imag, "x2": end.real, "y2": end.imag}
            band = add(root, "line", **ends, stroke=colour, stroke_opacity=opacity, stroke_width=_BAND * length)
            add(band, "title", f"bond {a}–{b}: {signed(value, 3)}")
    for at, (value, (x, y)) in enumerate(zip(contributions.atoms, places, strict=True)):
        colour, opacity = _colour(value / scale if scale else 0.0)
        circle = add(root, "circle", cx=x, cy=y, r=_CIRCLE * length, fill=colour, fill_opacity=opacity)
        add(circle, "title", f"{mol.GetAtomWithIdx(at).GetSymbol()} {at}: {signed(value, 3)}")


_KEPT = ("d", "cx", "cy", "rx", "ry", "points")  # what says where a mark is
_STYLE = re.compile(r"([\w-]+)\s*:\s*([^;]+)")


def _copy(root: Element, text: str, *, for_file: bool) -> None:
    """RDKit's marks with our colours; neighbours of one style become one path."""
    variables = _variables(for_file)
    last: tuple[str, Element] | None = None
    for mark in ElementTree.fromstring(text):  # noqa: S314 (RDKit has written it)
        tag = mark.tag.rpartition("}")[2]
        if tag not in ("path", "ellipse", "polygon"):
            continue
        style = dict(_STYLE.findall(mark.get("style", ""))) | {
            k: mark.get(k) for k in ("fill", "stroke") if mark.get(k)
        }
        words = [f"{key}:{_named(style[key], variables)}" for key in ("fill", "stroke") if key in style]
        if style.get("stroke", "none") != "none":
            words.append(f"stroke-width:{style.get('stroke-width', '1').removesuffix('px')};stroke-linecap:round")
        look = ";".join(words)
        if tag == "path" and last is not None and last[0] == look:
            last[1].set("d", f"{last[1].get('d')} {mark.get('d')}")
            continue
        kept = {name: mark.get(name) for name in _KEPT if mark.get(name) is not None}
        child = add(root, tag, style=look, **kept)
        last = (look, child) if tag == "path" else None


def _variables(for_file: bool) -> dict[str, str]:
    """What to write for a colour that RDKit was given."""
    names = {element_ink(symbol): f"element-{symbol}" for symbol in DRAWN_ELEMENTS.values()}
    names |= {INK: "ink", QUIET: "quiet", PAPER: "paper"}
    return {colour: colour if for_file else f"var(--{name})" for colour, name in names.items()}


def _named(colour: str, variables: Mapping[str, str]) -> str:
    """The nearest of our colours: RDKit rounds them in its own way."""
    if not colour.startswith("#"):
        return colour
    given = rgb(colour[:7])
    return variables[min(variables, key=lambda own: sum(abs(a - b) for a, b in zip(rgb(own), given, strict=True)))]
