"""The tables that are shipped, by name, and own ones from a file (:func:`table_names`, :func:`table_named`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pointset.errors import FileFormatError, MissingDataError, SpecError, did_you_mean
from pointset.studies.tables.spec import TableSpec
from pointset.training.recipe_yaml import read_value


def table_names() -> list[str]:
    """In the paper's order."""
    return list(_shipped())


def table_named(name_or_path: str | Path) -> TableSpec:
    """A table by its name, or from a YAML file of one's own.

    Raises:
        SpecError: there is no such table, or its file says what cannot be.
        MissingDataError: there is no such file.
        FileFormatError: the file is no YAML.
    """
    text = str(name_or_path)
    if text in _shipped():
        return _checked(_shipped()[text], f"the table {text!r}")
    path = Path(name_or_path)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise SpecError(
            f"there is no table {text!r}{did_you_mean(text.lower(), table_names())}\n"
            f"expected one of {', '.join(table_names())}, or a YAML file of your own"
        )
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}; expected a table: {', '.join(table_names())}, or a YAML file")
    return _checked(_values(path), str(path))


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    files = [file for file in (resources.files("pointset.studies.tables") / "specs").iterdir() if file.name[0] != "."]
    tables = [_values(file) for file in files]
    return {table["name"]: table for table in sorted(tables, key=_place)}


def _place(table: Mapping[str, Any]) -> tuple[int, str]:
    number = re.search(r"\d+", table["paper_table"])
    return int(number.group()) if number else 0, table["name"]


def _values(file: Any) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        values = read_value(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, FileFormatError) as error:
        raise FileFormatError(f"{file} cannot be read as YAML: {error}") from None
    if not isinstance(values, dict):
        raise FileFormatError(f"{file} is no table: expected keys such as `columns:` and `ours:`")
    return values


def _checked(values: Mapping[str, Any], place: str) -> TableSpec:
    """With the columns and tasks of the tables that it ``uses`` before its own."""
    used = values.get("uses") if isinstance(values.get("uses"), list) else []
    for name in used or []:
        if name not in _shipped():
            raise SpecError(f"{place}: got uses: {name!r}; expected one of {', '.join(table_names())}")
    shared = {
        key: [item for name in used or [] for item in _shipped()[name][key]] + list(values.get(key) or [])
        for key in ("columns", "tasks")
    }
    try:
        return TableSpec.model_validate({**values, **shared})
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, entry['loc'])) or 'table'}: {entry['msg']}" for entry in error.errors()]
        raise SpecError(f"{place}: " + "\n".join(lines[:5])) from None
