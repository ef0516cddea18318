"""What a run was trained on, and which other graphs are among it (:func:`data_of`, :func:`isomorphic_to_one_of`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pointset.baselines.catalogue import model_preset
from pointset.datasets.splits import find_leaks
from pointset.encoders.model import PointModel
from pointset.errors import MissingDataError
from pointset.points.graphs import Flags, GraphArrays, Integers
from pointset.training.data import TrainingData, load_data
from pointset.training.predictor import Predictor
from pointset.training.recipe_files import read_recipe
from pointset.training.run_folder import RunFolder


def data_of(run: str | Path, data_dir: str | Path | None, *, progress: bool | None) -> TrainingData:
    """The data of a run's recipe.

    Raises:
        MissingDataError: ``run`` is a bundle without its recipe, or the data is nowhere.
        SpecError: the recipe is of another version of pointset.
    """
    folder = RunFolder(run)
    if not folder.has_run:
        raise MissingDataError(
            f"{folder.path} has no recipe.yaml, so its data is not known; expected the folder of a run. "
            "Give that, not only its bundle"
        )
    return load_data(read_recipe(folder.recipe), data_dir, progress=progress)


def needs_features(predictor: Predictor) -> str:
    """What a model reads besides the edges, in words; empty where any bare graph will do."""
    found = [
        name
        for name, needed in (
            ("node features", predictor.card.node is not None),
            ("edge features", predictor.card.edge is not None),
            ("positions", _uses_positions(predictor.model)),
        )
        if needed
    ]
    return " and ".join(found)


def _uses_positions(model: PointModel) -> bool:
    return model.settings is not None and model_preset(model.settings.preset).distances is not None


def learned_from(data: TrainingData) -> GraphArrays:
    """The graphs of train and val, without features and weights: what training looked at."""
    return bare(data.dataset.arrays, np.concatenate([data.part("train"), data.part("val")]))


def bare(graphs: GraphArrays, indices: Integers) -> GraphArrays:
    """Some of the graphs, edges only."""
    chosen = [graphs[int(index)].edges for index in indices]
    edges = np.concatenate([np.zeros((2, 0), dtype=np.int64), *chosen], axis=1)
    return GraphArrays.from_flat(graphs.num_nodes[indices], graphs.num_edges[indices], edges)


def isomorphic_to_one_of(known: GraphArrays, graphs: GraphArrays) -> Flags:
    """(G,) for each of ``graphs`` whether one of ``known`` is the same up to the order of nodes; both without features.

    Graphs too much alike to be decided count as the same: none that might be known passes for fresh.
    """
    both = GraphArrays.from_flat(
        np.concatenate([known.num_nodes, graphs.num_nodes]),
        np.concatenate([known.num_edges, graphs.num_edges]),
        np.concatenate([known.edges, graphs.edges], axis=1),
    )
    first = len(known)
    report = find_leaks(both, {"train": np.arange(first), "test": np.arange(first, len(both))}, progress=False)
    same = np.zeros(len(both), dtype=bool)
    for group in report.groups:
        same[group["test"]] = True
    same[report.undecided] = True
    return same[first:]
