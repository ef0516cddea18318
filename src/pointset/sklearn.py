"""Models of molecules and graphs as scikit-learn's estimators: :class:`PointSetRegressor`, :class:`PointSetClassifier`.

>>> from pointset.sklearn import PointSetRegressor
>>> model = PointSetRegressor(epochs=30, random_state=0).fit(["CCO", "CCC", ...], [0.1, 0.3, ...])  # doctest: +SKIP
>>> model.predict(["CCN"])  # doctest: +SKIP

X is a list, array, Series or one-column frame of SMILES, RDKit molecules or graphs, and not a matrix. They work
wherever scikit-learn hands X on row by row: ``cross_val_score``, ``GridSearchCV``, pipelines, ``clone``. Training is
that of ``pointset train``, with the recipes ``molecules`` and ``graphs``.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pointset.arrays import Floats
from pointset.datasets.card import Task
from pointset.datasets.molecules.parsing import is_mol, smiles_of
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.datasets.own.memory import MemoryTargets, graphs_in_memory, molecules_in_memory
from pointset.datasets.splits import random_split, stratified_split
from pointset.datasets.splits.parts import Split
from pointset.errors import MissingExtraError, SpecError, TrainingStopped
from pointset.files import replacing
from pointset.prediction.predictor import Predictor, load
from pointset.runs.folder import RunFolder
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe
from pointset.training.data import training_data
from pointset.training.run import train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
    from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
    from sklearn.metrics import r2_score  # type: ignore[import-untyped]
    from sklearn.utils import TransformerTags, check_random_state  # type: ignore[import-untyped]
except ImportError:
    raise MissingExtraError("scikit-learn is not installed: pip install 'pointset[chem]'") from None

_LARGEST_SEED = 2**31 - 1
# Parameters of the estimators, and the recipe's keys that they are short for.
_KEYS = {
    "preset": "model.preset",
    "dim": "model.dim",
    "layers": "model.layers",
    "pooling": "model.pooling",
    "descriptors": "model.descriptors",
    "epochs": "trainer.epochs",
    "batch_size": "trainer.batch_size",
    "patience": "trainer.patience",
    "optimizer": "optimizer.method",
    "lr": "optimizer.lr",
    "weight_decay": "optimizer.weight_decay",
    "ensemble": "ensemble",
}


class _PointSetEstimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common.

    Args:
        preset: the model's preset. Here and below, None stands for what the recipe ``molecules`` (or ``graphs``) says.
        dim: channels.
        layers: layers.
        pooling: ``"mean"``, ``"sum"`` or ``"max"`` over the nodes.
        descriptors: ``"morgan"`` or ``"rdkit"``, numbers of each molecule that are joined to its points.
        epochs: how often all training graphs are seen.
        batch_size: graphs in a step.
        patience: epochs without a better validation score after which training ends.
        optimizer: ``"adamw"`` or ``"soap"``.
        lr: the highest learning rate.
        weight_decay: decoupled.
        ensemble: so many members, whose mean is predicted.
        validation_fraction: the share of X by which the best epoch is chosen and intervals are calibrated; it is not
            trained on. With 0 the last epoch is taken.
        settings: any keys of the recipe, such as ``{"trainer.ema": 0.999, "trainer.threads": 1}``; they come last.
        random_state: of the weights, the order, and the validation part.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        verbose: whether to show progress.

    After :meth:`fit` there are ``result_`` (as in ``result.json``), ``n_iter_`` (epochs) and ``predictor_``.
    """

    def __init__(
        self,
        *,
        preset: str | None = None,
        dim: int | None = None,
        layers: int | None = None,
        pooling: str | None = None,
        descriptors: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        patience: int | None = None,
        optimizer: str | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        ensemble: int | None = None,
        validation_fraction: float = 0.1,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ):
        self.preset = preset
        self.dim = dim
        self.layers = layers
        self.pooling = pooling
        self.descriptors = descriptors
        self.epochs = epochs
        self.batch_size = batch_size
        self.patience = patience
        self.optimizer = optimizer
        self.lr = lr
        self.weight_decay = weight_decay
        self.ensemble = ensemble
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    # --- learning

    def _fit(self, X: Any, targets: MemoryTargets) -> Self:
        items = _items(X)
        if len(items) != len(targets.y):
            raise SpecError(f"got {len(items):,} rows of X and {len(targets.y):,} of y; expected as many of both")
        texts = _as_smiles(items)
        seed = int(check_random_state(self.random_state).randint(_LARGEST_SEED))
        recipe = self._recipe("graphs" if texts is None else "molecules", seed)
        split = self._split(targets, seed)
        bars = None if self.verbose else False
        if texts is None:
            dataset = graphs_in_memory(items, targets, split)
        else:
            dataset = molecules_in_memory(texts, targets, split, _reader(recipe), progress=bars)
        data = training_data(dataset, recipe, progress=bars)
        with tempfile.TemporaryDirectory(prefix="pointset-") as temporary:
            folder, watch = Path(temporary) / "run", "auto" if self.verbose else "quiet"
            try:
                self.result_ = train(recipe, folder, device=self.device, watch=watch, data=data)
            except TrainingStopped:  # what it has saved goes with the folder
                raise KeyboardInterrupt from None
            self._bundle = _zipped(RunFolder(folder).bundle)
            self._predictor: Predictor | None = load(folder)
        self.n_iter_ = int(self.result_["epochs"])
        return self

    def _recipe(self, name: str, seed: int) -> Recipe:
        values: dict[str, Any] = {"dataset.file": "memory", "seed": seed, "trainer.baseline": False}
        values |= {key: getattr(self, own) for own, key in _KEYS.items() if getattr(self, own) is not None}
        values |= dict(self.settings or {})
        return read_recipe(name, [f"{key}={_written(value)}" for key, value in values.items()])

    def _split(self, targets: MemoryTargets, seed: int) -> Split:
        """Training and validation part; classes have the same share in both, as far as their numbers allow."""
        share, count = self.validation_fraction, len(targets.y)
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
            raise SpecError(f"got validation_fraction={share!r}; expected a number from 0 to below 1")
        if round(share * count) == 0 or count < 2:
            return {"train": np.arange(count), "val": np.arange(0), "test": np.arange(0)}
        shares = (count - max(1, round(share * count)), max(1, round(share * count)), 0)
        one_class = targets.task in (Task.BINARY, Task.MULTI_CLASS)
        if one_class:
            return stratified_split(targets.y.reshape(-1), shares, seed=seed)
        return random_split(count, shares, seed=seed)

    # --- predicting

    @property
    def predictor_(self) -> Predictor:
        """The trained model, as :func:`pointset.load` gives it."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(X, y) first")
        if self._predictor is None:
            with tempfile.TemporaryDirectory(prefix="pointset-") as temporary:
                path = Path(temporary) / "bundle.zip"
                path.write_bytes(self._bundle)
                self._predictor = load(path)
        return self._predictor

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_bundle")

    def _predicted(self, X: Any) -> Floats:
        """(rows, k) numbers or probabilities."""
        predictor = self.predictor_
        found: Floats = predictor.predict(_items(X), progress=None if self.verbose else False).numpy()
        return found

    def transform(self, X: Any) -> NDArray[np.floating]:
        """(rows, d) representations of the graphs, to learn from or to compare."""
        predictor = self.predictor_
        found: NDArray[np.floating] = predictor.embed(_items(X), progress=None if self.verbose else False).numpy()
        return found

    embed = transform

    def fit_transform(self, X: Any, y: Any, sample_weight: Any = None) -> NDArray[np.floating]:
        """Train, then :meth:`transform`."""
        fitted: Self = self.fit(X, y, sample_weight)
        return fitted.transform(X)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on molecules or graphs X with targets y."""
        raise NotImplementedError

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of :meth:`transform`."""
        width = self.predictor_.representations(None).width
        return np.array([f"{type(self).__name__.lower()}{column}" for column in range(width)], dtype=object)

    # --- keeping: a bundle's bytes, no objects of torch

    def save(self, path: str | Path) -> None:
        """Write the trained model as a bundle (``.zip``), for :func:`pointset.load` and ``pointset predict``."""
        _ = self.predictor_
        if Path(path).suffix.lower() != ".zip":
            raise SpecError(f"got {path}; expected a name that ends in .zip")
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(self._bundle)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if "_predictor" in state:
            state["_predictor"] = None
        return state


class PointSetRegressor(RegressorMixin, _PointSetEstimator):  # type: ignore[misc]
    __doc__ = f"""Learns numbers of molecules or graphs.

    {_PointSetEstimator.__doc__}"""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; ``y`` is (rows,) or (rows, k) numbers, NaN where unknown."""
        numbers = _numbers(y)
        self._flat = numbers.ndim == 1
        columns = numbers.reshape(len(numbers), -1)
        unknown = np.flatnonzero(np.isnan(columns).all(1))
        if len(unknown):
            raise SpecError(f"row {unknown[0]} of y has no value; expected one at least. Leave the row out")
        names = _target_names(y, columns.shape[1])
        weights = _weights(sample_weight, len(columns))
        return self._fit(X, MemoryTargets(Task.REGRESSION, names, columns, weights=weights))

    def predict(self, X: Any) -> Floats:
        """(rows,) numbers, or (rows, k) where ``y`` had columns."""
        found = self._predicted(X)
        return found[:, 0] if self._flat else found

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Floats:
        """(rows, 2) ends of intervals that hold the truth with this probability; (rows, k, 2) where y had columns.

        They are calibrated on the validation part.
        """
        found = self.predictor_.predict_interval(_items(X), confidence, progress=None if self.verbose else False)
        ends: Floats = np.stack([np.asarray(found.lower), np.asarray(found.upper)], axis=-1)
        return ends[:, 0] if self._flat else ends

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean of R² over the targets, each over the rows where it is known."""
        numbers = _numbers(y)
        true, predicted = (part.reshape(len(numbers), -1) for part in (numbers, self.predict(X)))
        weights = np.ones(len(true)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        known = ~np.isnan(true)
        scores = [
            r2_score(true[rows, column], predicted[rows, column], sample_weight=weights[rows])
            for column, rows in enumerate(known.T)
        ]
        return float(np.mean(scores))


class PointSetClassifier(ClassifierMixin, _PointSetEstimator):  # type: ignore[misc]
    __doc__ = f"""Learns classes of molecules or graphs, or several labels of 0 and 1.

    {_PointSetEstimator.__doc__} Classes are in ``classes_``.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; ``y`` is (rows,) classes of any type, or (rows, k) labels of 0 and 1, NaN where unknown."""
        given = np.asarray(y)
        weights = _weights(sample_weight, len(given))
        self._labels = given.ndim == 2 and given.shape[1] > 1
        if self._labels:
            numbers = _numbers(y)
            if not np.isin(numbers[~np.isnan(numbers)], (0, 1)).all():
                raise SpecError("got y with several columns; expected 0 and 1 in each, or one column of classes")
            self.classes_ = np.array([0, 1])
            return self._fit(X, MemoryTargets(Task.MULTI_LABEL, _target_names(y, given.shape[1]), numbers, (), weights))
        self.classes_, classes = _classes(given.reshape(-1))
        name = _target_names(y, 1)
        if len(self.classes_) == 2:
            return self._fit(X, MemoryTargets(Task.BINARY, name, classes.astype(np.float64)[:, None], (), weights))
        names = tuple(map(str, range(len(self.classes_))))  # ours are of any type, and two may be written alike
        return self._fit(X, MemoryTargets(Task.MULTI_CLASS, name, classes, names, weights))

    def predict_proba(self, X: Any) -> Floats:
        """(rows, classes) probabilities in the order of ``classes_``; of labels (rows, k) that of each."""
        found = self._predicted(X)
        return np.hstack([1 - found, found]) if found.shape[1] == 1 else found

    def predict(self, X: Any) -> NDArray[Any]:
        """(rows,) the most probable class; of labels (rows, k) those above one half."""
        probabilities = self.predict_proba(X)
        if self._labels:
            return (probabilities > 0.5).astype(np.int64)
        chosen: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return chosen


# --- what comes in


def _items(X: Any) -> list[Any]:
    """One item for each row: of a list, an array, a Series, or a frame with one column."""
    if isinstance(X, (str, bytes)) or is_mol(X) or not hasattr(X, "__len__"):
        raise SpecError(
            f"got X of type {type(X).__name__}; expected a list, array or Series of SMILES, molecules or graphs"
        )
    shape = getattr(X, "shape", ())
    if len(shape) == 2:
        values = np.asarray(X)
        if values.dtype.kind not in "OUT" or values.shape[1] != 1:
            raise SpecError(
                f"got X of shape {tuple(shape)} and type {values.dtype}; expected one column of SMILES, molecules or "
                "graphs, not a matrix of features"
            )
        X = values[:, 0]
    items = [
        str(item) if isinstance(item, np.str_) else item for item in (X.tolist() if isinstance(X, np.ndarray) else X)
    ]
    if not items:
        raise SpecError("got X with 0 rows; expected at least one")
    return items


def _as_smiles(items: Sequence[Any]) -> list[str] | None:
    """(G,) SMILES of the items, where they are texts and molecules of RDKit; None where they are graphs."""
    molecules = [isinstance(item, str) or is_mol(item) for item in items]
    if not any(molecules):
        return None
    if not all(molecules):
        at = molecules.index(False)
        raise SpecError(
            f"item {at} is of type {type(items[at]).__name__}; expected a SMILES or a molecule, as others are"
        )
    return [item.strip() if isinstance(item, str) else smiles_of(item) for item in items]


def _reader(recipe: Recipe) -> MoleculeReader:
    try:
        return MoleculeReader(**recipe.dataset.options)
    except TypeError as error:
        raise SpecError(f"settings: dataset.options: {error}; expected those of MoleculeReader") from None


def _numbers(y: Any) -> Floats:
    """(rows,) or (rows, k) float64."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpecError("got y with values that are not numbers; expected numbers, NaN where unknown") from None
    if not numbers.size:
        raise SpecError("got y with 0 rows or columns; expected at least one")
    if numbers.ndim not in (1, 2) or np.isinf(numbers).any():
        raise SpecError(
            f"got y of shape {numbers.shape}, or with infinite values; expected (rows,) or (rows, k) numbers"
        )
    return numbers


