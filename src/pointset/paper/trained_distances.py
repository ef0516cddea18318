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

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from pointset.arrays import Floats, Integers
from pointset.datasets.random_graphs import mixed_graphs
from pointset.encoders.layers import PointState, size_scale
from pointset.encoders.linear import LinearPSTLayer
from pointset.encoders.model import PointModel
from pointset.encoders.psds import PSDSLayer
from pointset.encoders.pst import PSTLayer
from pointset.encoders.released import PointSums, ReleasedPSDSLayer
from pointset.errors import SpecError
from pointset.files import finite
from pointset.paper.trained_counting import bare, data_of, isomorphic_to_one_of, needs_features
from pointset.points.encodings import random_walk, resistance_distance, shortest_path
from pointset.points.graphs import Graph, GraphArrays
from pointset.points.inputs import read_graphs
from pointset.points.solve import adjacency_matrix
from pointset.prediction.predictor import Predictor, load
from pointset.progress import Advance, progress_bar

POINTS = "points"
FARTHEST = 8  # longer distances are one class, "more"
CLASSES = (*map(str, range(FARTHEST + 1)), "more", "none")
_WALK_STEPS = 4  # of the walk that may return; fewer show little but degrees
_MOST_PAIRS = 500  # of one graph, so that a few large ones do not decide
_LARGEST = 500  # nodes: a model holds d·n² numbers for each layer

_REACH = 8.0  # deviations: farther features are cut, lest a square of an outlier decides
_PENALTY = 1e-5  # λ, for each row
_MOST_ROWS = 10_000  # to fit the classes on; more rows only take longer
_FITTING_STEPS = 200
_CONSTANT = 1e-6  # of the mean: a deviation that is rounding


