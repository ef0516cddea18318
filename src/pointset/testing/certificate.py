"""An invariance certificate for a trained model on some data, in plain values (:func:`check_run`).

Every symmetry is measured and judged in the model's own precision and in float64. In float32 rounding hides small
violations and cannot be distinguished from them. In float64 the same weights leave nothing of rounding, so that what is
left there is the structure's own fault.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pointset.datasets.molecules.parallel import read_chunk
from pointset.encoders.model import PointModel
from pointset.errors import MissingDataError, MissingExtraError, PointsetError, SpecError
from pointset.files import finite
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graph
from pointset.points.matrices import matrix_named
from pointset.prediction.evaluation import recipe_of
from pointset.prediction.predictor import Predictor, load
from pointset.prediction.sources import DatasetSource, InputRow, Source
from pointset.prediction.tables import PredictionOptions, TablePrediction
from pointset.progress import progress_bar, track
from pointset.runs.folder import RunFolder
from pointset.runs.recipe_files import read_recipe
from pointset.specs import check_whole_numbers
from pointset.testing.symmetry import Change, Measurement, RowsOfGraphs, Symmetry, as_points, measure_invariance
from pointset.training.data import load_data
from pointset.training.outputs import as_predictions

ALLOWED = {"float32": 1e-4, "float64": 1e-8}  # of the largest output
_BATCH_SIZE = 64  # graphs
_BATCH_BYTES = 256 * 2**20  # of activations; large graphs come in smaller batches


def check_run(
    run: str | Path,
    data: str | None = None,
    *,
    smiles: str | None = None,
    data_dir: Path | None = None,
    public_key: Path | None = None,
    limit: int = 200,
    seed: int = 0,
    repeats: int = 3,
    tolerance: float = ALLOWED["float32"],
    tolerance_float64: float = ALLOWED["float64"],
    progress: bool | None = None,
) -> dict[str, Any]:
    """Measure and judge every symmetry of a run's model.

    Args:
        run: the folder of a run, a bundle, or the name of a shipped model.
        data: what ``pointset predict`` takes: a table of SMILES, graph files, the name of a dataset; by default the
            test part of the run's own data.
        smiles: the column of SMILES of a table.
        data_dir: where a dataset's files lie.
        public_key: the file of the key that the bundle must be signed with (:func:`pointset.load`).
        limit: most graphs to check, drawn at random.
        seed: of that choice and of all random changes, which are the same in both precisions.
        repeats: number of random draws of each change.
        tolerance: largest difference in float32, relative to the largest output.
        tolerance_float64: the same in float64.
        progress: whether to show bars; by default where there is a terminal.

    Returns:
        ``invariant``, ``graphs`` (how many were checked), ``repeated_eigenvalues`` (how many of them have some),
        ``checks`` (one for each symmetry and precision, with the worst graph), ``worst_check`` (the one nearest to its
        tolerance, or farthest beyond), ``left_out`` (rows that cannot be read, with reasons), and what was asked. All
        is fit for JSON: what is not a finite number is None.

    Raises:
        PointsetError: the run or its data cannot be read, so that nothing is said of the model.
    """
    check_whole_numbers(limit=limit, repeats=repeats)
    allowed = {"float32": tolerance, "float64": tolerance_float64}
    for value in allowed.values():
        if not 0 < value < math.inf:
            raise SpecError(f"got a tolerance of {value!r}; expected a positive number")
    predictor = load(run, public_key=public_key)
    source, name = _input(predictor, Path(run), data, smiles, data_dir, progress)
    drawn = _drawn(predictor, source, name, limit, seed, progress)
    checks = _checks(predictor.models, drawn.graphs, seed, repeats, allowed, progress)
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
    return dict(finite(found))


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
    before, after = as_predictions(rows, card.task, predictor.bundle.scale)[:, worst.column].tolist()
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


class Check(NamedTuple):
    """One symmetry in one precision."""

    precision: str
    tolerance: float
    measured: Measurement

    @property
    def passed(self) -> bool:
        """Whether no graph's output changed by more than is allowed."""
        return self.measured.largest <= self.tolerance

    @property
    def excess(self) -> float:
        """How often the largest change holds what is allowed: above 1 is a violation."""
        return self.measured.largest / self.tolerance


