"""The readers' options by their names in Python, on the shell and in a recipe, for messages (:func:`option`)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

# In Python → on the shell; none for what `pointset datasets check` does not take.
_ON_THE_SHELL = {
    "smiles": "--smiles",
    "targets": "--target",
    "columns": "--target",
    "task": "--task",
    "split": "--split",
    "seed": "--seed",
    "weights": "--weights",
    "duplicates": "--duplicates",
    "header": "--no-header",
    "sheet": "--sheet",
    "hydrogens": "--hydrogens",
    "conformer_seed": "",
    "lenient": "--lenient",
    "max_rejected": "--max-rejected",
    "max_nodes": "",
    "workers": "",
    "fold": "",
    "level": "--level",
    "node": "",
    "edge": "",
}
_OWN_KEYS = {"targets": "dataset.targets", "columns": "dataset.targets", "weights": "dataset.weight_column"}


def recipe_keys() -> dict[str, str]:
    """The key in a recipe of every option of ``smiles_csv`` and ``graph_files``."""
    return {name: _OWN_KEYS.get(name, f"dataset.options.{name}") for name in _ON_THE_SHELL}


def option(name: str, value: str | float | bool | None = None) -> str:
    """``smiles= (--smiles, dataset.options.smiles)``; with a value, how it is given in each of the three places."""
    shell, key = _ON_THE_SHELL[name], recipe_keys()[name]
    if value is None:
        return f"{name}= ({', '.join(filter(None, (shell, key)))})"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, bool):
        ways = (shell, f"{key}={text.lower()}")
    elif key == "dataset.targets":
        ways = (f"{shell} {shlex.quote(text)}", as_setting([text if isinstance(value, str) else int(value)]))
    else:
        ways = (shell and f"{shell} {shlex.quote(text)}", shlex.quote(f"{key}={text}"))
    return f"{name}={value!r} ({', '.join(filter(None, ways))})"


def as_setting(columns: Sequence[str | int]) -> str:
    """``dataset.targets=[logS]``, quoted for YAML and for the shell where the names need it; columns by number, too."""
    plain = re.compile(r"[A-Za-z][\w.+-]*( [\w.+-]+)*")
    listed = ",".join(
        str(column) if isinstance(column, int) or plain.fullmatch(column) else json.dumps(column, ensure_ascii=False)
        for column in columns
    )
    return shlex.quote(f"dataset.targets=[{listed}]")
