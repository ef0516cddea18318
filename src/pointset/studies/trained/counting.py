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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pointset.datasets.card import Level, Task
from pointset.datasets.counting import SUBSTRUCTURES, count_many
from pointset.datasets.graph_files.graph6 import line_of_graph
from pointset.datasets.scale import TargetScale
from pointset.errors import PointsetError, SpecError
from pointset.points.graphs import GraphArrays
from pointset.progress import track
from pointset.studies.trained.fresh_graphs import TRAINING_KIND, Family, counting_families
from pointset.studies.trained.run_data import bare, data_of, isomorphic_to_one_of, learned_from, needs_features
from pointset.training.json_files import finite
from pointset.training.metrics import score
from pointset.training.predictor import Predictor, load

BOUND = 0.01


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
    families = counting_families(graphs, seed)
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
            "bound": BOUND,
            "scale": "fresh graphs" if predictor.bundle.scale is None else "run",
            "substructures": list(names),
            "families": scores,
            "graphs": {name: _described(family, seen[name]) for name, family in families.items()},
            "not_checked": reason,
        }
    )
    return found


def counted_names(predictor: Predictor) -> tuple[str, ...]:
    """The substructures among the targets, in their order.

    Raises:
        SpecError: there are none, they are not numbers at nodes, or the model needs features.
    """
    card = predictor.card
    names = tuple(name for name in card.target_names if name in SUBSTRUCTURES)
    remedy = "Train one, e.g. by a recipe whose title speaks of counting (pointset recipes)"
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
    """How well the model counts on these graphs, for each substructure among its targets (see the module).

    Args:
        predictor: a model of counts at nodes.
        graphs: G ≥ 1 of them, without features.
        scale: of all targets of the model; errors are divided by its deviations, as in training.
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
            "counts": mae <= BOUND,
            "exact_share": float((given.round() == counts).double().mean()),
            **_worst(graphs, given, counts),
        }
    return found


def _exact(graphs: GraphArrays, names: Sequence[str]) -> Tensor:
    """(N, k) the true counts, float64."""
    counts = count_many(graphs.num_nodes, graphs.num_edges, graphs.edges, progress=False)
    return torch.from_numpy(counts[:, [SUBSTRUCTURES.index(name) for name in names]]).double()


def _worst(graphs: GraphArrays, given: Tensor, counts: Tensor) -> dict[str, Any]:
    """The largest error, and the node where it happened; a prediction that is no number is the worst."""
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
    """What training has looked at, or why that is not known: counting goes on without."""
    try:
        return learned_from(data_of(run, data_dir, progress=False)), None
    except PointsetError as error:
        return None, str(error)


def _fresh_only(
    families: dict[str, Family], known: GraphArrays, seed: int
) -> tuple[dict[str, Family], dict[str, int | None]]:
    """The families without graphs that training has seen, and how many those were."""
    fresh, seen = {}, {}
    for name, family in families.items():
        same = isomorphic_to_one_of(known, family.graphs)
        if same.all():
            raise SpecError(
                f"all {len(same)} graphs of the family {name!r} from seed {seed} are in the run's own data; expected "
                "graphs that it has not seen. Choose another --seed, or more --graphs"
            )
        fresh[name] = Family(family.description, bare(family.graphs, np.flatnonzero(~same)))
        seen[name] = int(same.sum())
    return fresh, dict(seen)


def _scale_of(graphs: GraphArrays, predictor: Predictor) -> TargetScale:
    """For a run whose targets were not scaled: deviations of the counts on fresh graphs of the training kind."""
    exact = _exact(graphs, counted_names(predictor))
    count = len(predictor.card.targets)
    mean, std = torch.zeros(count, dtype=torch.float64), torch.ones(count, dtype=torch.float64)
    columns = predictor.card.columns_of(counted_names(predictor))
    of_counts = TargetScale.of(exact)
    mean[columns], std[columns] = of_counts.mean, of_counts.std
    return TargetScale(mean, std)


def _described(family: Family, seen: int | None) -> dict[str, Any]:
    return {
        "description": family.description,
        "graphs": len(family.graphs),
        "nodes": int(family.graphs.num_nodes.sum()),
        "seen": seen,
    }
