"""What mkdocs fills in when it builds the pages: the list of presets, from :mod:`pointset.registry`."""

from __future__ import annotations

from typing import Any

from pointset.registry import PRESETS

MARK = "<!-- all presets -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with a table of all presets in the place of the mark."""
    rows = [f"| `{name}` | {preset.kind} | {preset.summary} |" for name, preset in PRESETS.items()]
    return markdown.replace(MARK, "\n".join(["| name | kind | what it is |", "|---|---|---|", *rows]))
