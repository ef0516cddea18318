"""What a trained model counts, on fresh graphs: :func:`count_fresh`.

The result, plain values only (``pointset express counting RUN --json FILE`` writes it)::

    {
      "run": "runs/one", "preset": "pst", "seed": 2024,
      "bound": 0.01,                       # a model counts where its normalised MAE is not above
      "scale": "run",                      # whose deviations divide the errors: "run", or "fresh graphs" (has none)
      "substructures": ["2-path", …],      # those among the run's targets, in its order
      "families": {                        # family → substructure → scores
        "training kind": {
          "2-path": {
            "mae": 0.0031,                 # normalised as in training; null where the model gave no number
            "counts": true,                # mae ≤ bound
            "exact_share": 0.998,          # of the nodes: the rounded prediction is the count
            "largest_error": 1.7,          # in counts; null where the model gave no number
            "where": {"graph6": "I…", "node": 3, "count": 12, "predicted": 13.7}}}},
      "graphs": {                          # family → what was scored
        "training kind": {"description": "…", "graphs": 499, "nodes": 9350, "seen": 1}},
                                           # seen: left out, isomorphic to a graph of train or val; null: not checked
      "not_checked": null                  # why nothing could be compared with the run's own graphs
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Flags, Integers
from pointset.datasets.benchmarks.counting import counting_graphs
from pointset.datasets.card import Level, Task
from pointset.datasets.counting import SUBSTRUCTURES, count_many
from pointset.datasets.dataset import TargetScale
from pointset.datasets.graph_files.graph6 import line_of_graph
from pointset.datasets.random_graphs import FAMILIES, MOST_NODES
from pointset.datasets.splits import find_leaks
from pointset.errors import MissingDataError, PointsetError, SpecError
from pointset.files import finite
from pointset.metrics import COUNTING_BOUND
from pointset.points.graphs import GraphArrays
from pointset.points.inputs import read_graphs
from pointset.prediction.features import uses_positions
from pointset.prediction.predictor import Predictor, load
from pointset.progress import track
from pointset.runs.folder import RunFolder
from pointset.runs.recipe_files import read_recipe
from pointset.training.data import TrainingData, load_data
from pointset.training.scoring import score

_CYCLES = range(3, MOST_NODES + 1)  # all there are: a family of them has no more graphs
TRAINING_KIND = "training kind"


class FreshFamily(NamedTuple):
    """Graphs of one kind."""

    description: str
    graphs: GraphArrays


def count_fresh(
    run: str | Path,
    *,
    graphs: int = 500,
    seed: int = 2024,
    data_dir: str | Path | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Score a model of node counts on graphs that it has not seen, family by family.

    Args:
        run: the folder of a run, or a bundle.
        graphs: of each family.
        seed: of the fresh graphs.
        data_dir: where the run's data lies, to leave out graphs that training has seen.
        progress: whether to show a bar; by default where there is a terminal.

    Raises:
        SpecError: the model does not predict counts of substructures at nodes, or all graphs were seen in training.
        MissingDataError: there is nothing at this path.
    """
    if graphs < 1:
        raise SpecError(f"got graphs={graphs}; expected at least 1")
    predictor = load(run)
    names = counted_names(predictor)
    families = fresh_families(graphs, seed)
    known, reason = _known(run, data_dir)
    seen: dict[str, int | None] = dict.fromkeys(families)
    if known is not None:
        families, seen = _fresh_only(families, known, seed)
    scale = predictor.bundle.scale or _scale_of(families[TRAINING_KIND].graphs, predictor)
    scores = {
        name: count_errors(predictor, family.graphs, scale)
        for name, family in track(families.items(), "Scoring families", len(families), show=progress)
    }
    settings = predictor.model.settings
    found: dict[str, Any] = finite(
        {
            "run": str(run),
            "preset": None if settings is None else settings.preset,
            "seed": seed,
            "bound": COUNTING_BOUND,
            "scale": "fresh graphs" if predictor.bundle.scale is None else "run",
            "substructures": list(names),
            "families": scores,
            "graphs": {
                name: {
                    "description": family.description,
                    "graphs": len(family.graphs),
                    "nodes": int(family.graphs.num_nodes.sum()),
                    "seen": seen[name],
                }
                for name, family in families.items()
            },
            "not_checked": reason,
        }
    )
    return found


def counted_names(predictor: Predictor) -> tuple[str, ...]:
    """The substructures among the targets, in their order; refuses a model that has none, or that needs features."""
    card = predictor.card
    names = tuple(name for name in card.target_names if name in SUBSTRUCTURES)
    remedy = "Train one, e.g. with a recipe for counting (pointset recipes lists them)"
    if not names or card.level is not Level.NODE or card.task is not Task.REGRESSION:
        targets = ", ".join(card.target_names[:6]) + (", …" if len(card.target_names) > 6 else "")
        raise SpecError(
            f"got a model for {card.task.value} of {card.level.value}s with the targets {targets}; expected counts at "
            f"nodes of some of {', '.join(SUBSTRUCTURES)}. {remedy}"
        )
    if needed := needs_features(predictor):
        raise SpecError(f"got a model that reads {needed}; expected one of bare graphs, as fresh ones are. {remedy}")
    return names


