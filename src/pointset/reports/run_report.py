"""Reports of training runs as single HTML files without network (:func:`write_report`, :func:`write_comparison`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pointset.errors import FileFormatError
from pointset.reports.run_pages.comparison import comparison_page
from pointset.reports.run_pages.pages import check_page_extra, rendered, write_page
from pointset.reports.run_pages.record import read_run, run_folders, several_in
from pointset.reports.run_pages.run_page import page_of


def write_report(run_dir: str | Path, path: str | Path | None = None) -> Path:
    """Write the report of a run: what was learned and how well, its curves, predictions, worst graphs, timings.

    Only files of the run folder are read. A run that has not finished gives a page with what there is. For a folder
    that holds several runs, such as seeds or folds, it is their comparison.

    Args:
        run_dir: the folder that ``pointset train`` made.
        path: where to write; by default ``report.html`` in the folder. An older file is replaced.

    Returns:
        The path written.

    Raises:
        MissingExtraError: jinja2 is not installed.
        FileFormatError: this is no run folder, or one of its files is damaged.
    """
    check_page_extra()
    folder = Path(run_dir)
    target = folder / "report.html" if path is None else Path(path)
    if run_folders(folder) != [folder]:
        return write_comparison([folder], target)
    write_page(rendered("run.html.j2", page_of(read_run(folder))), target)
    return target


def write_comparison(runs: Sequence[str | Path], path: str | Path) -> Path:
    """Write a page that compares runs: what differs in their recipes, test scores, validation curves, every target.

    Args:
        runs: run folders; one that holds several runs stands for all of them.
        path: where to write. An older file is replaced.

    Returns:
        The path written.

    Raises:
        MissingExtraError: jinja2 is not installed.
        FileFormatError: there is no run, one of the folders is no run folder, or a file is damaged.
    """
    check_page_extra()
    folders = [folder for run in runs for folder in run_folders(Path(run))]
    if not folders:
        raise FileFormatError("there is no run to compare; give at least one run folder")
    heading = several_in(Path(runs[0])) if len(runs) == 1 else None
    page = comparison_page([read_run(folder) for folder in folders], heading)
    write_page(rendered("comparison.html.j2", page), Path(path))
    return Path(path)
