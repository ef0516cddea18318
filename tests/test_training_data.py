"""``dataset.train_graphs``: learning from a part of the training graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pointset.errors import SpecError
from pointset.training.data import load_data
from tests.small_training import changed, edge_counts, write_graphs


def test_fewer_graphs_are_always_the_same_and_among_more(tmp_path: Path) -> None:
    recipe = write_graphs(tmp_path, edge_counts())
    whole = load_data(recipe, progress=False)
    parts = [
        load_data(changed(recipe, dataset__train_graphs=count, seed=seed), progress=False)
        for count, seed in ((10, 0), (10, 1), (20, 0))
    ]
    ten, again, twenty = (set(part.part("train").tolist()) for part in parts)
    assert len(ten) == 10 and ten == again and ten < twenty < set(whole.part("train").tolist())
    for name in ("val", "test"):
        assert np.array_equal(parts[0].part(name), whole.part(name))


def test_more_than_there_are(tmp_path: Path) -> None:
    recipe = changed(write_graphs(tmp_path, edge_counts()), dataset__train_graphs=41)
    with pytest.raises(SpecError, match=r"got dataset.train_graphs=41; expected at most the 32 of .*, or null for all"):
        load_data(recipe, progress=False)
