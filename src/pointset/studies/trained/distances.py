"""Which distances between nodes can be read off a trained model: :func:`measure_distances`.

The result, plain values only (``pointset express distances RUN --json FILE`` writes it)::

    {
      "run": "runs/one", "preset": "pst", "seed": 0,
      "graphs": {"kind": "generated",      # or "test part", where the model needs features
                 "fit": 50, "test": 47,    # graphs to fit the probes on, and to score them on (none in both)
                 "fit_pairs": 9000, "test_pairs": 8800},
      "distances": ["0", …, "8", "more", "none"],   # classes of the shortest path; none: no path
      "majority": 0.31,                    # accuracy of always saying the most common distance
      "degrees": PROBE,                    # sees degrees of both ends, whether they are one node, and adjacency only
      "layers": [                          # in the order of the computation
        {"name": "points", "trained": PROBE, "random": PROBE},    # inner products and distances of coordinates
        {"name": "layer 1", "trained": PROBE, "random": PROBE}]   # attention (PSDS: inner products of its vectors)
    }                                      # random: the same model with fresh weights

    PROBE = {"accuracy": 0.93,             # of shortest-path distances, all pairs
             "per_distance": {"1": {"pairs": 800, "accuracy": 0.99, "precision": 0.98}, …},   # null: no such pairs
             "resistance_r2": 0.97,        # of resistance distance, pairs of different nodes that a path joins
             "commute_r2": 0.90,           # of commute times, vol · resistance, the same pairs
             "return_r2": 0.88}            # of the chance to be back after four steps, single nodes
                                           # r2 is null where the truth does not vary
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pointset.encoders.model import PointModel
from pointset.errors import SpecError
from pointset.progress import Advance, progress_bar
from pointset.studies.trained.pair_features import pair_features
from pointset.studies.trained.pair_truths import CLASSES
from pointset.studies.trained.probe_graphs import Half, ProbeGraphs, probe_graphs
from pointset.studies.trained.probes import probe
from pointset.training.json_files import finite
from pointset.training.predictor import Predictor, load


def measure_distances(
    run: str | Path,
    *,
    graphs: int = 100,
    seed: int = 0,
    data_dir: str | Path | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Fit probes to what a model knows of pairs of nodes, on half of fresh graphs, and score them on the other half.

    Args:
        run: the folder of a run, or a bundle.
        graphs: how many; generated, or of the run's own test part where the model reads features.
        seed: of the graphs, and of the fresh weights.
        data_dir: where the run's data lies.
        progress: whether to show a bar; by default where there is a terminal.

    Raises:
        SpecError: there are not enough graphs.
        MissingDataError: there is nothing at this path, or the data that the model needs is nowhere.
    """
    if graphs < 2:
        raise SpecError(f"got graphs={graphs}; expected at least 2, one to fit the probe and one to test it")
    if seed < 0:
        raise SpecError(f"got seed={seed}; expected a whole number ≥ 0")
    predictor = load(run)
    halves = probe_graphs(run, predictor, graphs, seed, data_dir, progress=progress)
    fit, test = halves.fit.truths, halves.test.truths
    settings = predictor.model.settings
    found: dict[str, Any] = finite(
        {
            "run": str(run),
            "preset": None if settings is None else settings.preset,
            "seed": seed,
            "graphs": {
                "kind": halves.kind,
                "fit": len(halves.fit.inputs),
                "test": len(halves.test.inputs),
                "fit_pairs": len(fit.path),
                "test_pairs": len(test.path),
            },
            "distances": list(CLASSES),
            "majority": float((test.path == fit.path.mode().values).double().mean()),
            "degrees": probe((fit.ends, fit), (test.ends, test)),
            "layers": _layers(predictor.model, _fresh_weights(predictor, seed), halves, progress),
        }
    )
    return found


def _layers(trained: PointModel, random: PointModel, halves: ProbeGraphs, show: bool | None) -> list[dict[str, Any]]:
    """A probe for every stage of both models."""
    models = {"trained": trained, "random": random}
    with progress_bar("Reading models", 2 * len(halves.fit.inputs) + 2 * len(halves.test.inputs), show=show) as advance:
        seen = {
            name: (_features(model, halves.fit, advance), _features(model, halves.test, advance))
            for name, model in models.items()
        }
    layers: list[dict[str, Any]] = []
    stages = list(seen["trained"][0])
    with progress_bar("Fitting probes", 2 * len(stages), show=show) as advance:
        for stage in stages:
            layers.append({"name": stage})
            for name, (fit, test) in seen.items():
                layers[-1][name] = probe((fit[stage], halves.fit.truths), (test[stage], halves.test.truths))
                advance(1)
    return layers


def _features(model: PointModel, half: Half, advance: Advance) -> dict[str, Tensor]:
    """Stage → (P, c) for all pairs of these graphs."""
    rows: dict[str, list[Tensor]] = {}
    for graph, truths in zip(half.inputs, half.each, strict=True):
        for stage, features in pair_features(model, graph, truths.first, truths.second).items():
            rows.setdefault(stage, []).append(features)
        advance(1)
    return {stage: torch.cat(parts) for stage, parts in rows.items()}


def _fresh_weights(predictor: Predictor, seed: int) -> PointModel:
    """The same model as it was before any training, with weights of this seed."""
    settings = predictor.model.settings
    if settings is None:
        raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PointModel.from_preset(
            settings.preset, **{k: v for k, v in settings._asdict().items() if k != "preset"}
        )
    return model.to(next(predictor.model.parameters()).dtype).eval()
