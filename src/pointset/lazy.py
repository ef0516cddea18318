"""Names of a package that are imported on first use (:func:`on_first_use`).

torch takes 1.5 s to import and PyG 3 s: ``pointset --help``, ``import pointset`` and the list of datasets do not wait.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``homes`` says which module each name is in."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
