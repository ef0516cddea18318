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


def test_the_forecast_of_memory_knows_that_pst_fast_has_fewer_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from pointset.native import build
    from pointset.runs.recipe_files import read_recipe
    from pointset.training import data as module
    from pointset.training.data import graph_bytes

    class Data:
        points = type("Points", (), {"num_nodes": np.array([100]), "ranks": np.array([99])})
        points.graphs = type("Graphs", (), {"num_edges": np.array([150])})  # type: ignore[attr-defined]

        def part(self, _: str) -> np.ndarray:
            return np.array([0])

    def needed(preset: str, active: bool) -> int:
        monkeypatch.setattr(module, "native_status", lambda: build.Status(active, ""))
        recipe = read_recipe("molecules", ["dataset.file=x.csv", f"model.preset={preset}", "model.descriptors=null"])
        return int(graph_bytes(recipe, Data())[0])  # type: ignore[arg-type]

    assert needed("pst-fast", False) * 2 == needed("pst", False) == needed("pst", True)
    assert needed("pst-fast", True) * 2 == needed("pst-fast", False)
