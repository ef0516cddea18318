"""An invariance certificate for a trained model on some data, in plain values (:func:`check_run`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from pointset.encoders.model import PointModel
from pointset.errors import SpecError
from pointset.points.graphs import Graph
from pointset.testing.certificate import ALLOWED, Check, certify
from pointset.testing.measuring import Change, as_points
from pointset.testing.run_graphs import DrawnGraphs, graphs_of_data, graphs_of_run
from pointset.training.json_files import finite
from pointset.training.prediction.answers import answers
from pointset.training.prediction.question import Question
from pointset.training.predictor import Predictor, load


def check_run(
    run: str | Path,
    data: str | None = None,
    *,
    smiles: str | None = None,
    data_dir: Path | None = None,
    limit: int = 200,
    seed: int = 0,
    repeats: int = 3,
    tolerance: float = ALLOWED["float32"],
    tolerance_float64: float = ALLOWED["float64"],
    progress: bool | None = None,
) -> dict[str, Any]:
    """Measure and judge every symmetry of a run's model.

    Args:
        run: the folder of a run, or a bundle.
        data: what ``pointset predict`` takes: a table of SMILES, graph files, the name of a dataset; by default the
            test part of the run's own data.
        smiles: the column of SMILES of a table.
        data_dir: where a dataset's files lie.
        limit: most graphs to check, drawn at random.
        seed: of that choice and of all random changes.
        repeats: number of random draws of each change.
        tolerance: largest difference in float32, relative to the largest output.
        tolerance_float64: the same in float64.
        progress: whether to show bars; by default where there is a terminal.

    Returns:
        ``invariant``, ``graphs`` (how many were checked), ``repeated_eigenvalues`` (how many of them have some),
        ``checks`` (one for each symmetry and precision, with the worst graph), ``worst_check`` (the one nearest to its
        tolerance, or farthest beyond), ``left_out`` (rows that cannot be read, with reasons), and what was asked. All
        is fit for JSON: what is no finite number is None.

    Raises:
        PointsetError: the run or its data cannot be read, so that nothing is said of the model.
    """
    _check_numbers(limit, repeats, tolerance, tolerance_float64)
    predictor, allowed = load(run), {"float32": tolerance, "float64": tolerance_float64}
    if data is None:
        drawn = graphs_of_run(predictor, Path(run), data_dir=data_dir, limit=limit, seed=seed, progress=progress)
    else:
        question = Question(data, smiles=smiles, data_dir=data_dir, workers=0)
        drawn = graphs_of_data(predictor, question, limit=limit, seed=seed, progress=progress)
    checks = certify(predictor.model, drawn.graphs, seed=seed, repeats=repeats, allowed=allowed, progress=progress)
    found = {
        "invariant": all(check.passed for check in checks),
        "run": str(run),
        "data": drawn.data,
        "graphs": len(drawn.graphs),
        "available": drawn.available,
        "repeated_eigenvalues": _with_repeated_eigenvalues(predictor.model, drawn.graphs),
        "repeats": repeats,
        "seed": seed,
        "checks": [_plain(check, predictor, drawn) for check in checks],
        "worst_check": checks.index(max(checks, key=lambda check: check.excess)),
        "left_out": [{"row": name, "reason": reason} for name, reason in drawn.left_out.items()],
    }
    plain: dict[str, Any] = finite(found)
    return plain


def _plain(check: Check, predictor: Predictor, drawn: DrawnGraphs) -> dict[str, Any]:
    measured = check.measured
    return {
        "symmetry": measured.symmetry.name.lower(),
        "change": measured.symmetry.value,
        "precision": check.precision,
        "largest": measured.largest,
        "tolerance": check.tolerance,
        "passed": check.passed,
        "largest_output": measured.largest_output,
        "worst": None if measured.worst is None else _worst(measured.worst, measured.differences, predictor, drawn),
    }


def _worst(worst: Change, differences: list[float], predictor: Predictor, drawn: DrawnGraphs) -> dict[str, Any]:
    """The graph with the largest change, and what ``pointset predict`` would say of it before and after."""
    card, graph = predictor.card, drawn.graphs[worst.graph]
    rows = torch.stack([worst.before, worst.after]).to("cpu", torch.float64)
    scale = predictor.bundle.scale
    before, after = answers(rows if scale is None else scale.restore(rows), card.task)[:, worst.column].tolist()
    return {
        "graph": drawn.names[worst.graph],
        "smiles": drawn.smiles[worst.graph],
        "nodes": graph.num_nodes,
        "edges": graph.edges.shape[1],
        "difference": differences[worst.graph],
        "target": (card.classes or card.target_names)[worst.column],
        "node": worst.row if predictor.model.readout.level == "node" else None,
        "before": before,
        "after": after,
    }


def _with_repeated_eigenvalues(model: PointModel, graphs: list[Graph]) -> int:
    """Only on these graphs another basis inside an eigenspace is more than a change of signs."""
    spaces = (points.eigenspaces() for points in as_points(model, graphs))
    return sum(any(space.multiplicity > 1 for space in of_graph) for of_graph in spaces)


def _check_numbers(limit: int, repeats: int, *tolerances: float) -> None:
    for name, value in (("limit", limit), ("repeats", repeats)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SpecError(f"got {name}={value!r}; expected a whole number, at least 1")
    for tolerance in tolerances:
        if not 0 < tolerance < math.inf:
            raise SpecError(f"got a tolerance of {tolerance!r}; expected a positive number")
