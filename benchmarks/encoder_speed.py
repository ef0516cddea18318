"""How fast a training step of the encoders is: against GPS, the padded references and the machine's matrix products.

    python benchmarks/encoder_speed.py [--data-dir DIR] [--json FILE] [--quick] [--bf16] [--compile]

About ten minutes on two cores, 8 GB. A step is forward, L1 loss, backward and AdamW on molecules of ZINC-12k with atom
types as node features. Without the data, random graphs of the same sizes are used and the output says so. Batches are
gathered, or padded, before the step. The models, in groups whose steps are compared (speed_cases.py):

* 6 layers of 80 on 128 graphs with bond types as edge weights, as the authors have them: ours, and for `pst-released`
  and `pst` the padded references (padded_reference.py), which compute their eigenvectors inside the step, as the
  authors do; the time of that part is given beside it.
* 6 layers of 80 on 128 graphs with bond types as edge features: ours and GPS (PyG's GPSConv, random-walk encodings,
  which it computes inside the step; the time of that part is given beside it).
* `pst-fast` and GPS, both as wide as it takes to have about 425,000 parameters, on 128 graphs; and `pst-fast`, `pst`
  and GPS of about 60,000 on 16 (the mean of a step over 8 such batches).

What is measured:

* Times: one process for 1 thread and one for 2; in it the steps of all models and references alternate, after a first
  step of each that is not counted. Medians. Two threads against one are the ratio of the two processes.
* Torch path: the same for ours in processes of their own with POINTSET_NATIVE=0.
* Share of the machine's speed: the floating-point operations that the mathematics of a step needs (operations.py says
  what is counted) for each second of a step, divided by the same figure of a product of two 2048 × 2048 matrices in
  float32, measured between the steps.
* Memory: a fresh process for each of `pst-released`, the same with `model.checkpointing = True` and its reference; how
  far resident memory rises in one step above what was resident before it, after a step with 2 graphs that loads all
  libraries.
* Gathering: a pass of `pointset.PointLoader` over 2,560 of the point sets, shuffled, for each batch.

`--quick` runs everything once with tiny sizes: to see that it works. `--bf16` and `--compile` also measure bfloat16
autocast and torch.compile, on the CPU, with 2 layers and 16 graphs of one size (only the encoder is compiled, for this
size: a whole model runs as written), given up after 20 minutes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pointset
from common import machine, report
from operations import COUNTED, operations
from padded_reference import TIMED, eigenpairs, reference_of
from pointset.encoders import model as execution
from pointset.machine import peak_bytes, resident_bytes
from pointset.native.build import status
from speed_cases import (
    PEER,
    PLAIN,
    QUICK,
    Case,
    Setting,
    Work,
    absent,
    cases,
    groups_of,
    seconds,
    steps_of,
    targets,
    training_step,
)

MEMORY_OF = ("ours", "ours with checkpointing", "reference")
EXTRAS = {"bf16": "bfloat16 autocast", "compile": "torch.compile"}
TIMES, TORCH_PATH = "times", "torch path"
THREADS = (1, 2)
PATIENCE = 20 * 60  # seconds for torch.compile
SWITCH = {"POINTSET_NATIVE": "0"}  # turns the native kernels off


def reference_name(preset: str) -> str:
    return f"reference of {preset}"


def measure_times(folder: Path, setting: Setting, *, torch_path: bool) -> dict[str, Any]:
    """Medians of everything that is timed, with the threads that torch has now."""
    work, chosen = Work(folder, setting), cases(setting, torch_path=torch_path)
    batches = {case.name: work.batches(case) for case in chosen}
    models = {case.name: case.model() for case in chosen}
    steps = {name: steps_of(model, batches[name]) for name, model in models.items()}
    for name, step in steps.items():
        with_progress(f"first step of {name}")
        step()
    rare = {} if torch_path else reference_steps(work, models, setting)
    others = {} if torch_path else other_parts(work, models, batches, setting)
    gc.freeze()  # else half a second of collecting what the libraries made falls into some step
    square = torch.randn(setting.product, setting.product)
    found: dict[str, list[float]] = {name: [] for name in (*steps, *rare, *others, "product")}
    for repeat in range(setting.repeats):
        with_progress(f"repeat {repeat + 1} of {setting.repeats}")
        timed = steps | rare | others if repeat < setting.reference_repeats else steps | others
        for name, action in timed.items():
            found[name].append(seconds(action) / len(batches.get(name, [0])))
            found["product"].append(seconds(lambda: square @ square))
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {
        "data": work.name,
        "sizes": describe(work, setting),
        "operations": {case.name: operations_of(work, case) for case in chosen if is_counted(case)},
        "models": {case.name: describe_model(case, models[case.name]) for case in chosen},
        "product speed": 2 * setting.product**3 / medians["product"],
        "medians": medians,
        "path": status().text,
    }


def reference_steps(
    work: Work, models: dict[str, pointset.PointModel], setting: Setting
) -> dict[str, Callable[[], None]]:
    """Of the padded references; their first steps are on two graphs, as one on all takes half a minute."""
    references = {reference_name(preset): reference_of(models[preset]) for preset in TIMED}
    for reference in references.values():
        training_step(reference, *work.padded(2))()
    return {name: training_step(reference, *work.padded(setting.graphs)) for name, reference in references.items()}


def other_parts(
    work: Work, models: dict[str, pointset.PointModel], batches: dict[str, list[pointset.PointBatch]], setting: Setting
) -> dict[str, Callable[[], object]]:
    """What belongs to steps, by itself: eigenvectors of the references, structure of GPS; and gathering a batch."""
    adjacency, points = work.padded(setting.graphs)[0].adjacency, work.points("weights", "laplacian")
    structures: dict[str, Callable[[], object]] = {}
    for name in models:
        if name.split(",")[0] == PEER:
            structures[f"structure of {name}"] = structure_of(models[name], batches[name])
    return {
        "eigh": lambda: eigenpairs(adjacency),
        "gathering": lambda: list(pointset.PointLoader(points, setting.graphs, shuffle=True, generator=drawn())),
        **structures,
    }


def structure_of(model: pointset.PointModel, batches: list[pointset.PointBatch]) -> Callable[[], object]:
    return lambda: [model.coordinates(group) for group in batches[0].groups]


def drawn() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def describe(work: Work, setting: Setting) -> str:
    nodes = [graph.num_nodes for graph in work.graphs["weights"][: setting.graphs]]
    return f"n {min(nodes)} to {max(nodes)}, mean {statistics.mean(nodes):.1f}"


def describe_model(case: Case, model: pointset.PointModel) -> str:
    return f"{case.group.layers} layers of {case.dim}, {model.num_parameters:,} parameters"


def is_counted(case: Case) -> bool:
    """Each preset once: with bond types as weights, where it is timed so, as edge features are not in the formulas."""
    return case.preset in COUNTED and (case.name == case.preset or case.preset not in PLAIN.presets)


def operations_of(work: Work, case: Case) -> float:
    """Of one step, the mean over the batches."""
    batches = work.batches(case)
    points = work.points(case.group.bonds, batches[0].matrix)
    sizes = [(points[place].num_nodes, points[place].rank) for place in range(min(work.setting.graphs, len(points)))]
    return operations(case.preset, sizes, case.dim, case.group.layers) / len(batches)


def measure_memory(folder: Path, setting: Setting, which: str) -> float:
    """GB by which resident memory rises in one step of `pst-released`."""
    work = Work(folder, setting._replace(gathered=1))
    case = next(case for case in cases(setting) if case.name == "pst-released")
    model = case.model()
    model.checkpointing = which == "ours with checkpointing"
    if which == "reference":
        reference = reference_of(model)
        first = training_step(reference, *work.padded(2))
        step = training_step(reference, *work.padded(setting.graphs))
    else:
        batch, points = work.batches(case)[0], work.points("weights", model.matrix)
        small = pointset.collate(points[:2]).to(torch.float32)
        first, step = (training_step(model, each, targets(each)) for each in (small, batch))
    first()
    before = resident_bytes()
    step()
    return (peak_bytes() - before) / 1e9


def measure_extra(folder: Path, setting: Setting, which: str) -> dict[str, object]:
    """Step times of `pst-released` plainly and with ``which``, on graphs of one size, 2 layers."""
    work = Work(folder, setting, one_size=True)
    group = groups_of(setting)[0]._replace(layers=2, graphs=setting.graphs)
    case = Case("pst-released", group, group.dim or PLAIN.dim or 0)
    models, batches = {name: case.model() for name in ("float32", which)}, work.batches(case)
    if which == "compile":  # only the encoder: a whole model runs as written, also inside torch.compile
        models[which].encoder.compile(dynamic=False)
    execution.has_bfloat16_products = lambda: True  # measured also where the model would refuse it
    steps = {name: steps_of(model, batches, bf16=name == "bf16") for name, model in models.items()}
    first = {name: seconds(step) for name, step in steps.items()}
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(setting.repeats):
        for name, step in steps.items():
            found[name].append(seconds(step))
    plain, changed = (1e3 * statistics.median(values) for values in found.values())
    nodes = work.graphs["weights"][0].num_nodes
    size = f"{group.layers} layers of {case.dim}, {setting.graphs} graphs of {nodes} nodes"
    figures: dict[str, object] = {f"{EXTRAS[which]}: step, ms ({size})": f"{changed:.1f}, without it {plain:.1f}"}
    if which == "compile":
        figures[f"{EXTRAS[which]}: first step, compiling, s"] = round(first[which], 1)
    return figures


def with_progress(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def in_process(arguments: argparse.Namespace, part: str, threads: int) -> Any:
    """The result of one part of this script in a fresh process."""
    command = [sys.executable, __file__, "--part", part, "--threads", str(threads)]
    command += ["--data-dir", str(arguments.data_dir)]
    command += ["--quick"] if arguments.quick else []
    with_progress(f"{part}, {threads} threads")
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **(SWITCH if part == TORCH_PATH else {})}
    patience = PATIENCE if part == "compile" else None
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, timeout=patience)
    return json.loads(run.stdout.splitlines()[-1])


def threads_label(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def figures_of_times(found: dict[str, Any], setting: Setting, threads: int) -> dict[str, object]:
    """Steps, ratios to the references and to GPS, shares of the product's speed; of one number of threads."""
    medians, label = found["medians"], threads_label(threads)
    figures: dict[str, object] = {f"{label}: step of {name}, s": round_time(medians[name]) for name in found["models"]}
    figures[f"{label}: step of the padded reference, s"] = round(medians[reference_name("pst-released")], 2)
    figures[f"{label}: step of the padded reference of pst, s"] = round(medians[reference_name("pst")], 2)
    figures[f"{label}: of which eigenvectors, s"] = round(medians["eigh"], 3)
    for preset in TIMED:
        figures[f"{label}: reference / {preset}"] = round(medians[reference_name(preset)] / medians[preset], 2)
    for group in groups_of(setting):
        names = {case.preset: case.name for case in cases(setting) if case.group == group}
        for preset, name in names.items():
            if PEER in names and preset != PEER:
                figures[f"{label}: {preset} / {PEER}, {group.label}"] = round(medians[name] / medians[names[PEER]], 2)
        if PEER in names:
            part = medians[f"structure of {names[PEER]}"]
            figures[f"{label}: of {names[PEER]}, edges and random walks, s"] = round_time(part)
    product = found["product speed"]
    figures[f"{label}: speed of a matrix product, 10⁹ operations/s"] = round(product / 1e9, 1)
    for name, needed in found["operations"].items():
        after = "" if name == "pst-released" else f", {name}"
        figures[f"{label}: operations of a step of {name}, 10⁹"] = round(needed / 1e9, 2)
        figures[f"{label}: share of the matrix product's speed{after}"] = f"{needed / medians[name] / product:.0%}"
    gathering = medians["gathering"] / setting.gathered
    figures[f"{label}: gathering a batch, ms"] = round(1e3 * gathering, 1)
    figures[f"{label}: gathering / step"] = f"{gathering / medians['pst-released']:.1%}"
    return figures


