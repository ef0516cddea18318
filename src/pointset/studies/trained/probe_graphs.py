"""Fresh graphs for probes, in two halves that share none: :func:`probe_graphs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pointset.errors import SpecError
from pointset.points.graphs import GraphArrays, Integers
from pointset.points.inputs import read_graphs
from pointset.studies.trained.fresh_graphs import mixed_graphs
from pointset.studies.trained.pair_truths import Truths, joined, truths_of
from pointset.studies.trained.run_data import bare, data_of, isomorphic_to_one_of, needs_features
from pointset.training.predictor import Predictor

_LARGEST = 500  # nodes: a model keeps d·n² numbers for each layer


@dataclass(frozen=True, eq=False)
class Half:
    """G graphs with P pairs in all."""

    inputs: Sequence[Any]  # (G,) what the model takes
    each: Sequence[Truths]  # (G,)
    truths: Truths  # of all pairs


@dataclass(frozen=True, eq=False)
class ProbeGraphs:
    """Graphs to fit a probe on, and others to score it on."""

    kind: str
    fit: Half
    test: Half


def probe_graphs(
    run: str | Path, predictor: Predictor, count: int, seed: int, data_dir: str | Path | None, *, progress: bool | None
) -> ProbeGraphs:
    """``count`` graphs in two halves; those of the second that are isomorphic to one of the first are left out.

    They are generated. A model that reads features, weights or positions gets graphs of its run's own test part.

    Raises:
        SpecError: the test part has fewer than two different graphs of 2 to 500 nodes.
        MissingDataError: the run's data is nowhere.
    """
    if not needs_features(predictor) and predictor.bundle.weighted_edges is None:
        generated = read_graphs(mixed_graphs(count, seed))
        return _in_halves("generated", generated, generated, np.arange(count), seed)
    data = data_of(run, data_dir, progress=progress)
    nodes = data.points.num_nodes
    usable = [index for index in data.part("test").tolist() if 2 <= nodes[index] <= _LARGEST]
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(np.array(usable, dtype=np.int64))[:count]
    if len(chosen) < 2:
        raise SpecError(
            f"the test part of {data.card.name} has {len(usable)} graphs of 2 to {_LARGEST} nodes; expected at least "
            "2, one to fit the probe and one to test it. Choose another split"
        )
    return _in_halves("test part", data.points, data.dataset.arrays, chosen, seed)


def _in_halves(kind: str, inputs: Sequence[Any], graphs: GraphArrays, chosen: Integers, seed: int) -> ProbeGraphs:
    middle = len(chosen) // 2
    fit, test = chosen[:middle], chosen[middle:]
    test = test[~isomorphic_to_one_of(bare(graphs, fit), bare(graphs, test))]
    if not len(test):
        raise SpecError(
            f"all of {len(chosen) - middle} graphs to test the probe on are among those that it is fitted on; expected "
            "others. Choose more --graphs"
        )
    return ProbeGraphs(kind, *(_half(inputs, graphs, part, seed) for part in (fit, test)))


def _half(inputs: Sequence[Any], graphs: GraphArrays, indices: Integers, seed: int) -> Half:
    each = [
        truths_of(graphs[index], np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,))))
        for index in indices.tolist()
    ]
    return Half([inputs[index] for index in indices.tolist()], each, joined(each))
