"""A random forest or gradient boosting on Morgan counts, as the commands that chemists.py measures.

    python benchmarks/chemists_forest.py train forest|boosting regression|classification SEED TABLE.csv MODEL.joblib
    python benchmarks/chemists_forest.py predict MODEL.joblib TABLE.csv OUT.csv

``TABLE.csv`` has SMILES first; to train, also targets and ``split``. There is a model for each target, trained on the
rows that have it. Boosting stops by the validation rows; the forest does not need them.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from sklearn.ensemble import (  # type: ignore[import-untyped]
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from pointset.files import write_csv

Reals = NDArray[np.float64]
RADIUS, BITS = 2, 2048
# Of validation on freesolv, delaney, bace and bbbp: a third of the features at each branch (Breiman's choice for
# regression) is as good as all of them, in half the time; boosting by 0.1 is as good as by 0.05.
FOREST: dict[str, dict[str, Any]] = {
    "regression": {"n_estimators": 500, "max_features": 1 / 3},
    "classification": {"n_estimators": 500, "max_features": "sqrt"},
}
BOOSTING = {"learning_rate": 0.1, "max_iter": 500, "early_stopping": True, "n_iter_no_change": 20}


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the rows."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def morgan_counts(smiles: list[str]) -> NDArray[np.float32]:
    """(n, BITS) how often each environment of up to RADIUS bonds occurs."""
    generator = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    counts = np.zeros((len(smiles), BITS), dtype=np.float32)
    for row, one in enumerate(smiles):
        counts[row] = generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(one))
    return counts


def train_one(learner: str, kind: str, seed: int, features: Any, target: Reals, part: NDArray[np.str_]) -> Any:
    """The model of one target; where training has a single class, that class."""
    known = ~np.isnan(target)
    train, val = known & (part == "train"), known & (part == "val")
    if kind == "classification" and len(np.unique(target[train])) < 2:
        return float(target[train][0]) if train.any() else 0.0
    if learner == "forest":
        forest = RandomForestRegressor if kind == "regression" else RandomForestClassifier
        return forest(**FOREST[kind], random_state=seed, n_jobs=1).fit(features[train], target[train])
    boosting = HistGradientBoostingRegressor if kind == "regression" else HistGradientBoostingClassifier
    seen = set(np.unique(target[train])) >= set(np.unique(target[val])) or kind == "regression"
    if not val.any() or not seen:
        return boosting(random_state=seed).fit(features[train], target[train])
    model = boosting(**BOOSTING, random_state=seed)
    return model.fit(features[train], target[train], X_val=features[val], y_val=target[val])


def predict_one(model: Any, features: Any) -> Reals:
    """(n,) the target, or the probability of the label 1."""
    if isinstance(model, float):
        return np.full(len(features), model)
    values = model.predict_proba(features)[:, 1] if hasattr(model, "predict_proba") else model.predict(features)
    return np.asarray(values, dtype=np.float64)


def main(words: list[str]) -> None:
    """Train or predict, from table to file."""
    if words[0] == "train":
        learner, kind, seed, table, output = words[1:]
        header, rows = read_table(Path(table))
        features = morgan_counts([row[0] for row in rows])
        part = np.array([row[-1] for row in rows])
        targets = np.array([[float(cell or "nan") for cell in row[1:-1]] for row in rows])
        models = [train_one(learner, kind, int(seed), features, target, part) for target in targets.T]
        joblib.dump((header[1:-1], models), output)
        return
    names, models = joblib.load(words[1])  # our own file of a moment ago
    rows = read_table(Path(words[2]))[1]
    features = morgan_counts([row[0] for row in rows])
    columns = [predict_one(model, features) for model in models]
    write_csv(Path(words[3]), [["smiles", *names], *zip((row[0] for row in rows), *columns, strict=True)])


if __name__ == "__main__":
    main(sys.argv[1:])
