"""The page of statements: a row for each, with its verdict and the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from pointset.reports.drawing.style import INK, QUIET, WALLS
from pointset.reports.express.page import FAILS, HEAD, HOLDS, MARGIN, SMALL, TEXT, WRONG, Page, broken

_VERDICTS = {"holds": (HOLDS, "✓"), "fails as printed": (FAILS, "✗")}  # all else is an error
_NAME, _CLAIM, _EVIDENCE = 2.2, 4.8, 8.4  # inches of the columns
_MARK, _GAP, _END = 0.5, 0.3, 0.15  # inches: before the name, between columns, behind the last
_LINE, _ABOVE = 0.19, 0.09  # inches: from line to line, above and below the text of a row
_MOST_LINES, _OF_EVIDENCE = 3, 12  # of a claim; of evidence, which says at its end what holds instead


class _Row(NamedTuple):
    name: list[str]
    verdict: str
    claim: list[str]
    evidence: list[str]

    @property
    def height(self) -> float:
        lines = max(len(self.name) + 1, len(self.claim), len(self.evidence))
        return lines * _LINE + 2 * _ABOVE


def compose_theorems(results: Sequence[Mapping[str, Any]]) -> Figure:
    """The whole page; its height follows the number of statements and the length of what is said of them."""
    rows = [_row(result) for result in results]
    wide = 2 * MARGIN + _MARK + _NAME + _CLAIM + _EVIDENCE + 2 * _GAP + _END
    page = Page(wide, HEAD + _LINE + _ABOVE + sum(row.height for row in rows) + MARGIN)
    page.head("The paper's statements, checked", _summary([row.verdict for row in rows]))
    claim = MARGIN + _MARK + _NAME + _GAP
    evidence = claim + _CLAIM + _GAP
    for left, title in ((MARGIN + _MARK, "statement"), (claim, "what it claims"), (evidence, "what was found")):
        page.write(left, HEAD, title, SMALL, QUIET)
    top = HEAD + _LINE + _ABOVE
    for index, row in enumerate(rows):
        colour, mark = _VERDICTS.get(row.verdict, (WRONG, "!"))
        if index % 2 == 0:
            page.box(MARGIN, top, wide - 2 * MARGIN, row.height, WALLS[0])
        page.box(MARGIN, top, 0.07, row.height, colour)
        page.write(MARGIN + 0.18, top + _ABOVE - 0.02, mark, 15, colour, weight="bold")
        _lines(page, MARGIN + _MARK, top, row.name, TEXT, INK, weight="bold")
        _lines(page, MARGIN + _MARK, top + len(row.name) * _LINE, [row.verdict], SMALL, colour)
        _lines(page, claim, top, row.claim, SMALL, QUIET)
        _lines(page, evidence, top, row.evidence, SMALL, INK)
        top += row.height
    return page.figure


def _row(result: Mapping[str, Any]) -> _Row:
    return _Row(
        broken(str(result["statement"]), _NAME, TEXT, 3, bold=True),
        str(result["verdict"]),
        broken(str(result.get("claim", "")), _CLAIM, SMALL, _MOST_LINES),
        broken(str(result["evidence"]), _EVIDENCE, SMALL, _OF_EVIDENCE),
    )


def _lines(page: Page, left: float, top: float, lines: Sequence[str], size: float, color: str, **style: Any) -> None:
    """Each at its own place, so that rows of several columns stay in line."""
    for index, line in enumerate(lines):
        page.write(left, top + _ABOVE + index * _LINE, line, size, color, **style)


def _summary(verdicts: Sequence[str]) -> str:
    counts = [(verdict, verdicts.count(verdict)) for verdict in dict.fromkeys(verdicts)]
    known = [*_VERDICTS]
    counts.sort(key=lambda one: known.index(one[0]) if one[0] in known else len(known))
    told = ",   ".join(f"{verdict}: {count}" for verdict, count in counts)
    return f"{len(verdicts)} statement{'' if len(verdicts) == 1 else 's'} as experiments.   {told}"
