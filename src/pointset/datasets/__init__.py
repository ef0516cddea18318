"""Files → graphs and a card. Imports points, never encoders.

>>> import pointset
>>> zinc = pointset.datasets.load("zinc")  # doctest: +SKIP
>>> zinc.card.metric, zinc.split["test"], zinc.graphs[0]  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:  # loaded on first use: the command line lists datasets without waiting for torch
    from pointset.datasets.card import Card as Card
    from pointset.datasets.dataset import Dataset as Dataset
    from pointset.datasets.loading import load as load
    from pointset.datasets.loading import names as names
    from pointset.datasets.own.memory import from_graphs as from_graphs
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
