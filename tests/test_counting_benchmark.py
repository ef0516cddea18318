"""The datasets of substructure counts: generated, and the published graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from pointset import datasets
from pointset.datasets.counting import SUBSTRUCTURES, count_substructures
from pointset.datasets.random_graphs import FAMILIES
from pointset.datasets.splits import find_leaks
from pointset.datasets.verification import verify
from pointset.errors import FileFormatError, SpecError


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(cache))
    monkeypatch.delenv("POINTSET_DATA", raising=False)


def check(dataset: datasets.Dataset) -> None:
    """What both have in common."""
    assert dataset.target_names == SUBSTRUCTURES == dataset.card.target_names
    assert {name: len(part) for name, part in dataset.split.items()} == {"train": 1500, "val": 1000, "test": 2500}
    assert len(np.unique(np.concatenate(list(dataset.split.values())))) == len(dataset) == 5000
    assert round(dataset.arrays.num_nodes.mean(), 1) == 18.8
    assert round(dataset.arrays.num_edges.mean(), 1) == 31.3
    for index in (0, 17, 4999):
        graph = dataset.arrays[index]
        expected = count_substructures(graph.num_nodes, graph.edges)
        assert dataset.graphs[index].y.tolist() == expected.tolist()  # not normalised
    rows = np.concatenate([dataset.split["train"], dataset.split["val"]])
    mask = np.repeat(np.isin(np.arange(5000), rows), dataset.arrays.num_nodes)
    assert dataset.targets is not None
    assert np.allclose(dataset.target_scale().std, dataset.targets.numpy().astype(float)[mask].std(0))


def test_generated() -> None:
    dataset = datasets.load("counting")
    check(dataset)
    again = datasets.load("counting")
    assert dataset.targets is not None and again.targets is not None and torch.equal(dataset.targets, again.targets)
    assert np.array_equal(dataset.split["test"], again.split["test"])


def test_another_seed_makes_other_graphs() -> None:
    first, other = datasets.load("counting", seed=10), datasets.load("counting", seed=3)
    assert first.arrays.edges.shape != other.arrays.edges.shape
    assert len(other.split["train"]) == 1500
    with pytest.raises(SpecError, match="got seed=-1; expected a whole number, 0 or more"):
        datasets.load("counting", seed=-1)


def test_the_published_graphs(shared_data: Path) -> None:
    check(datasets.load("counting-original", shared_data))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("test_idx", np.array(["two"])), ("val_idx", np.array([1.0])), ("edges", np.array([0, 1])), ("num_edges", [[1]])],
)
def test_published_graphs_that_are_damaged(name: str, wrong: Any, tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"num_nodes": [2, 1, 1], "num_edges": [1, 0, 0], "edges": [[0, 1]]}
    arrays |= {f"{part}_idx": [index] for index, part in enumerate(("train", "val", "test"))}
    (tmp_path / "counting").mkdir()
    np.savez(tmp_path / "counting" / "graphs.npz", **(arrays | {name: wrong}))
    with pytest.raises(FileFormatError, match=f"graphs.npz: {name} "):
        datasets.load("counting-original", tmp_path)
    assert not verify("counting-original", tmp_path).holds


def test_families_to_learn_from_and_others_to_test_on() -> None:
    dataset = datasets.load("counting-families")
    graphs, split = dataset.arrays, dataset.split
    assert {part: len(numbers) for part, numbers in split.items()} == dict(dataset.card.split_sizes)
    learned = np.concatenate([split["train"], split["val"]])
    assert graphs.num_nodes[learned].max() == 30 and graphs.num_nodes[split["test"]].max() == 60
    assert sorted(set(graphs.num_nodes[split["test"]][:500].tolist())) == [40, 60]
    assert dataset.targets is not None
    first = graphs[int(split["test"][0])]
    counted = count_substructures(first.num_nodes, first.edges)
    start = int(graphs.num_nodes[: int(split["test"][0])].sum())
    assert np.array_equal(dataset.targets[start : start + first.num_nodes].numpy(), counted)
    report = find_leaks(graphs, split, progress=False)
    assert all("test" not in group for group in report.groups)  # small trees of train may come again in val


def test_families_depend_on_seed_family_and_number_alone() -> None:
    few, many = (FAMILIES["communities"].draw_many(count, 3) for count in (2, 5))
    assert [set(graph.edges()) for graph in few] == [set(graph.edges()) for graph in many[:2]]
    assert set(few[0].edges()) != set(FAMILIES["communities"].draw_many(1, 4)[0].edges())
    assert len({family.place for family in FAMILIES.values()}) == len(FAMILIES)
    geometric, tree = (FAMILIES[name].draw_many(1, 0)[0] for name in ("geometric", "trees"))
    assert nx.transitivity(geometric) > 0.2 and nx.is_tree(tree)
