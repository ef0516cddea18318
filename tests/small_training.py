"""Small data in files and recipes that train on it in a second, for the tests of training."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from pointset.runs.recipe import Recipe

GRAPHS = 40


def write_graphs(folder: Path, values: dict[str, list[Any]], count: int = GRAPHS) -> Recipe:
    """``count`` random graphs as graph6, with a table of targets, and a recipe that learns them."""
    folder.mkdir(parents=True, exist_ok=True)
    graphs = random_graphs(count)
    (folder / "graphs.g6").write_bytes(b"".join(nx.to_graph6_bytes(graph, header=False) for graph in graphs))
    with (folder / "targets.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["graph", *values])
        for row in range(count):
            writer.writerow([row, *(column[row] for column in values.values())])
    return small_recipe(folder)


def random_graphs(count: int = GRAPHS) -> list[nx.Graph[int]]:
    """Different sizes and densities."""
    generator = np.random.default_rng(0)
    return [nx.gnp_random_graph(4 + i % 5, 0.3 + 0.4 * generator.random(), seed=i) for i in range(count)]


def edge_counts(count: int = GRAPHS) -> dict[str, list[Any]]:
    """A target that can be learned: the number of edges."""
    return {"edges": [graph.number_of_edges() for graph in random_graphs(count)]}


def small_recipe(folder: Path, **changes: Any) -> Recipe:
    """2 epochs of a tiny model; changes are given by dotted key with __ for the dot: ``trainer__epochs=3``."""
    plain: dict[str, Any] = {
        "name": "small",
        "dataset": {"file": str(folder / "graphs.g6"), "options": {"targets": str(folder / "targets.csv")}},
        "model": {"preset": "pst", "dim": 8, "layers": 2},
        "optimizer": {"lr": 0.005},
        "trainer": {"epochs": 2, "batch_size": 8, "threads": 1},
    }
    return changed(Recipe.from_dict(plain), **changes)


def changed(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with other values."""
    from pointset.runs.recipe_files import changed as by_dotted_key

    return by_dotted_key(recipe, {key.replace("__", "."): value for key, value in changes.items()})