def measure_distances(
    run: str | Path,
    *,
    graphs: int = 100,
    seed: int = 0,
    data_dir: str | Path | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Fit probes to what a model knows of pairs of nodes, on half of fresh graphs, and score them on the other half.

    Arguments are those of :func:`~pointset.paper.trained_counting.count_fresh`. Graphs are generated, or of the run's
    own test part where the model reads features; ``seed`` is also that of the fresh weights.
    """
    if graphs < 2:
        raise SpecError(f"got graphs={graphs}; expected at least 2, one to fit the probe and one to test it")
    if seed < 0:
        raise SpecError(f"got seed={seed}; expected a whole number ≥ 0")
    predictor = load(run)
    kind, fit_half, test_half = probe_graphs(run, predictor, graphs, seed, data_dir, progress=progress)
    fit, test = fit_half.truths, test_half.truths
    settings = predictor.model.settings
    found: dict[str, Any] = finite(
        {
            "run": str(run),
            "preset": None if settings is None else settings.preset,
            "seed": seed,
            "graphs": {
                "kind": kind,
                "fit": len(fit_half.inputs),
                "test": len(test_half.inputs),
                "fit_pairs": len(fit.path),
                "test_pairs": len(test.path),
            },
            "distances": list(CLASSES),
            "majority": float((test.path == fit.path.mode().values).double().mean()),
            "degrees": probe((fit.ends, fit), (test.ends, test)),
            "layers": _layers(predictor.model, _fresh_weights(predictor, seed), fit_half, test_half, progress),
        }
    )
    return found


def _layers(trained: PointModel, random: PointModel, fit: Half, test: Half, show: bool | None) -> list[dict[str, Any]]:
    """A probe for every stage of both models."""
    models = {"trained": trained, "random": random}
    with progress_bar("Reading models", 2 * len(fit.inputs) + 2 * len(test.inputs), show=show) as advance:
        seen = {
            name: (_features(model, fit, advance), _features(model, test, advance)) for name, model in models.items()
        }
    layers: list[dict[str, Any]] = []
    stages = list(seen["trained"][0])
    with progress_bar("Fitting probes", 2 * len(stages), show=show) as advance:
        for stage in stages:
            layers.append({"name": stage})
            for name, (fitted, tested) in seen.items():
                layers[-1][name] = probe((fitted[stage], fit.truths), (tested[stage], test.truths))
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
    """The same model as it was before training, with weights of this seed."""
    settings = predictor.model.settings
    if settings is None:
        raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PointModel.from_preset(
            settings.preset, **{k: v for k, v in settings._asdict().items() if k != "preset"}
        )
    return model.to(next(predictor.model.parameters()).dtype).eval()


def pair_features(model: PointModel, graph: Any, first: Tensor, second: Tensor) -> dict[str, Tensor]:
    """For every stage, numbers (P, c) of the pairs i, j that do not change when i and j are exchanged.

    - ``points``: of each channel ⟨v_i, v_j⟩ and ‖v_i − v_j‖², v the coordinates; c = 2d
    - ``layer 1``, …: attention ½(Atten_ij + Atten_ji) without the factor that depends on n; c = d.
      Models without attention over pairs (PSDS, pst-linear): the numbers of ``points`` for the vectors that leave the
      layer; c = 2d.
    """
    with _vectors_of_layers(model) as vectors:
        seen = model.inspect(graph)
    stages = {POINTS: _products(seen.coordinates.permute(2, 0, 1), first, second)}
    factor = next((part.sum_factor for part in model.modules() if isinstance(part, PSTLayer)), size_scale)
    for number, attention in enumerate(seen.attention, start=1):
        both = (attention[:, first, second] + attention[:, second, first]) / 2  # (d, P)
        stages[f"layer {number}"] = (both / factor(attention.shape[-1])).T.double()
    for number, v in enumerate(vectors[:-1], start=1):  # the last layer leaves the vectors as they were
        stages[f"layer {number}"] = _products(v, first, second)
    return stages


def _products(v: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """(d, n, r) → (P, 2d): inner products and squared distances."""
    one, other = v[:, first].double(), v[:, second].double()  # (d, P, r)
    return torch.cat([(one * other).sum(-1), (one - other).square().sum(-1)]).T


@contextmanager
def _vectors_of_layers(model: PointModel) -> Iterator[list[Tensor]]:
    """Inside, the list fills with the vectors (d, n, r) that leave each layer of a model without attention."""
    vectors: list[Tensor] = []

    def listen(_module: Any, _arguments: Any, output: PointState | tuple[PointState, PointSums]) -> None:
        state = output if isinstance(output, PointState) else output[0]
        vectors.append(state.v.detach()[:, 0])

    layers = (PSDSLayer, ReleasedPSDSLayer, LinearPSTLayer)
    hooks = [part.register_forward_hook(listen) for part in model.modules() if isinstance(part, layers)]
    try:
        yield vectors
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True, eq=False)
class Truths:
    """P pairs i ≤ j of one graph or of several."""

    first: Tensor  # (P,) i
    second: Tensor  # (P,) j
    path: Tensor  # (P,) the class of the shortest path, an index into CLASSES
    resistance: Tensor  # (P,) NaN where no path joins the two, and for a node with itself
    commute: Tensor  # (P,) likewise: steps of a random walk from i to j and back
    returning: Tensor  # (P,) the chance to be back after four steps, for a node with itself; NaN for other pairs
    ends: Tensor  # (P, 5) all that the weakest probe sees: degrees' sum, product and difference, adjacency, i = j


def adjacency_of(graph: Graph) -> Tensor:
    """(n, n) zeros and ones, zero on the diagonal."""
    return torch.from_numpy(adjacency_matrix(replace(graph, weights=None)).toarray()).fill_diagonal_(0.0)


def truths_of(graph: Graph, generator: np.random.Generator) -> Truths:
    """All pairs i ≤ j, or 500 of them drawn where there are more; weights of edges do not matter."""
    adjacency = adjacency_of(graph)
    first, second = _pairs(graph.num_nodes, generator)
    degree = adjacency.sum(1)
    path, resistance = shortest_path(adjacency), resistance_distance(adjacency)
    volume = (path.isfinite().double() @ degree).unsqueeze(1)  # (n, 1): degrees of i's component
    apart = torch.where(path.isfinite() & (path > 0), 1.0, torch.nan)
    resistance = torch.where(apart.isnan(), torch.nan, resistance)
    returning = torch.full_like(path, torch.nan)
    returning.diagonal().copy_(random_walk(adjacency, _WALK_STEPS).diagonal())
    ends = torch.stack(
        [
            degree[first] + degree[second],
            degree[first] * degree[second],
            (degree[first] - degree[second]).abs(),
            adjacency[first, second],
            (first == second).double(),
        ],
        dim=1,
    )
    distance = path[first, second]
    return Truths(
        first,
        second,
        torch.where(distance.isinf(), len(CLASSES) - 1, distance.clamp(max=FARTHEST + 1)).long(),
        resistance[first, second],
        (volume * resistance)[first, second],
        returning[first, second],
        ends,
    )


def concatenated(truths: list[Truths]) -> Truths:
    """The pairs of several graphs, one graph after the other."""
    columns = zip(*(vars(one).values() for one in truths), strict=True)
    return Truths(*(torch.cat(column) for column in columns))


def _pairs(nodes: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    first, second = torch.triu_indices(nodes, nodes)
    if len(first) <= _MOST_PAIRS:
        return first, second
    drawn = torch.from_numpy(np.sort(generator.choice(len(first), _MOST_PAIRS, replace=False)))
    return first[drawn], second[drawn]


@dataclass(frozen=True, eq=False)
class Half:
    """G graphs with P pairs in all."""

    inputs: Sequence[Any]  # (G,) what the model takes
    each: Sequence[Truths]  # (G,)
    truths: Truths  # of all pairs


def probe_graphs(
    run: str | Path, predictor: Predictor, count: int, seed: int, data_dir: str | Path | None, *, progress: bool | None
) -> tuple[str, Half, Half]:
    """Their kind, and ``count`` graphs in halves; those of the second isomorphic to one of the first are left out.

    They are generated. A model that reads features, weights or positions gets graphs of its run's own test part.
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


def _in_halves(
    kind: str, inputs: Sequence[Any], graphs: GraphArrays, chosen: Integers, seed: int
) -> tuple[str, Half, Half]:
    middle = len(chosen) // 2
    fit, test = chosen[:middle], chosen[middle:]
    test = test[~isomorphic_to_one_of(bare(graphs, fit), bare(graphs, test))]
    if not len(test):
        raise SpecError(
            f"all of {len(chosen) - middle} graphs to test the probe on are among those that it is fitted on; expected "
            "others. Choose more --graphs"
        )
    return kind, _half(inputs, graphs, fit, seed), _half(inputs, graphs, test, seed)


def _half(inputs: Sequence[Any], graphs: GraphArrays, indices: Integers, seed: int) -> Half:
    each = [
        truths_of(graphs[index], np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,))))
        for index in indices.tolist()
    ]
    return Half([inputs[index] for index in indices.tolist()], each, concatenated(each))


