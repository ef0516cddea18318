"""Scalable drawings as text for a page; colours come from the page's style sheet, so that they follow its mode.

Texts go through an XML writer, so that no name can become markup.
"""

from __future__ import annotations

import base64
import struct
import zlib
from xml.etree import ElementTree

import numpy as np

from pointset.arrays import Floats

Element = ElementTree.Element
_STRENGTHS = 256


def drawing(width: float, height: float, description: str, kind: str = "chart") -> Element:
    """An empty drawing of this size in its own units; as a whole it is a picture with a description."""
    box = f"0 0 {short(width)} {short(height)}"
    return ElementTree.Element("svg", {"class": kind, "viewBox": box, "role": "img", "aria-label": description})


def add(parent: Element, tag: str, text: str | None = None, **attributes: object) -> Element:
    """A new element; ``class_`` is class, ``text_anchor`` is text-anchor, numbers are rounded to a tenth."""
    plain = {
        name.rstrip("_").replace("_", "-"): short(value) if isinstance(value, float) else str(value)
        for name, value in attributes.items()
        if value is not None
    }
    child = ElementTree.SubElement(parent, tag, plain)
    child.text = text
    return child


def short(value: float) -> str:
    """``12.3``, ``7``."""
    return f"{value:.1f}".removesuffix(".0")


def finished(root: Element) -> str:
    """The drawing as text that can stand in a page."""
    return ElementTree.tostring(root, encoding="unicode")


def picture_of(strengths: Floats, colour: str) -> str:
    """A ``data:`` address of a PNG with a pixel for each of (rows, columns) strengths 0…1 of a colour ``#d9583b``."""
    rows, columns = strengths.shape
    levels = np.rint(np.clip(np.nan_to_num(strengths), 0, 1) * (_STRENGTHS - 1)).astype(np.uint8)
    lines = np.concatenate([np.zeros((rows, 1), dtype=np.uint8), levels], axis=1)  # 0: the line is not filtered
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes.fromhex(colour.removeprefix("#")) * _STRENGTHS),
        (b"tRNS", bytes(range(_STRENGTHS))),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(file).decode("ascii")