def figures_of_torch_path(found: dict[str, Any], native: dict[str, Any], threads: int) -> dict[str, object]:
    label, figures = threads_label(threads), dict[str, object]()
    for name in found["models"]:
        step = found["medians"][name]
        figures[f"{label}: torch path: step of {name}, s"] = round_time(step)
        figures[f"{label}: torch path / native path, {name}"] = round(step / native["medians"][name], 2)
    speed = found["product speed"] / native["product speed"]
    figures[f"{label}: torch path: speed of a matrix product, beside the native path's"] = f"{speed:.0%}"
    return figures


def round_time(value: float) -> float:
    """Seconds, to a tenth of a millisecond."""
    return round(value, 4)


def whole(arguments: argparse.Namespace, setting: Setting) -> None:
    start = time.perf_counter()
    times = {threads: in_process(arguments, TIMES, threads) for threads in THREADS}
    torch_path = {threads: in_process(arguments, TORCH_PATH, threads) for threads in THREADS}
    memory = {which: in_process(arguments, which, max(THREADS)) for which in MEMORY_OF}
    extras: dict[str, object] = {}
    for which, label in EXTRAS.items():
        try:
            extras |= in_process(arguments, which, max(THREADS)) if getattr(arguments, which) else {}
        except subprocess.TimeoutExpired:
            extras[label] = f"not done after {PATIENCE} s"
    one, two = (times[threads] for threads in THREADS)
    figures: dict[str, object] = {
        "batch": f"{setting.graphs} graphs of {one['data']}, {one['sizes']}",
        "repeats (medians)": f"{setting.repeats}, references {setting.reference_repeats}",
        "path": one["path"],
        **{f"model: {name}": text for name, text in one["models"].items()},
        **{f"model: {preset}": "not registered, not measured" for preset in absent()},
    }
    for threads, found in times.items():
        figures |= figures_of_times(found, setting, threads)
    for name in one["models"]:
        figures[f"two threads against one: {name}"] = round(one["medians"][name] / two["medians"][name], 2)
    figures["two threads against one: matrix product"] = round(two["product speed"] / one["product speed"], 2)
    for threads, found in torch_path.items():
        figures |= figures_of_torch_path(found, times[threads], threads)
    figures |= {f"memory of a step, {which}, GB": round(value, 3) for which, value in memory.items()}
    for which in MEMORY_OF[:2]:
        figures[f"memory, reference / {which}"] = round(memory["reference"] / max(memory[which], 1e-3), 1)
    took = {"all of this, minutes": round((time.perf_counter() - start) / 60, 1)}
    report(
        "A training step of the encoders", {**figures, **extras, **took, **machine(torch.__version__)}, arguments.json
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("POINTSET_DATA", "../shared/data"))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--quick", action="store_true", help="once, with tiny sizes")
    parser.add_argument("--bf16", action="store_true", help="also measure bfloat16 autocast")
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile")
    parser.add_argument("--part", choices=[TIMES, TORCH_PATH, *MEMORY_OF, *EXTRAS], help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=max(THREADS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    setting, folder = QUICK if arguments.quick else Setting(), Path(arguments.data_dir)
    if arguments.part is None:
        return whole(arguments, setting)
    torch.set_num_threads(arguments.threads)
    if arguments.part in (TIMES, TORCH_PATH):
        result: object = measure_times(folder, setting, torch_path=arguments.part == TORCH_PATH)
    elif arguments.part in EXTRAS:
        result = measure_extra(folder, setting._replace(graphs=max(2, setting.graphs // 8)), arguments.part)
    else:
        result = measure_memory(folder, setting, arguments.part)
    return print(json.dumps(result))


if __name__ == "__main__":
    main()
