"""Predicting with a trained model: in Python (:func:`load`), and from files to a table in constant memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:
    from pointset.prediction.evaluation import evaluate as evaluate
    from pointset.prediction.journal import ResumableOutput as ResumableOutput
    from pointset.prediction.predictor import Predictor as Predictor
    from pointset.prediction.predictor import load as load
    from pointset.prediction.tables import PredictionOptions as PredictionOptions
    from pointset.prediction.tables import TablePrediction as TablePrediction
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
