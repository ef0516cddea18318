"""Graphs on which a run's model is checked: of any data that it can predict, or of its own test part."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from pointset.datasets.molecules.many import Unreadable, read_chunk
from pointset.datasets.molecules.molecule import Molecule
from pointset.errors import MissingDataError, MissingExtraError, PointsetError, SpecError
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graph
from pointset.points.matrices import matrix_named
from pointset.progress import track
from pointset.training.data import load_data
from pointset.training.prediction.batches import check_forward_fits
from pointset.training.prediction.features import Needs
from pointset.training.prediction.graph_source import DatasetSource
from pointset.training.prediction.jobs import Job
from pointset.training.prediction.question import Question
from pointset.training.prediction.smiles import graph_of, refusal
from pointset.training.prediction.sources import Entry, Source
from pointset.training.predictor import Predictor
from pointset.training.recipe_files import read_recipe
from pointset.training.run_folder import RunFolder

_PART = "test"


@dataclass(frozen=True, eq=False)
class DrawnGraphs:
    """Some graphs of an input, in its order."""

    data: str  # the input, for people
    unit: str  # "row" or "graph"
    available: int  # how many the input has
    names: list[str] = field(default_factory=list)  # "line 7", "graph 3"
    smiles: list[str | None] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)  # with the features that the model takes
    left_out: dict[str, str] = field(default_factory=dict)  # by name, why it cannot be read


def graphs_of_data(
    predictor: Predictor,
    question: Question,
    *,
    limit: int,
    seed: int,
    progress: bool | None = None,
) -> DrawnGraphs:
    """At most ``limit`` rows of a table of SMILES, of graph files, or of a dataset.

    Raises:
        PointsetError: the input cannot be read, or none of its rows drawn.
    """
    job = Job(predictor, question, show=progress)
    return _drawn(predictor, job.source, question.given, limit, seed, progress)


def graphs_of_run(
    predictor: Predictor,
    run: Path,
    *,
    data_dir: Path | None = None,
    limit: int,
    seed: int,
    progress: bool | None = None,
) -> DrawnGraphs:
    """At most ``limit`` graphs of the run's own test part.

    Raises:
        MissingDataError: it is a bundle without a run, or the data is nowhere.
        SpecError: there is no test part.
    """
    folder = RunFolder(run)
    if not folder.has_run:
        raise MissingDataError(f"{run} is a model without the data of its run; give some, as for `pointset predict`")
    data = load_data(read_recipe(folder.recipe), data_dir, progress=progress)
    if not len(data.part(_PART)):
        raise SpecError(f"{data.card.name} has no graphs in its part {_PART!r}; give other data to check on")
    source = DatasetSource(data.dataset, _PART, _needs(predictor))
    return _drawn(predictor, source, f"{data.card.name}, {_PART}", limit, seed, progress)


def _needs(predictor: Predictor) -> Needs:
    return Needs.of(predictor.model, predictor.bundle.weighted_edges)


def _drawn(
    predictor: Predictor, source: Source, data: str, limit: int, seed: int, progress: bool | None
) -> DrawnGraphs:
    rows = track(source.entries(), "Reading", source.count(), show=progress)
    entries, available = _sample(rows, limit, seed)
    drawn = DrawnGraphs(data, source.unit, available)
    read = predictor.molecule_reader() if source.has_smiles else None
    for entry in entries:
        try:
            item = read_chunk(read, [entry.item])[0] if read is not None and entry.problem is None else entry.item
            graph = _prepared(predictor, entry, item)
        except MissingExtraError:
            raise
        except PointsetError as error:
            drawn.left_out[entry.place] = str(error)
            continue
        drawn.names.append(entry.place)
        drawn.smiles.append(_smiles(source, entry))
        drawn.graphs.append(graph)
    if not drawn.graphs:
        why = next((f"{name}: {reason}" for name, reason in drawn.left_out.items()), f"it has no {source.unit}s")
        raise SpecError(f"none of {data} can be checked; expected at least one {source.unit} to be readable\n{why}")
    return drawn


def _sample(entries: Iterable[Entry], limit: int, seed: int) -> tuple[list[Entry], int]:
    """``limit`` of them, each set equally likely, in their order; and how many there are (reservoir sampling)."""
    generator = random.Random(seed)  # noqa: S311 no secret
    kept: list[tuple[int, Entry]] = []
    count = 0
    for count, entry in enumerate(entries, start=1):
        if len(kept) < limit:
            kept.append((count, entry))
        elif (place := generator.randrange(count)) < limit:
            kept[place] = count, entry
    return [entry for _, entry in sorted(kept, key=itemgetter(0))], count


def _prepared(predictor: Predictor, entry: Entry, item: Any) -> Graph:
    """The graph with the features that the model takes.

    Raises:
        PointsetError: there is none, or it does not fit the model.
    """
    if entry.problem is not None:
        raise SpecError(entry.problem)
    if isinstance(item, Unreadable):
        raise refusal(item)
    graph = graph_of(item) if isinstance(item, Molecule) else item if isinstance(item, Graph) else read_graph(item)[0]
    check_forward_fits(graph.num_nodes, predictor.model.readout.linear.in_features)
    needs = _needs(predictor)
    arrays = read_graph(needs.fit(graph))
    matrix_named(needs.matrix).check(arrays)  # now, so that one graph with self-loops does not stop all others
    return arrays[0]


def _smiles(source: Source, entry: Entry) -> str | None:
    if isinstance(entry.item, str):
        return entry.item
    return dict(zip(source.columns, entry.cells, strict=True)).get("smiles")
