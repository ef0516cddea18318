"""What a page shows under a heading: a drawing with its caption (:class:`Figure`), or a table (:class:`Table`)."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A drawing; ``svg`` is markup made by :mod:`~pointset.reports.run_pages.svg`, the others are plain text."""

    svg: str
    title: str
    caption: str = ""


class Cell(NamedTuple):
    """A cell of a table; ``mark`` is a class of the style sheet, such as ``good``."""

    text: str
    mark: str = ""


class Table(NamedTuple):
    """Rows under a head; the first column names the row."""

    head: list[str]
    rows: list[list[Cell]]
    caption: str = ""
