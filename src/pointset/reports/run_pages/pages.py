"""Pages from templates: one self-contained HTML file, without scripts, that fetches nothing (:func:`rendered`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.errors import MissingExtraError
from pointset.files import replacing
from pointset.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Environment


def check_page_extra() -> None:
    """Refuse before any work is done where the templates could not be filled in.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    if find_spec("jinja2") is None:
        raise MissingExtraError(
            "a report needs jinja2, which is not installed. Install it with: pip install 'pointset[report]'"
        )


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """The template filled in; every value is escaped unless the template marks it as a drawing."""
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
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
    """Write the file whole or not at all; letters that UTF-8 does not know become question marks."""
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")
