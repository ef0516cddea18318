"""Molecules as chemists draw them: bond orders, stereo, colours of contributions, and what happens without RDKit."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import pytest

from pointset.reports.molecules import Contributions, contribution_legend, draw_molecule, molecule_png
from pointset.reports.palette import BLUE, DRAWN_ELEMENTS, INK, PAPER, RED, css_variables, element_ink, rgb

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def drawn(smiles: str, *arguments: object, **options: object) -> ElementTree.Element:
    svg = draw_molecule(smiles, *arguments, **options)  # type: ignore[arg-type]
    assert svg is not None
    return ElementTree.fromstring(svg)


def marks(root: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    return [one for one in root.iter() if one.tag.rpartition("}")[2] == tag]


def strokes(smiles: str) -> int:
    """How many lines a drawing has."""
    lines = [one for one in marks(drawn(smiles), "path") if "fill:none" in one.get("style", "")]
    return sum(len(re.findall("M", one.get("d", ""))) for one in lines)


def test_bond_orders_are_seen() -> None:
    assert [strokes(one) for one in ("CC", "C=C", "C#C")] == [1, 2, 3]
    assert strokes("c1ccccc1") - strokes("C1CCCCC1") == 3  # three of six sides are double


def test_stereo_is_seen() -> None:
    left, right, none = (draw_molecule(f"C{centre}(F)(Cl)Br") for centre in ("[C@]", "[C@@]", "C"))
    assert len({left, right, none}) == 3
    assert draw_molecule("C/C=C/C") != draw_molecule(r"C/C=C\C")


def test_a_page_gets_variables_that_its_style_sheet_defines() -> None:
    svg = draw_molecule("OCC(N)(F)SP(Cl)(Br)I", numbered=True)
    assert svg is not None
    used, defined = set(re.findall(r"var\(--([\w-]+)\)", svg)), set(re.findall(r"--([\w-]+):", css_variables()))
    assert {"ink", "quiet", "element-N", "element-O", "element-Cl"} <= used <= defined
    assert "#" not in svg, "a fixed colour does not follow the page's mode"


def test_a_file_has_its_own_colours_on_white() -> None:
    root = drawn("CCO", for_file=True)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert marks(root, "rect")[0].get("fill") == PAPER
    text = ElementTree.tostring(root, encoding="unicode")
    assert "var(" not in text
    assert INK in text
    assert element_ink("O") in text


def test_colours_of_contributions() -> None:
    root = drawn("CCO", Contributions([-0.5, 0.0, 2.0], {(1, 0): 1.0}))
    circles = marks(root, "circle")
    assert [one.get("fill") for one in circles] == [BLUE, BLUE, RED]
    assert [float(one.get("fill-opacity", "")) for one in circles] == pytest.approx([0.18, 0.0, 0.72])
    assert [marks(one, "title")[0].text for one in circles] == ["C 0: −0.5", "C 1: 0", "O 2: +2"]
    (band,) = marks(root, "line")  # the other bond contributes nothing
    assert band.get("stroke") == RED
    assert float(band.get("stroke-opacity", "")) == pytest.approx(0.36)
    assert element_ink("O") not in ElementTree.tostring(root, encoding="unicode"), "colour means contribution only"


def test_two_drawings_share_a_scale() -> None:
    root = drawn("CO", Contributions([1.0, 0.0], largest=4.0))
    assert float(marks(root, "circle")[0].get("fill-opacity", "")) == pytest.approx(0.18)


def test_circles_lie_under_their_atoms() -> None:
    root = drawn("CC", Contributions([1.0, 1.0]))
    centres = [complex(float(one.get("cx", "")), float(one.get("cy", ""))) for one in marks(root, "circle")]
    line = marks(root, "path")[0].get("d", "").split()
    ends = [complex(*map(float, place.split(","))) for place in line if "," in place]
    assert max(abs(end - centre) for end, centre in zip(ends, centres, strict=True)) < 0.3


def test_hydrogens_stand_behind_all_other_atoms() -> None:
    root = drawn("O", Contributions([1.0, -1.0, -1.0]))
    assert [(marks(one, "title")[0].text or "")[0] for one in marks(root, "circle")] == ["O", "H", "H"]


@pytest.mark.parametrize("smiles", ["", "not a molecule", "C1CC", "C" * 300])
def test_nothing_for_what_cannot_be_drawn(smiles: str) -> None:
    assert draw_molecule(smiles) is None
    assert molecule_png(smiles) is None


def test_nothing_where_contributions_are_not_for_these_atoms() -> None:
    assert draw_molecule("CCO", Contributions([1.0, 2.0])) is None


@pytest.mark.parametrize("smiles", ["c1cccc1", "C(C)(C)(C)(C)C", "[Na+].[Cl-]", "*c1ccccc1", "[2H]C", "CC->[Fe]"])
def test_odd_molecules_are_drawn(smiles: str) -> None:
    assert draw_molecule(smiles) is not None


def test_nothing_without_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    assert draw_molecule("CCO") is None
    assert molecule_png("CCO") is None


def test_no_text_becomes_markup() -> None:
    svg = draw_molecule("CCO", description='<script>"&')
    assert svg is not None
    assert "<script>" not in svg
    assert ElementTree.fromstring(svg).get("aria-label") == '<script>"&'


def test_picture_file() -> None:
    plain, coloured = molecule_png(ASPIRIN), molecule_png(ASPIRIN, Contributions([1.0] * 13))
    assert plain is not None
    assert plain.startswith(b"\x89PNG")
    assert plain != coloured


def test_legend_names_its_ends() -> None:
    texts = [one.text for one in marks(ElementTree.fromstring(contribution_legend(1.25, "eV")), "text")]
    assert texts == ["−1.25", "0", "+1.25 eV"]


@pytest.mark.parametrize("paper", [PAPER, "#12181f"])
def test_symbols_are_legible(paper: str) -> None:
    def luminance(colour: str) -> float:
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for symbol in DRAWN_ELEMENTS.values():
        dark, light = sorted(map(luminance, (element_ink(symbol, paper), paper)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5
