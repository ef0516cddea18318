"""What each process of a run does (:func:`work`): train, then together score the test part; the first one writes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pointset.datasets.card import Card
from pointset.datasets.molecules.reader import OGB_READER, MoleculeReader
from pointset.datasets.splits import save_split
from pointset.files import replacing
from pointset.training.bundle import write_bundle
from pointset.training.checkpoint import read_checkpoint
from pointset.training.data import TrainingData, build_model, load_data
from pointset.training.data_words import data_in_words
from pointset.training.devices import processes_here, thread_count, threads_for
from pointset.training.environment import environment
from pointset.training.examples import examples_of
from pointset.training.fitting import Fitting
from pointset.training.job import Job
from pointset.training.json_files import read_json, write_json
from pointset.training.metrics import Scores, score
from pointset.training.prediction_table import write_predictions
from pointset.training.recipe import Recipe
from pointset.training.result import result_of
from pointset.training.same_beginning import check_same_beginning, recipe_digest
from pointset.training.watching import Watchers, watcher_for

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def work(fabric: Fabric, job: Job, data: TrainingData | None = None) -> dict[str, Any]:
    """What each process does: train, and together score the test part; the first one writes."""
    if data is None:
        data = load_data(job.recipe, job.data_dir, progress=False)
    folder, first = job.folder, fabric.is_global_zero
    threads = threads_for(job.recipe, processes_here(fabric))
    if folder.has_run:
        check_same_beginning(folder, job.recipe, data.dataset)
    elif first:
        _write_beginning(job, data, fabric, threads)
    fabric.barrier()
    checkpoint = read_checkpoint(folder.last_checkpoint) if folder.last_checkpoint.exists() else None
    log_dir = folder.path / "tensorboard" if job.recipe.trainer.tensorboard else None
    watcher = watcher_for(job.watch, log_dir=log_dir) if first else watcher_for("quiet", log_dir=None)
    if first and job.watcher is not None:
        watcher = Watchers(watcher, job.watcher)
    with thread_count(threads):
        model = build_model(job.recipe, data.card)
        fitting = Fitting(fabric, model, data, job.recipe, folder, watcher, checkpoint)
        watcher.say(data_in_words(data))
        fitting.run()
        return _finish(fitting)


def _write_beginning(job: Job, data: TrainingData, fabric: Fabric, threads: int) -> None:
    """The recipe comes last: a folder with a recipe is a run that can be resumed."""
    folder, dataset = job.folder, data.dataset
    about = environment(device=fabric.device.type, processes=fabric.world_size, threads=threads)
    source = dataset.provenance
    about["data"] = {"source": source.source, "origin": source.origin, "sha256": list(source.sha256)}
    about["recipe_sha256"] = recipe_digest(job.recipe)
    write_json(folder.environment, about)
    save_split(folder.split, dataset.split, count=len(dataset), made_by=dataset.card.split)
    with replacing(folder.recipe) as temporary:
        temporary.write_text(job.recipe.as_yaml(), encoding="utf-8")


def _finish(fitting: Fitting) -> dict[str, Any]:
    """Score the test part, write what the run leaves behind; the result comes last."""
    fabric, data, recipe, folder = fitting.fabric, fitting.data, fitting.recipe, fitting.folder
    model = fitting.best_model()
    graphs = data.part("test")
    outputs = fitting.predictions(graphs)
    test = score(outputs, data.targets(graphs), data.card, data.scale) if len(graphs) else Scores({}, {})
    result = result_of(recipe, data, fitting.progress, fitting.metric, test, model.num_parameters)
    if not fabric.is_global_zero:
        return result
    if len(graphs):
        write_predictions(folder.predictions, data, graphs, outputs)
        write_json(folder.examples, examples_of(model, data, graphs, outputs))
    write_bundle(
        folder.bundle,
        model,
        data.card,
        scale=data.scale,
        weighted_edges=recipe.dataset.weighted_edges,
        molecule_reader=_reader_settings(recipe, data.card),
        about={"recipe": recipe.name, "seed": recipe.seed, "metric": fitting.metric, "test": test.overall},
    )
    write_json(folder.result, result)
    return read_json(folder.result)


def _reader_settings(recipe: Recipe, card: Card) -> dict[str, Any] | None:
    """How the molecules were read: own ones by the options, benchmarks as OGB does."""
    if card.molecules is None:
        return None
    if recipe.dataset.name is not None:
        return dataclasses.asdict(OGB_READER)
    known = [field.name for field in dataclasses.fields(MoleculeReader)]
    return {key: value for key, value in recipe.dataset.options.items() if key in known}
