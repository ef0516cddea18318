"""Names of a package that are imported on first use (:func:`on_first_use`).

torch takes 1.5 s to import and PyG 3 s: ``pointset --help``, ``import pointset`` and the list of datasets do not wait.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from typing import Any


def on_first_use(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package that names its exports for type checkers only.

    The imports under ``if TYPE_CHECKING:`` in its ``__init__.py`` are the one list of them: it is read from the source.
    """
    module: Any = sys.modules[package]
    blocks = [node for node in ast.parse(module.__loader__.get_source(package)).body if isinstance(node, ast.If)]
    checked = [block for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING"]
    imports = [node for block in checked for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:  # a submodule
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return find, lambda: sorted({*vars(module), *homes}), list(homes)
