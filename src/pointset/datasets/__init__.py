"""Files → graphs and a card. Imports points, never encoders.

>>> import pointset
>>> zinc = pointset.datasets.load("zinc")  # doctest: +SKIP
>>> zinc.card.metric, zinc.split["test"], zinc.graphs[0]  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:
    from pointset.datasets.card import Card as Card
    from pointset.datasets.dataset import Dataset as Dataset
    from pointset.datasets.loading import load as load
    from pointset.datasets.loading import names as names

_HOME = {
    "load": "pointset.datasets.loading",
    "names": "pointset.datasets.loading",
    "Dataset": "pointset.datasets.dataset",
    "Card": "pointset.datasets.card",
}
__all__ = list(_HOME)


if not TYPE_CHECKING:  # loaded on first use: the command line lists datasets without waiting for torch
    __getattr__ = on_first_use(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
