"""The user's own data as datasets: molecules in a CSV (:func:`smiles_csv`), graph files (:func:`graph_files`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:  # loaded on first use: reading rows does not wait for torch
    from pointset.datasets.own.columns import holds_molecules as holds_molecules
    from pointset.datasets.own.graphs import graph_files as graph_files
    from pointset.datasets.own.molecules import smiles_csv as smiles_csv
    from pointset.datasets.own.rejected import Rejected as Rejected
    from pointset.datasets.own.rejected import TooManyRejectedError as TooManyRejectedError
    from pointset.datasets.own.rejected import write_rejected as write_rejected
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