def count_errors(predictor: Predictor, graphs: GraphArrays, scale: TargetScale) -> dict[str, dict[str, Any]]:
    """How well the model counts on these bare graphs, for each substructure among its targets (see the module).

    Errors are divided by the deviations of ``scale``, which has all targets of the model, as in training.
    """
    names = counted_names(predictor)
    columns = predictor.card.columns_of(names)
    predicted = torch.cat(predictor.predict(list(graphs), progress=False))[:, columns]  # (N, k)
    exact = _exact(graphs, names)
    used = TargetScale(scale.mean[columns], scale.std[columns])
    per_target = score(predicted, exact, predictor.card.with_targets(names), used).per_target
    found = {}
    for column, name in enumerate(names):
        mae = per_target[name]["normalised_mae"]
        given, counts = predicted[:, column], exact[:, column]
        found[name] = {
            "mae": mae,
            "counts": mae <= COUNTING_BOUND,
            "exact_share": float((given.round() == counts).double().mean()),
            **_worst(graphs, given, counts),
        }
    return found


def _exact(graphs: GraphArrays, names: Sequence[str]) -> Tensor:
    """(N, k) the true counts, float64."""
    counts = count_many(graphs.num_nodes, graphs.num_edges, graphs.edges, progress=False)
    return torch.from_numpy(counts[:, [SUBSTRUCTURES.index(name) for name in names]]).double()


def _worst(graphs: GraphArrays, given: Tensor, counts: Tensor) -> dict[str, Any]:
    """The largest error, and the node where it happened; a prediction that is not a number is the worst."""
    errors = (given - counts).abs().nan_to_num(nan=torch.inf)
    row = int(errors.argmax())
    ends = np.cumsum(graphs.num_nodes)
    graph = int(np.searchsorted(ends, row, side="right"))
    return {
        "largest_error": float(errors[row]),
        "where": {
            "graph6": line_of_graph(graphs[graph]).decode(),
            "node": row - int(ends[graph] - graphs.num_nodes[graph]),
            "count": int(counts[row]),
            "predicted": float(given[row]),
        },
    }


def _known(run: str | Path, data_dir: str | Path | None) -> tuple[GraphArrays | None, str | None]:
    """The graphs of train and val, or why they are not known: counting continues without."""
    try:
        data = data_of(run, data_dir, progress=False)
    except PointsetError as error:
        return None, str(error)
    return bare(data.dataset.arrays, np.concatenate([data.part("train"), data.part("val")])), None


def _fresh_only(
    families: dict[str, FreshFamily], known: GraphArrays, seed: int
) -> tuple[dict[str, FreshFamily], dict[str, int | None]]:
    """The families without graphs that training has seen, and how many those were."""
    fresh, seen = {}, {}
    for name, family in families.items():
        same = isomorphic_to_one_of(known, family.graphs)
        if same.all():
            raise SpecError(
                f"all {len(same)} graphs of the family {name!r} from seed {seed} are in the run's own data; expected "
                "graphs that it has not seen. Choose another --seed, or more --graphs"
            )
        fresh[name] = FreshFamily(family.description, bare(family.graphs, np.flatnonzero(~same)))
        seen[name] = int(same.sum())
    return fresh, dict(seen)


def _scale_of(graphs: GraphArrays, predictor: Predictor) -> TargetScale:
    """For a run whose targets were not scaled: deviations of the counts on fresh graphs of the training kind."""
    names, count = counted_names(predictor), len(predictor.card.targets)
    scale = TargetScale(torch.zeros(count, dtype=torch.float64), torch.ones(count, dtype=torch.float64))
    columns, of_counts = predictor.card.columns_of(names), TargetScale.of(_exact(graphs, names))
    scale.mean[columns], scale.std[columns] = of_counts.mean, of_counts.std
    return scale


def fresh_families(count: int, seed: int) -> dict[str, FreshFamily]:
    """``count`` graphs of the benchmark's own kind, larger ones, and quite different ones.

    Graph i of a family depends on the seed, the family and i alone.
    """
    num_nodes, num_edges, edges = counting_graphs(seed, count)
    families = {
        TRAINING_KIND: FreshFamily(
            "regular graphs of 10 to 30 nodes, n edges removed", GraphArrays.from_flat(num_nodes, num_edges, edges)
        )
    }
    for name, family in FAMILIES.items():
        families[name] = FreshFamily(family.description, read_graphs(family.draw_many(count, seed)))
    families["cycles"] = FreshFamily("one cycle of 3 to 30 nodes", read_graphs(map(nx.cycle_graph, _CYCLES[:count])))
    return families


def data_of(run: str | Path, data_dir: str | Path | None, *, progress: bool | None) -> TrainingData:
    """The data of a run's recipe, which a bundle alone does not have."""
    folder = RunFolder(run)
    if not folder.has_run:
        raise MissingDataError(
            f"{folder.path} has no recipe.yaml, so its data is not known; expected the folder of a run. "
            "Give that, not only its bundle"
        )
    return load_data(read_recipe(folder.recipe), data_dir, progress=progress)


def needs_features(predictor: Predictor) -> str:
    """``node features and positions``: what a model reads besides the edges; empty where any bare graph will do."""
    found = {
        "node features": predictor.card.node is not None,
        "edge features": predictor.card.edge is not None,
        "positions": uses_positions(predictor.model),
    }
    return " and ".join(name for name, needed in found.items() if needed)


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