def _classes(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes in order, and the number of each row's."""
    missing = [at for at, value in enumerate(y.tolist()) if value is None or value != value]
    if missing:
        raise SpecError(f"row {missing[0]} of y has no class; expected one in each. Leave the row out")
    if y.dtype.kind == "f" and (y != np.round(y)).any():
        raise SpecError("Unknown label type: got y with fractions; expected classes. For numbers use PointSetRegressor")
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise SpecError(f"got y with the one class {classes[0]!r}; expected two classes at least")
    return classes, numbers.reshape(-1).astype(np.int64)


def _target_names(y: Any, count: int) -> tuple[str, ...]:
    """Names of the columns of a frame, or of a Series; else y, or y0, y1, …."""
    columns = getattr(y, "columns", None)
    if columns is not None:
        return tuple(map(str, columns))
    if getattr(y, "name", None) is not None:
        return (str(y.name),)
    return ("y",) if count == 1 else tuple(f"y{column}" for column in range(count))


def _weights(given: Any, count: int) -> Floats | None:
    if given is None:
        return None
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (count,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise SpecError(f"got sample_weight of shape {weights.shape}; expected ({count},) numbers, none below 0")
    if not weights.any():
        raise SpecError("got sample_weight with zero weight in every row; expected some above 0")
    return weights


def _written(value: Any) -> str:
    """A value as on the command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _zipped(folder: Path) -> bytes:
    """The files of a bundle in one archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return content.getvalue()
