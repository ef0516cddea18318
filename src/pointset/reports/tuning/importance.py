"""How much each hyperparameter mattered, as bars (:func:`compose_importance`). Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from pointset.reports.drawing.style import HAIRLINE, INK, NEGATIVE, QUIET
from pointset.reports.express.page import HEAD, MARGIN, TEXT, Page, width_of
from pointset.reports.run_pages.words import count

_WIDE, _ROW, _BAR, _NUMBER = 7.6, 0.44, 0.24, 0.65  # inches: the page, a row, its bar, the number behind it
TOO_FEW = "With so few complete trials it cannot be said how much each mattered: it needs at least 4."


def compose_importance(content: Mapping[str, Any]) -> Figure:
    """The picture; ``content``: what ``pointset tune`` writes as tuning.json."""
    shares: Mapping[str, float] = content["importance"] or {}
    page = Page(_WIDE, HEAD + max(len(shares), 1) * _ROW + MARGIN)
    page.head(f"{content['recipe']}: what mattered", _subtitle(content))
    if not shares:
        page.write(MARGIN, HEAD + 0.1, TOO_FEW, color=QUIET)
    name = max((width_of(key, TEXT) for key in shares), default=0.0) + 0.25
    track = _WIDE - 2 * MARGIN - name - _NUMBER
    most = max([*shares.values(), 1e-9])
    for row, (key, share) in enumerate(shares.items()):
        middle = HEAD + (row + 0.5) * _ROW
        left, top = MARGIN + name, middle - _BAR / 2
        page.write(MARGIN, middle, key, color=INK, va="center_baseline")
        page.box(left, top, track, _BAR, HAIRLINE, zorder=-2)
        page.box(left, top, track * share / most, _BAR, NEGATIVE)
        page.write(left + track + 0.12, middle, f"{share:.0%}", color=INK, weight="bold", va="center_baseline")
    return page.figure


def _subtitle(content: Mapping[str, Any]) -> str:
    done = sum(trial["state"] == "complete" for trial in content["trials"])
    return f"How unlike all values those of the best quarter are (PED-ANOVA), of {count(done, 'complete trial')}"
