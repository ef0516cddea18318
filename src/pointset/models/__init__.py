"""Trained models that come with the package: their names, cards and files (:func:`names`, :func:`card`, :func:`path`).

Each is one bundle, ``NAME.zip``, beside this file; a name stands for it wherever the folder of a run does, as in
``pointset.load("NAME")``. ``make models`` trains and packs them again. Light to import: no torch, no numpy.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pointset.errors import FileFormatError, SpecError, did_you_mean
from pointset.files import open_binary

_FOLDER = Path(__file__).parent
_DESCRIPTION = "bundle.json"
_MOST_BYTES = 2**20  # of a description


def names() -> tuple[str, ...]:
    """All of them, in alphabetical order."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.zip")))


def find(name: str) -> Path | None:
    """The bundle of a shipped model; None where none is called so."""
    return _FOLDER / f"{name}.zip" if name in names() else None


def path(name: str) -> Path:
    """The bundle of a shipped model.

    Raises:
        SpecError: there is no such model.
    """
    found = find(name)
    if found is None:
        raise SpecError(f"there is no shipped model {name!r}; expected one of {', '.join(names())}{near(name)}")
    return found


def near(name: str) -> str:
    """``"; did you mean 'solubility'?"`` where a shipped name is near."""
    return did_you_mean(name.lower(), list(names()))


def card(name: str) -> dict[str, Any]:
    """What a shipped model is, in plain values: what it predicts, data, licence, scores, command, domain, …

    Besides what was written when it was packed, ``file`` is the path of its bundle and ``bytes`` the size. ``None``
    stands for what does not exist: a published score, a forest where graphs are not molecules.

    Raises:
        SpecError: there is no such model.
        FileFormatError: its file is damaged.
    """
    file = path(name)
    try:
        with open_binary(file) as packed, zipfile.ZipFile(packed) as archive, archive.open(_DESCRIPTION) as member:
            description = json.loads(member.read(_MOST_BYTES))
        told = description["about"]["card"]
        return {**told, **derived(description), "file": str(file), "bytes": file.stat().st_size}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, TypeError, ValueError, OSError) as error:
        raise FileFormatError(f"{file} is damaged ({error}); install pointset again") from None


def derived(description: Mapping[str, Any]) -> dict[str, Any]:
    """What a card says that stands elsewhere in ``bundle.json``; a card that is packed need not repeat it."""
    about, data, model = description["about"], description["card"], description["model"]
    members = 1 + len(description.get("other_members", ()))
    made_of = f"{model['preset']}, {model['layers']} layers of {model['dim']}"
    return {
        "noun": "molecule" if data["molecules"] else "graph",
        "task": data["task"],
        "level": data["level"],
        "targets": data["targets"],
        "test": about.get("test"),
        "recipe": about.get("recipe"),
        "command": f"pointset train {about.get('recipe')} --data-dir DATA",
        "model": made_of + (f", {members} members" if members > 1 else ""),
    }