def _checks(
    models: Sequence[PointModel],
    graphs: Sequence[Graph],
    seed: int,
    repeats: int,
    allowed: Mapping[str, float],
    progress: bool | None,
) -> list[Check]:
    """A check for each symmetry and precision: of an ensemble the worst member's. The models are not changed: float64
    is computed with a copy.
    """
    own = next(models[0].parameters()).dtype
    computed = len(graphs) * (2 + repeats * (len(Symmetry) - 1))  # as given, alone; then the draws
    # Two batches at least, so that another order also means other graphs beside each.
    batch_size = max(2, min(_BATCH_SIZE, (len(graphs) + 1) // 2))
    worst: dict[tuple[str, Symmetry], Check] = {}
    precisions = list(dict.fromkeys((own, torch.float64)))
    with progress_bar("Checking", computed * len(precisions) * len(models), show=progress) as advance:
        for dtype, model in itertools.product(precisions, models):
            tried = model if dtype is own else copy.deepcopy(model).to(dtype)
            rows = RowsOfGraphs(tried, batch_size=batch_size, batch_bytes=_BATCH_BYTES, advance=advance)
            name = str(dtype).removeprefix("torch.")
            for measured in measure_invariance(tried, graphs, seed=seed, repeats=repeats, rows=rows):
                check, place = Check(name, allowed[name], measured), (name, measured.symmetry)
                if place not in worst or check.excess > worst[place].excess:
                    worst[place] = check
    return list(worst.values())


@dataclass(frozen=True, eq=False)
class DrawnGraphs:
    """Some graphs of an input, in its order, with the features that the model takes."""

    data: str  # the input, for people
    available: int  # how many the input has
    names: list[str] = field(default_factory=list)  # "line 7", "graph 3"
    smiles: list[str | None] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # by name, why it cannot be read


def _input(
    predictor: Predictor, run: Path, data: str | None, smiles: str | None, data_dir: Path | None, progress: bool | None
) -> tuple[Source, str]:
    """The data given, or the test part of the run's own; and its name for people."""
    if data is not None:
        options = PredictionOptions(data, smiles=smiles, data_dir=data_dir, workers=0)
        return TablePrediction(predictor, options, show=progress).source, data
    folder = RunFolder(run)
    recipe = read_recipe(folder.recipe) if folder.has_run else recipe_of(predictor.bundle)
    if recipe is None:
        raise MissingDataError(f"{run} is a model without the data of its run; give some, as for `pointset predict`")
    try:
        own = load_data(recipe, data_dir, progress=progress)
    except MissingDataError as error:
        raise MissingDataError(f"{error}\nOr give other data to check on, as for `pointset predict`") from None
    if not len(own.part("test")):
        raise SpecError(f"{own.card.name} has no graphs in its part 'test'; give other data to check on")
    return DatasetSource(own.dataset, "test", predictor.engine(1).needs), f"{own.card.name}, test"


def _drawn(
    predictor: Predictor, source: Source, data: str, limit: int, seed: int, progress: bool | None
) -> DrawnGraphs:
    """At most ``limit`` graphs of the input, at random, those that can be read with the features the model takes."""
    rows, available = _sample(track(source.rows(), "Reading", source.count(), show=progress), limit, seed)
    drawn = DrawnGraphs(data, available)
    read, engine = predictor.molecule_reader() if source.has_smiles else None, predictor.engine(1)
    for row in rows:
        try:
            item = read_chunk(read, [row.item])[0] if read is not None and isinstance(row.item, str) else row.item
            arrays = read_graph(engine.prepare(item))
            matrix_named(engine.needs.matrix).check(arrays)  # now, so that one with self-loops does not stop all others
        except MissingExtraError:
            raise
        except PointsetError as error:
            drawn.left_out[row.place] = str(error)
            continue
        drawn.names.append(row.place)
        drawn.smiles.append(_smiles(source, row))
        drawn.graphs.append(arrays[0])
    if not drawn.graphs:
        why = next((f"{name}: {reason}" for name, reason in drawn.left_out.items()), f"it has no {source.unit}s")
        raise SpecError(f"none of {data} can be checked; expected at least one {source.unit} to be readable\n{why}")
    return drawn


def _sample(rows: Iterable[InputRow], limit: int, seed: int) -> tuple[list[InputRow], int]:
    """``limit`` of them, each set equally likely, in their order; and how many there are (reservoir sampling)."""
    generator = random.Random(seed)  # noqa: S311 no secret
    chosen: list[tuple[int, InputRow]] = []
    count = 0
    for count, row in enumerate(rows, start=1):
        if len(chosen) < limit:
            chosen.append((count, row))
        elif (place := generator.randrange(count)) < limit:
            chosen[place] = count, row
    return [row for _, row in sorted(chosen, key=itemgetter(0))], count


def _smiles(source: Source, row: InputRow) -> str | None:
    if isinstance(row.item, str):
        return row.item
    return dict(zip(source.columns, row.cells, strict=True)).get("smiles")
