"""The files of a table's result (:func:`written`), and reading it back (:func:`read_table`)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from pointset.errors import FileFormatError
from pointset.files import replacing
from pointset.studies.tables.rendering.html import html_page
from pointset.studies.tables.rendering.latex import latex_table
from pointset.studies.tables.rendering.markdown import markdown_page
from pointset.studies.tables.rendering.sheet import name_of
from pointset.studies.tables.result import TableResult
from pointset.training.json_files import read_json, write_json

_SHOWN_PROBLEMS = 3


def written(result: TableResult, folder: Path) -> list[Path]:
    """Write ``TABLE-BUDGET`` as .json, .md, .tex and .html, each whole or not at all; older files are replaced.

    The JSON, which all else is made of, comes first. The page is left out where jinja2 is not installed: measurements
    of hours are not to fail at their end.

    Raises:
        FileFormatError: the name of the table cannot be that of a file.
    """
    name = name_of(result)
    if Path(name).name != name or "\x00" in name:
        raise FileFormatError(f"got a table called {result.table!r}; expected a name without / to call its files by")
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{name}.json"
    write_json(data, result.model_dump(mode="json"))
    makers = {".md": markdown_page, ".tex": latex_table}
    if find_spec("jinja2") is not None:
        makers[".html"] = html_page
    paths = [data]
    for suffix, make in makers.items():
        path = folder / f"{name}{suffix}"
        with replacing(path) as temporary:
            temporary.write_text(make(result), encoding="utf-8")
        paths.append(path)
    return paths


def read_table(path: str | Path) -> TableResult:
    """The result that :func:`written` wrote as JSON.

    Raises:
        FileFormatError: the file is damaged, or something else.
    """
    path = Path(path)
    content = read_json(path)
    if "table" not in content:
        raise FileFormatError(f'{path} is not a table\'s result: it has no "table"; `pointset reproduce` writes them')
    try:
        return TableResult.model_validate(content)
    except ValidationError as error:
        raise FileFormatError(f"{path} is damaged: {_problems(error)}. Make it anew: pointset reproduce") from None


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    told = [f"{'.'.join(map(str, one['loc'])) or 'the table'}: {one['msg'].lower()}" for one in found]
    more = len(told) - _SHOWN_PROBLEMS
    return "; ".join(told[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
