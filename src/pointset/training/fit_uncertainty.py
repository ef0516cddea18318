"""Intervals and applicability domain of a run, fitted when its training ends (:func:`fit_uncertainty`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Array, Integers
from pointset.datasets.card import Card, Level, Task
from pointset.datasets.molecules.descriptors import morgan_matrix, packed
from pointset.encoders.model import PointModel, evaluating
from pointset.errors import MissingExtraError
from pointset.native.similarity import Packed
from pointset.points.graphs import consecutive, starts
from pointset.training.batches import evaluation_loader
from pointset.training.data import TrainingData
from pointset.training.domain import MOST_FINGERPRINTS, MOST_REPRESENTATIONS, Domain, categories_of, subset
from pointset.training.uncertainty import Seen, Uncertainty

_OWN_READER = "ogb"  # molecules that MoleculeReader reads, which gives fingerprints


def known_graphs(data: TrainingData) -> Integers:
    """Graphs of the training part, at most 2,000, whose representations and errors are kept."""
    train = data.part("train")
    return train[subset(len(train), MOST_REPRESENTATIONS)]


def graphs_with_errors(data: TrainingData) -> Integers:
    """Those of the known graphs whose errors are kept: all of a regression of graphs, none otherwise."""
    of_numbers = data.card.task is Task.REGRESSION and data.card.level is Level.GRAPH
    return known_graphs(data) if of_numbers else np.zeros(0, dtype=np.int64)


def fit_uncertainty(model: PointModel, data: TrainingData, members: Mapping[str, Tensor]) -> Uncertainty:
    """From the outputs (members, rows, k) in the targets' own units, or logits, for ``"val"`` and ``"known"`` graphs.

    The latter are :func:`graphs_with_errors`. ``model`` is the first member, whose representations are compared. Models
    of nodes have no domain.
    """
    train, known, val = data.part("train"), known_graphs(data), data.part("val")
    domain = None
    if data.card.level is Level.GRAPH:
        representations = representations_of(model, data, known)
        fingerprints = fingerprints_of(data, train[subset(len(train), MOST_FINGERPRINTS)])
        threads = torch.get_num_threads()
        categories = categories_of(data.card.node, _nodes_of(data, train)[0])
        known_as: dict[str, Any] = {"categories": categories, "threads": threads}
        domain = Domain.fit(data.points.num_nodes[train], representations, fingerprints, **known_as)
    seen = see(model, data, val, members["val"], domain)
    known_targets = data.targets(graphs_with_errors(data))
    return Uncertainty.fit(data.card, seen, data.targets(val), members["known"], known_targets, domain)


def see(model: PointModel, data: TrainingData, graphs: Integers, members: Tensor, domain: Domain | None) -> Seen:
    """All that is known of graphs (G,) and of the models' outputs for them."""
    seen = Seen(members, data.points.num_nodes[graphs])
    if domain is None:
        return seen
    fingerprints = None if domain.fingerprints is None else fingerprints_of(data, graphs)
    strange = domain.strange(data.card.node, *_nodes_of(data, graphs), len(graphs))
    representations = representations_of(model, data, graphs)
    return seen._replace(representations=representations, fingerprints=fingerprints, strange=strange)


def _nodes_of(data: TrainingData, graphs: Integers) -> tuple[Tensor | None, Integers]:
    """(N, c) features of the nodes of these graphs, and (N,) the place of each one's graph among them."""
    x, counts = data.dataset.features.x, data.points.num_nodes
    rows = consecutive(starts(counts)[graphs], counts[graphs])
    places = np.repeat(np.arange(len(graphs)), counts[graphs])
    return None if x is None else x[torch.from_numpy(rows)], places


def representations_of(model: PointModel, data: TrainingData, graphs: Integers) -> Array:
    """(G, d) what the model's last linear map sees, float32."""
    width = model.readout.linear.in_features
    if not len(graphs):
        return np.zeros((0, width), dtype=np.float32)
    dim, dtype = 64 if model.settings is None else model.settings.dim, next(model.parameters()).dtype
    loader = evaluation_loader(data.points, graphs, dim=dim, dtype=dtype)
    with evaluating(model):
        rows = torch.cat([model.embed(batch).to("cpu", torch.float32) for batch in loader])
    return rows.numpy()


def gives_fingerprints(card: Card) -> bool:
    """Whether SMILES of this kind are read with fingerprints."""
    return card.molecules == _OWN_READER


def fingerprints_of(data: TrainingData, graphs: Integers) -> Packed | None:
    """(G, 256) packed Morgan bits of molecules; None of other graphs, and where RDKit is missing."""
    if data.dataset.smiles is None or not gives_fingerprints(data.card):
        return None
    try:
        return packed(morgan_matrix([data.dataset.smiles[graph] for graph in graphs.tolist()], progress=False))
    except MissingExtraError:
        return None