def probe(fit: tuple[Tensor, Truths], test: tuple[Tensor, Truths]) -> dict[str, Any]:
    """Fit on features (P, c) and truths of the pairs of some graphs, score on those of others; entries as in PROBE.

    Features are standardised and joined by their squares. Shortest paths: multinomial logistic regression. Real
    quantities: ridge regression, w = (XᵀX + λN)⁻¹ Xᵀy.
    """
    train, seen = _polynomials(fit[0], test[0])
    truth, asked = fit[1], test[1]
    return {
        **_path_scores(_classify(train, truth.path, seen), asked.path),
        "resistance_r2": _r2(train, truth.resistance, seen, asked.resistance),
        "commute_r2": _r2(train, truth.commute, seen, asked.commute),
        "return_r2": _r2(train, truth.returning, seen, asked.returning),
    }


def _polynomials(fit: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """(P, c), (P', c) → (P, 2c + 1), (P', 2c + 1): standardised by ``fit``, with squares and a constant 1."""
    plain = _standardised(fit.nan_to_num(0.0, 0.0, 0.0), test.nan_to_num(0.0, 0.0, 0.0))  # of a model that diverged
    squares = _standardised(plain[0].square(), plain[1].square())
    first, second = (
        torch.cat([one, square, one.new_ones(len(one), 1)], dim=1) for one, square in zip(plain, squares, strict=True)
    )
    return first, second


def _standardised(fit: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    mean, std = fit.mean(0), fit.std(0, correction=0)
    std = torch.where(std > _CONSTANT * mean.abs(), std, torch.inf)
    first, second = (((part - mean) / std).clamp(-_REACH, _REACH) for part in (fit, test))
    return first, second


def _classify(fit: Tensor, classes: Tensor, test: Tensor) -> Tensor:
    """(P',) the most probable class of each test row, by W that minimises −mean log softmax(XW)_y + λ‖W‖²."""
    stride = -(-len(fit) // _MOST_ROWS)
    rows, wanted = fit[::stride].numpy(), classes[::stride].numpy()
    shape = fit.shape[1], len(CLASSES)
    right = np.arange(len(rows)), wanted
    penalised = np.ones((shape[0], 1))
    penalised[-1] = 0.0  # the constant may be as large as it must

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        logarithms = log_softmax(rows @ weights, axis=1)  # (P, classes)
        value = -logarithms[right].mean() + _PENALTY * float((penalised * weights**2).sum())
        residual = np.exp(logarithms)
        residual[right] -= 1.0
        slope = rows.T @ residual / len(rows) + 2 * _PENALTY * penalised * weights
        return float(value), slope.ravel()

    found = minimize(
        loss,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _FITTING_STEPS, "maxcor": 30},
    )
    return (test @ torch.from_numpy(found.x.reshape(shape))).argmax(1)


def _path_scores(named: Tensor, right: Tensor) -> dict[str, Any]:
    per_distance = {}
    for number, name in enumerate(CLASSES):
        pairs, said = int((right == number).sum()), int((named == number).sum())
        both = int(((right == number) & (named == number)).sum())
        per_distance[name] = {
            "pairs": pairs,
            "accuracy": both / pairs if pairs else None,
            "precision": both / said if said else None,
        }
    return {"accuracy": float((named == right).double().mean()), "per_distance": per_distance}


def _r2(fit: Tensor, values: Tensor, test: Tensor, wanted: Tensor) -> float | None:
    """1 − Σ(y − ŷ)² / Σ(y − ȳ)² over the pairs for which the quantity is defined; None where it does not vary."""
    fit, values = fit[~values.isnan()], values[~values.isnan()]
    test, wanted = test[~wanted.isnan()], wanted[~wanted.isnan()]
    spread = (wanted - wanted.mean()).square().sum() if len(wanted) else torch.zeros(())
    if not len(values) or float(spread) <= _CONSTANT**2 * float(wanted.square().sum()):
        return None
    penalty = _PENALTY * len(fit) * torch.eye(fit.shape[1], dtype=fit.dtype)
    penalty[-1, -1] = 1e-12 * len(fit)  # the constant may be as large as it must
    weights = torch.linalg.solve(fit.T @ fit + penalty, fit.T @ values)
    return 1 - float((wanted - test @ weights).square().sum() / spread)
