"""The user's own data as datasets: molecules in a CSV (:func:`smiles_csv`), graph files (:func:`graph_files`)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pointset.datasets.own.graph_dataset import graph_files as graph_files
    from pointset.datasets.own.molecule_dataset import smiles_csv as smiles_csv
    from pointset.datasets.own.rejected import Rejected as Rejected
    from pointset.datasets.own.rejected import write_rejected as write_rejected

_HOME = {
    "smiles_csv": "molecule_dataset",
    "graph_files": "graph_dataset",
    "Rejected": "rejected",
    "write_rejected": "rejected",
}
__all__ = list(_HOME)


if not TYPE_CHECKING:  # loaded on first use: reading rows does not wait for torch

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
