"""Small models with random weights, and cards of every task, for tests of bundles and predictions."""

from __future__ import annotations

from typing import Any

import torch

from pointset import PointModel
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.molecules.features import OGB_FEATURES
from tests.tolerances import terms_of_model

CLASSES = ("red", "green", "blue")
TERMS = terms_of_model(nodes=30, dim=6, layers=2)  # of :func:`model_of`, on graphs of up to 30 nodes


def card_of(
    task: Task = Task.REGRESSION, *, level: Level = Level.GRAPH, names: tuple[str, ...] = ("logS",), **about: Any
) -> Card:
    return Card(
        name="small",
        title="Small data",
        description="",
        level=level,
        task=task,
        targets=tuple(Target(name, "eV" if task is Task.REGRESSION else "", "a meaning") for name in names),
        metric=Metric.MAE if task is Task.REGRESSION else Metric.ACCURACY,
        split="",
        classes=CLASSES if task is Task.MULTI_CLASS else (),
        **about,
    )


def molecule_card(task: Task = Task.REGRESSION, **about: Any) -> Card:
    features = {key: OGB_FEATURES[key] for key in ("node", "edge", "molecules")}
    return card_of(task, **{**features, **about})


def model_of(card: Card, preset: str = "pst", *, seed: int = 0, **settings: Any) -> PointModel:
    """Weights that differ from those at the beginning, so that no layer is the identity by chance."""
    settings = {"node": card.node, "edge": card.edge, "dim": 6, "layers": 2, **settings}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PointModel.from_preset(preset, out=card.outputs, level=card.level.value, **settings)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()
