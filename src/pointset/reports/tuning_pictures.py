"""Pictures of a study and a page with all of it, from what ``pointset tune`` writes as ``tuning.json``.

They raise ``MissingExtraError`` where matplotlib or jinja2 is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.reports.picture_files import check_picture_file, save_picture
from pointset.reports.run_pages.pages import check_page_extra, rendered, write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_history(content: Mapping[str, Any], path: str | Path) -> None:
    """The score of every trial, and the best so far.

    Args:
        content: of ``tuning.json``.
        path: where to write; ``.png``, ``.svg`` or ``.pdf``.
    """
    check_picture_file(path)
    from pointset.reports.tuning.history import compose_history

    _save(compose_history, content, path)


def draw_importance(content: Mapping[str, Any], path: str | Path) -> None:
    """How much each hyperparameter mattered; with too few trials it says so.

    Args:
        content: of ``tuning.json``.
        path: where to write; ``.png``, ``.svg`` or ``.pdf``.
    """
    check_picture_file(path)
    from pointset.reports.tuning.importance import compose_importance

    _save(compose_importance, content, path)


def write_tuning_report(content: Mapping[str, Any], folder: str | Path) -> Path:
    """Write ``history.svg``, ``importance.svg`` and ``report.html``, which holds both, into a folder.

    Args:
        content: of ``tuning.json``.
        folder: of the study.

    Returns:
        The path of the page.
    """
    check_page_extra()
    history, importance, page = (Path(folder) / name for name in ("history.svg", "importance.svg", "report.html"))
    draw_history(content, history)
    draw_importance(content, importance)
    from pointset.reports.tuning.page import page_of

    pictures = {history: "Scores of all trials", importance: "How much each hyperparameter mattered"}
    write_page(rendered("tuning.html.j2", page_of(content, pictures)), page)
    return page


def _save(compose: Callable[[Mapping[str, Any]], Figure], content: Mapping[str, Any], path: str | Path) -> None:
    """The same content gives the same file: without a salt, names inside of an SVG are random."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "pointset"}):
        save_picture(compose(content), path)
