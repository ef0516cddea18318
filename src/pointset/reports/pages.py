"""Reports of runs, each one HTML file that fetches nothing: :func:`write_report`, :func:`write_comparison`.

Other pages are made from templates by the same :func:`rendered` and :func:`write_page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.errors import FileFormatError, MissingExtraError
from pointset.files import replacing
from pointset.machine import VERSION
from pointset.reports.comparison import comparison_page
from pointset.reports.palette import css_variables
from pointset.reports.run_page import run_page
from pointset.runs.records import read_group, read_run, run_folders
from pointset.text import for_markup

if TYPE_CHECKING:
    from jinja2 import Environment


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
        FileFormatError: this is not a run folder, or one of its files is damaged.
    """
    check_page_extra()
    folder = Path(run_dir)
    target = folder / "report.html" if path is None else Path(path)
    if run_folders(folder) != [folder]:
        return write_comparison([folder], target)
    write_page(rendered("run.html.j2", run_page(read_run(folder))), target)
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
        FileFormatError: there is no run, one of the folders is not a run folder, or a file is damaged.
    """
    check_page_extra()
    folders = [folder for run in runs for folder in run_folders(Path(run))]
    if not folders:
        raise FileFormatError("there is no run to compare; give at least one run folder")
    heading = read_group(Path(runs[0])) if len(runs) == 1 else None
    page = comparison_page([read_run(folder) for folder in folders], heading)
    write_page(rendered("comparison.html.j2", page), Path(path))
    return Path(path)


def check_page_extra() -> None:
    """Refuse before any work is done where the templates could not be filled in."""
    if find_spec("jinja2") is None:
        raise MissingExtraError(
            "a report needs jinja2, which is not installed. Install it with: pip install 'pointset[report]'"
        )


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """The template filled in; every value is escaped unless the template marks it as a drawing."""
    style = css_variables() + files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return _environment().get_template(template).render(values, style=style, version=VERSION)


@cache
def _environment() -> Environment:
    """Keeps the compiled templates for the next page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_page(page: str, path: Path) -> None:
    """Write the file whole or not at all; letters that UTF-8 or HTML does not know become question marks."""
    with replacing(path) as temporary:
        temporary.write_text(for_markup(page), encoding="utf-8", errors="replace")
