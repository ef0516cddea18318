"""From a recipe and data to a trained model in a run's folder: :func:`train`, and the parts that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:
    from pointset.training.bundle import Bundle as Bundle
    from pointset.training.bundle import read_bundle as read_bundle
    from pointset.training.bundle import write_bundle as write_bundle
    from pointset.training.data import TrainingData as TrainingData
    from pointset.training.data import build_model as build_model
    from pointset.training.data import load_data as load_data
    from pointset.training.optim import SOAP as SOAP
    from pointset.training.optim import learning_rate_factor as learning_rate_factor
    from pointset.training.optim import make_optimizer as make_optimizer
    from pointset.training.progress import Plan as Plan
    from pointset.training.progress import Watcher as Watcher
    from pointset.training.run import repeats_of as repeats_of
    from pointset.training.run import train as train
    from pointset.training.run import train_many as train_many
    from pointset.training.scoring import Scores as Scores
    from pointset.training.scoring import score as score
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
