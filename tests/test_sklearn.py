"""The estimators behave as scikit-learn's do: learning, searching, pickling; X is a list of molecules or graphs."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import pointset
from pointset.errors import PointsetError

pytest.importorskip("sklearn")
pytest.importorskip("rdkit")

from rdkit import Chem
from sklearn.base import clone  # type: ignore[import-untyped]
from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
from sklearn.linear_model import Ridge  # type: ignore[import-untyped]
from sklearn.model_selection import GridSearchCV, cross_val_score  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import FunctionTransformer  # type: ignore[import-untyped]
from sklearn.utils import estimator_checks  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from pointset.sklearn import PointSetClassifier, PointSetRegressor

SMILES = ["C" * (1 + number % 7) + "O" * (number % 3) for number in range(24)]
CARBONS = [float(text.count("C")) for text in SMILES]
SMALL: dict[str, Any] = {
    "dim": 8,
    "layers": 1,
    "epochs": 4,
    "lr": 0.01,
    "batch_size": 8,
    "pooling": "sum",
    "random_state": 0,
    "device": "cpu",
    "settings": {
        "model.descriptors": None,
        "model.dropout": 0.0,
        "trainer.threads": 1,
        "trainer.ema": None,
        "schedule.warmup": 0,
    },
}


@pytest.fixture(scope="module")
def fitted() -> PointSetRegressor:
    return PointSetRegressor(**SMALL).fit(SMILES, CARBONS)


def test_it_learns(fitted: PointSetRegressor) -> None:
    longer = clone(fitted).set_params(epochs=30).fit(SMILES, CARBONS)
    assert longer.score(SMILES, CARBONS) > 0.7 and longer.predict(SMILES).shape == (24,)
    assert longer.n_iter_ <= 30 and longer.result_["split_sizes"] == {"train": 22, "val": 2, "test": 0}


def test_the_same_seed_gives_the_same_model_and_another_another(fitted: PointSetRegressor) -> None:
    again, other = clone(fitted).fit(SMILES, CARBONS), clone(fitted).set_params(random_state=1).fit(SMILES, CARBONS)
    assert np.array_equal(again.predict(SMILES), fitted.predict(SMILES))
    assert not np.allclose(other.predict(SMILES), fitted.predict(SMILES))


def test_smiles_molecules_arrays_series_and_frames_are_the_same(fitted: PointSetRegressor) -> None:
    expected = fitted.predict(SMILES)
    ways = [
        np.array(SMILES),
        np.array(SMILES)[:, None],
        np.array(SMILES, dtype=object),
        list(map(Chem.MolFromSmiles, SMILES)),
    ]
    pandas = pytest.importorskip("pandas")
    ways += [pandas.Series(SMILES, index=range(100, 124)), pandas.DataFrame({"smiles": SMILES})]
    for way in ways:
        assert np.array_equal(fitted.predict(way), expected)


def test_a_pickle_holds_a_bundle_and_nothing_of_torch(fitted: PointSetRegressor, tmp_path: Path) -> None:
    content = pickle.dumps(fitted)
    assert b"torch" not in content and len(content) < 100_000
    assert np.array_equal(pickle.loads(content).predict(SMILES), fitted.predict(SMILES))
    fitted.save(tmp_path / "model.zip")
    assert np.array_equal(pointset.load(tmp_path / "model.zip").predict(SMILES).numpy()[:, 0], fitted.predict(SMILES))


def test_a_damaged_pickle_is_refused(fitted: PointSetRegressor) -> None:
    damaged = pickle.loads(pickle.dumps(fitted))
    damaged._bundle = damaged._bundle[:2000] + bytes(50) + damaged._bundle[2050:]
    with pytest.raises(PointsetError):
        damaged.predict(SMILES)


def test_cross_validation_search_and_pipelines(fitted: PointSetRegressor) -> None:
    assert len(cross_val_score(clone(fitted), SMILES, CARBONS, cv=2)) == 2
    search = GridSearchCV(clone(fitted), {"dim": [4, 8]}, cv=2).fit(np.array(SMILES), CARBONS)
    assert search.best_params_["dim"] in (4, 8) and search.predict(SMILES).shape == (24,)
    trimmed = make_pipeline(FunctionTransformer(lambda texts: [text.strip() for text in texts]), clone(fitted))
    assert trimmed.fit([f" {text}" for text in SMILES], CARBONS).score(SMILES, CARBONS) > -10
    on_top = make_pipeline(clone(fitted), Ridge()).fit(SMILES, CARBONS)  # learns from the representations
    assert on_top.score(SMILES, CARBONS) > 0.5


def test_descriptors_widen_the_representations(fitted: PointSetRegressor) -> None:
    settings = {key: value for key, value in SMALL["settings"].items() if key != "model.descriptors"}
    model = clone(fitted).set_params(settings=settings, descriptors="rdkit").fit(SMILES, CARBONS)
    assert model.transform(SMILES[:3]).shape[1] > 8


def test_representations(fitted: PointSetRegressor) -> None:
    found = fitted.transform(SMILES[:3])
    assert found.shape == (3, 8) and np.array_equal(found, fitted.embed(SMILES[:3]))
    assert len(fitted.get_feature_names_out()) == 8


def test_several_targets_with_gaps_and_weights() -> None:
    y = np.array([[carbons, math.nan if row % 2 else -carbons] for row, carbons in enumerate(CARBONS)])
    model = PointSetRegressor(**SMALL).fit(SMILES, y, sample_weight=np.arange(24) % 3)
    assert model.predict(SMILES).shape == (24, 2) and math.isfinite(model.score(SMILES, y))


def test_graphs() -> None:
    graphs = [nx.path_graph(3 + number % 5) for number in range(20)]
    sizes = [graph.number_of_nodes() for graph in graphs]
    model = PointSetRegressor(**SMALL).fit(graphs, sizes)
    assert model.predict(graphs[:4]).shape == (4,) and model.predictor_.card.molecules is None


@pytest.mark.parametrize("names", [("few", "many"), (False, True), (3, 7), ("a", "b", "c"), (10, 2, 30)])
def test_classes_of_any_type(names: tuple[Any, ...]) -> None:
    y = [names[number % len(names)] for number in range(24)]
    model = PointSetClassifier(**SMALL).fit(SMILES, y)
    assert model.classes_.tolist() == sorted(names)
    probabilities = model.predict_proba(SMILES)
    assert probabilities.shape == (24, len(names)) and probabilities.sum(1) == pytest.approx(np.ones(24))
    assert np.array_equal(model.predict(SMILES), model.classes_[probabilities.argmax(1)])
    assert 0 <= model.score(SMILES, y) <= 1


def test_labels() -> None:
    y = np.array([[number % 2, math.nan if number % 5 == 0 else number % 3 == 0] for number in range(24)])
    model = PointSetClassifier(**SMALL).fit(SMILES, y)
    assert model.predict_proba(SMILES).shape == (24, 2) and set(np.unique(model.predict(SMILES))) <= {0, 1}


def test_intervals(fitted: PointSetRegressor) -> None:
    if not hasattr(fitted.predictor_, "predict_interval"):
        with pytest.raises(PointsetError, match="no intervals"):
            fitted.predict_interval(SMILES)
        return
    longer = clone(fitted).set_params(validation_fraction=0.5).fit(SMILES, CARBONS)
    found = longer.predict_interval(SMILES, confidence=0.8)
    assert found.shape == (24, 2) and (found[:, 0] <= found[:, 1]).all()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (SMILES, CARBONS[:5], "24 rows of X and 5 of y"),
        (np.ones((24, 3)), CARBONS, "not a matrix of features"),
        ("CCO", [1.0], "got X of type str"),
        ([], [], "got y with 0 rows"),
        (["CCO", "C1CC"], [1.0, 2.0], r"item 1, 'C1CC'"),
        (["CCO", nx.path_graph(3)], [1.0, 2.0], "item 1 is of type Graph"),
        (SMILES, [math.nan, *CARBONS[1:]], "row 0 of y has no value"),
        (SMILES, ["a"] * 24, "not numbers"),
    ],
)
def test_mistakes_get_one_clear_message(x: Any, y: Any, message: str) -> None:
    with pytest.raises(PointsetError, match=message):
        PointSetRegressor(**SMALL).fit(x, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 24, "one class"),
        ([0.5, *[1.0] * 23], "For numbers use PointSetRegressor"),
        ([None, *"ab" * 11, "a"], "row 0"),
    ],
)
def test_mistakes_with_classes(y: Any, message: str) -> None:
    with pytest.raises(PointsetError, match=message):
        PointSetClassifier(**SMALL).fit(SMILES, y)


def test_unknown_settings_are_refused_by_name() -> None:
    with pytest.raises(PointsetError, match=r"did you mean .?trainer\.epochs"):
        PointSetRegressor(settings={"trainer.epoch": 3}).fit(SMILES, CARBONS)
    with pytest.raises(NotFittedError, match="call fit"):
        PointSetRegressor().predict(SMILES)


# --- scikit-learn's own checks


WITHOUT_DATA = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_valid_tag_types,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_mixin_order,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
]


@pytest.mark.parametrize("check", WITHOUT_DATA, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", [PointSetRegressor(), PointSetClassifier()], ids=["regressor", "classifier"])
def test_checks_without_data(estimator: Any, check: Any) -> None:
    check(type(estimator).__name__, estimator)


def graphs_of(rows: Any) -> list[Any]:
    """Each row of a matrix as a path whose nodes carry its numbers."""
    from torch_geometric.data import Data

    width = rows.shape[1]
    there = torch.tensor([[*range(width - 1)], [*range(1, width)]]).reshape(2, -1)
    edges = torch.cat([there, there.flip(0)], 1)
    return [
        Data(x=torch.tensor(row).float().reshape(-1, 1), edge_index=edges, num_nodes=width) for row in rows.tolist()
    ]


class OfRows:
    """Makes estimators of matrices, which scikit-learn's checks hand over, from those of graphs."""

    def __sklearn_tags__(self: Any) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags

    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        X, y = validate_data(self, X, y, multi_output=True)
        return super().fit(graphs_of(X), y, sample_weight)  # type: ignore[misc]

    def _given(self: Any, X: Any) -> Any:
        check_is_fitted(self)
        if isinstance(X, list) and X and hasattr(X[0], "edge_index"):  # one method has called another
            return X
        return graphs_of(validate_data(self, X, reset=False))

    def predict(self: Any, X: Any) -> Any:
        return super().predict(self._given(X))  # type: ignore[misc]

    def transform(self: Any, X: Any) -> Any:
        return super().transform(self._given(X))  # type: ignore[misc]

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().score(self._given(X), y, sample_weight)  # type: ignore[misc]


class RowRegressor(OfRows, PointSetRegressor):
    """Of the rows of a matrix."""


class RowClassifier(OfRows, PointSetClassifier):
    """Of the rows of a matrix."""

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(self._given(X))


TINY: dict[str, Any] = {"dim": 4, "layers": 1, "epochs": 2, "batch_size": 16, "device": "cpu"}
TINY["settings"] = {"trainer.threads": 1, "schedule.warmup": 0}
TOO_SHORT = "two epochs of a tiny model, to be quick: it has not learned enough"
EXPECTED_TO_FAIL = {
    "check_sample_weight_equivalence_on_dense_data": "batches and the validation part are drawn by row: a row that is "
    "given twice is not one of weight two, to the last digit",
    "check_regressors_train": TOO_SHORT,
    "check_classifiers_train": TOO_SHORT,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@estimator_checks.parametrize_with_checks(
    [RowRegressor(**TINY), RowClassifier(**TINY)], expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL
)
def test_checks_on_rows_of_matrices(estimator: Any, check: Any) -> None:
    check(estimator)
