"""The keys of ``recipe.yaml`` that a report puts into words."""

from __future__ import annotations

from typing import Any

from pointset.reports.run_pages.forms import Expected, Form


class DatasetForm(Form):
    """What to learn from."""

    name: str | None = None
    file: str | None = None
    targets: list[str] | None = None
    options: dict[str, Any] | None = None
    weighted_edges: int | None = None
    fold: int | None = None
    folds: int = 10


class ModelForm(Form):
    """The network."""

    preset: str = "pst"
    dim: int = 64
    layers: int = 4
    pooling: str = "mean"
    noise: float = 0.0


class OptimizerForm(Form):
    """What changes the weights."""

    method: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    clip: float | None = 1.0


class ScheduleForm(Form):
    """The learning rate over the epochs."""

    shape: str = "anneal"
    warmup: float = 0.0
    cosine: float = 0.0


class TrainerForm(Form):
    """The loop."""

    epochs: int | None = None
    batch_size: int | None = None
    ema: float | None = None
    patience: int | None = None
    precision: str = "32"


class RecipeForm(Form):
    """``recipe.yaml``."""

    name: str = ""
    title: str = ""
    dataset: DatasetForm = DatasetForm()
    model: ModelForm = ModelForm()
    loss: str | None = None
    optimizer: OptimizerForm = OptimizerForm()
    schedule: ScheduleForm = ScheduleForm()
    trainer: TrainerForm = TrainerForm()
    metric: str | None = None
    scale_targets: bool = True
    seed: int | None = None
    expected: Expected | None = None
