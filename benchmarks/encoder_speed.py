"""How fast a training step of the encoders is, against the padded reference and the machine's own matrix products.

    python benchmarks/encoder_speed.py [--data-dir DIR] [--json FILE] [--quick] [--bf16] [--compile]

A step is forward, L1 loss, backward and AdamW on one batch of 128 graphs of ZINC-12k (bond types as edge weights, atom
types as node features), with 6 layers of 80 channels. Without the data, random graphs of the same sizes are used and
the output says so. The batch is gathered, or padded, before the step; the reference (padded_reference.py) computes its
eigenvectors inside the step, as the authors do, and the time of that part is given beside it.

* Times: one process for 1 thread and one for 2; in it the steps of ours, of the reference and of the other presets
  alternate, after a first step of each that is not counted. Medians.
* Share of the machine's speed: the floating-point operations that the mathematics of a step needs (`operations` below
  says what is counted) for each second of a step of `pst-released`, divided by the same figure of a product of two
  2048 × 2048 matrices in float32, measured between the steps.
* Memory: a fresh process for each of ours, ours with `model.checkpointing = True` and the reference; how far resident
  memory rises in one step above what was resident before it, after a step with 2 graphs that loads all libraries.
* Gathering: a pass of `pointset.PointLoader` over 2,560 of the point sets, shuffled, for each batch.

The reference needs about 8 GB. `--quick` runs everything once with 8 graphs, 2 layers of 16: to see that it works.
`--bf16` and `--compile` also measure bfloat16 autocast and torch.compile, on the CPU, with 2 layers and 16 graphs of
one size (only the encoder is compiled, for this size: a whole model runs as written), given up after 20 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss

import pointset
from common import machine, report
from padded_reference import PaddedBatch, eigenpairs, pad, reference_of
from pointset.encoders import model as execution
from pointset.points.graphs import Features, Graph

ATOM_TYPES, BOND_TYPES = 28, 3
PRESETS = ("pst-released", "pst", "psds", "pst-gc", "pst-onelayer")
MEMORY_OF = ("ours", "ours with checkpointing", "reference")
EXTRAS = {"bf16": "bfloat16 autocast", "compile": "torch.compile"}
THREADS = (1, 2)
PATIENCE = 20 * 60  # seconds for torch.compile


class Setting(NamedTuple):
    """What is measured."""

    graphs: int = 128  # in a batch
    dim: int = 80
    layers: int = 6
    repeats: int = 5
    reference_repeats: int = 2
    product: int = 2048  # size of the matrices of the product to compare with
    gathered: int = 20  # batches


QUICK = Setting(graphs=8, dim=16, layers=2, repeats=1, reference_repeats=1, product=256, gathered=2)


def zinc(folder: Path, count: int) -> tuple[str, pointset.GraphArrays]:
    """The first ``count`` graphs of ZINC-12k, or random ones like them."""
    path = folder / "zinc" / "zinc12k.npz"
    if not path.exists():
        return "random graphs of ZINC's sizes", synthetic_zinc(count)
    with np.load(path) as file:
        nodes, edges = file["num_nodes"][:count].astype(int), file["num_edges"][:count].astype(int)
        atoms = torch.split(torch.from_numpy(file["atom_type"][: nodes.sum()].astype(np.int64)), nodes.tolist())
        targets = torch.split(torch.from_numpy(file["y"][:count]), 1)
        features = [Features(x=x, y=y) for x, y in zip(atoms, targets, strict=True)]
        ends, bonds = file["edges"][: edges.sum()].T, file["bond_type"][: edges.sum()]
    return "ZINC-12k", pointset.GraphArrays.from_flat(nodes, edges, ends, bonds, features)


def synthetic_zinc(count: int, seed: int = 0) -> pointset.GraphArrays:
    """Random connected graphs of ZINC's sizes with edge weights 1 to 3 and 28 categories of nodes."""
    generator = np.random.default_rng(seed)
    nodes = np.clip(generator.normal(23.16, 4.48, count).round(), 9, 37).astype(int)
    ends = [random_molecule(int(size), generator) for size in nodes]
    edges = np.array([len(pairs) for pairs in ends])
    bonds = generator.integers(1, BOND_TYPES + 1, edges.sum())
    features = [
        Features(
            x=torch.from_numpy(generator.integers(0, ATOM_TYPES, size)), y=torch.tensor([float(generator.normal())])
        )
        for size in nodes
    ]
    return pointset.GraphArrays.from_flat(nodes, edges, np.concatenate(ends).T, bonds, features)


def random_molecule(size: int, generator: np.random.Generator) -> list[tuple[int, int]]:
    """Edges of a random tree in which no node has more than 4 neighbours, with up to 3 rings closed."""
    degree = np.zeros(size, dtype=int)
    edges: list[tuple[int, int]] = []
    for high in range(1, size):
        low = int(generator.choice(np.flatnonzero(degree[:high] < 4)))
        edges.append((low, high))
        degree[[low, high]] += 1
    for _ in range(3):
        low, high = sorted(generator.integers(0, size, 2).tolist())
        if low < high and (low, high) not in edges and degree[low] < 4 and degree[high] < 4:
            edges.append((low, high))
            degree[[low, high]] += 1
    return edges


def operations(sizes: Iterable[tuple[int, int]], dim: int, layers: int, out: int = 1) -> float:
    """Floating-point operations of a step of `pst-released` on graphs of the given (n, r): what the formulas need.

    Counted are the matrix products and sums of products, 2 for each multiplication with addition. For each layer

    * W_q v, W_k v, W₁v, W₂v: 4·2d²nr; the pairs' MLP: 2·2d²n²; the pairs' products ⟨q_i, k_j⟩: 2dn²r;
    * the scalars: MLP(ŝ) and MLP(s'): 2·2d²n; ⟨W₁v_i, W₂v_i⟩: 2dnr; Σ_j a_ij s'_j: 2dn²;
    * not in the last layer, whose vectors nothing reads: W v' 2d²nr, Σ_j a_ij v'_j 2dn²r, MLP(ŝ) of the vectors 2d²n;

    once the eigenvalues, MLP 1 → 2d → d and three layers of two MLPs of two: 2r(2d + 2d²) + 3·2·2·2d²r, and the
    readout 2d·out; all of it times 3 for forward and backward. Not counted: normalisation, SiLU, products of single
    numbers, embedding tables, AdamW, and whatever an implementation does besides.
    """
    total = 0
    for n, r in sizes:
        every = 8 * dim**2 * n * r + 4 * dim**2 * n**2 + 2 * dim * n**2 * r
        scalars = 4 * dim**2 * n + 2 * dim * n * r + 2 * dim * n**2
        vectors = 2 * dim**2 * n * r + 2 * dim * n**2 * r + 2 * dim**2 * n
        eigenvalues = 2 * r * (2 * dim + 2 * dim**2) + 24 * dim**2 * r
        total += layers * (every + scalars) + (layers - 1) * vectors + eigenvalues + 2 * dim * out
    return 3.0 * total


def training_step(model: nn.Module, batch: Any, y: Tensor, *, bf16: bool = False) -> Callable[[], None]:
    """One step of training: call it as often as you like."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            loss = l1_loss(model(batch).squeeze(-1).float(), y)
        torch.autograd.backward(loss)
        optimiser.step()

    return step


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


class Work(NamedTuple):
    """The data of a process."""

    name: str
    graphs: list[Graph]  # of the batch
    points: pointset.PointSets  # of all graphs read
    batch: pointset.PointBatch
    y: Tensor

    def model(self, preset: str, setting: Setting) -> pointset.PointModel:
        torch.manual_seed(0)
        node = pointset.Categories(ATOM_TYPES)
        return pointset.PointModel.from_preset(preset, node=node, dim=setting.dim, layers=setting.layers)

    def padded(self) -> PaddedBatch:
        return pad(self.graphs)


def load(folder: Path, setting: Setting, one_size: bool = False) -> Work:
    """Graphs and their points; with ``one_size`` only those that have as many nodes as most."""
    name, arrays = zinc(folder, setting.graphs * setting.gathered)
    common = statistics.mode(arrays.num_nodes.tolist())
    graphs = [graph for graph in arrays if graph.num_nodes == common or not one_size]
    points = pointset.to_points_many(graphs, progress=False)
    batch = pointset.collate(points[: setting.graphs]).to(torch.float32)
    assert batch.y is not None
    return Work(name, graphs[: setting.graphs], points, batch, batch.y)


def measure_times(folder: Path, setting: Setting) -> dict[str, Any]:
    """Medians of everything that is timed, with the threads that torch has now."""
    work = load(folder, setting)
    padded = work.padded()
    steps = {preset: training_step(work.model(preset, setting), work.batch, work.y) for preset in PRESETS}
    steps["reference"] = training_step(reference_of(work.model("pst-released", setting)), padded, work.y)
    square = torch.randn(setting.product, setting.product)
    found: dict[str, list[float]] = {name: [] for name in (*steps, "eigh", "product", "gathering")}
    for name, step in steps.items():
        with_progress(f"first step of {name}")
        step()
    for repeat in range(setting.repeats):
        with_progress(f"repeat {repeat + 1} of {setting.repeats}")
        for name, step in steps.items():
            if name != "reference" or repeat < setting.reference_repeats:
                found[name].append(seconds(step))
                found["product"].append(seconds(lambda: square @ square))
        found["eigh"].append(seconds(lambda: eigenpairs(padded.adjacency)))
        found["gathering"].append(gathering(work.points, setting.graphs))
    medians = {name: statistics.median(values) for name, values in found.items()}
    sizes = [(graph.num_nodes, work.points[position].rank) for position, graph in enumerate(work.graphs)]
    nodes = [n for n, _ in sizes]
    return {
        "data": work.name,
        "sizes": f"n {min(nodes)} to {max(nodes)}, mean {statistics.mean(nodes):.1f}, {len(work.batch.groups)} groups",
        "operations": operations(sizes, setting.dim, setting.layers),
        "product speed": 2 * setting.product**3 / medians["product"],
        "medians": medians,
    }


def gathering(points: pointset.PointSets, graphs: int) -> float:
    """Seconds for a batch: a shuffled pass of the loader."""
    loader = pointset.PointLoader(points, graphs, shuffle=True, generator=torch.Generator().manual_seed(0))
    start = time.perf_counter()
    batches = sum(1 for _ in loader)
    return (time.perf_counter() - start) / batches


def measure_memory(folder: Path, setting: Setting, which: str) -> float:
    """GB by which resident memory rises in one step."""
    work, small = (load(folder, setting._replace(graphs=graphs, gathered=1)) for graphs in (setting.graphs, 2))
    model = work.model("pst-released", setting)
    model.checkpointing = which == "ours with checkpointing"
    if which == "reference":
        reference = reference_of(model)
        first = training_step(reference, small.padded(), small.y)
        step = training_step(reference, work.padded(), work.y)
    else:
        first = training_step(model, small.batch, small.y)
        step = training_step(model, work.batch, work.y)
    first()
    before = resident_memory()
    step()
    return (peak_memory() - before) / 1e9


def resident_memory() -> float:
    """Bytes resident now; outside of Linux the highest so far."""
    return _status("VmRSS")


def peak_memory() -> float:
    """Highest number of bytes resident in this process so far."""
    return _status("VmHWM")


def _status(field: str) -> float:
    # Not ru_maxrss, where /proc is there: a process inherits the ru_maxrss of the one that started it.
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    return float(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith(field))) * 1024


def measure_extra(folder: Path, setting: Setting, which: str) -> dict[str, object]:
    """Step times of `pst-released` plainly and with ``which``, on graphs of one size."""
    work = load(folder, setting, one_size=True)
    models = {name: work.model("pst-released", setting) for name in ("float32", which)}
    if which == "compile":  # only the encoder: a whole model runs as written, also inside torch.compile
        models[which].encoder.compile(dynamic=False)
    execution.has_bfloat16_products = lambda: True  # measured also where the model would refuse it
    steps = {name: training_step(model, work.batch, work.y, bf16=name == "bf16") for name, model in models.items()}
    first = {name: seconds(step) for name, step in steps.items()}
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(setting.repeats):
        for name, step in steps.items():
            found[name].append(seconds(step))
    plain, changed = (1e3 * statistics.median(values) for values in found.values())
    size = f"{setting.layers} layers of {setting.dim}, {setting.graphs} graphs of {work.graphs[0].num_nodes} nodes"
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
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    patience = PATIENCE if part == "compile" else None
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, timeout=patience)
    return json.loads(run.stdout.splitlines()[-1])


def figures_of_times(found: dict[str, Any], threads: int) -> dict[str, object]:
    medians, speed = found["medians"], found["operations"] / found["medians"]["pst-released"]
    label = f"{threads} thread{'s' if threads > 1 else ''}"
    return {
        **{f"{label}: step of {name}, s": round(medians[name], 3) for name in PRESETS},
        f"{label}: step of the padded reference, s": round(medians["reference"], 2),
        f"{label}: of which eigenvectors, s": round(medians["eigh"], 3),
        f"{label}: reference / pst-released": round(medians["reference"] / medians["pst-released"], 2),
        f"{label}: operations of a step of pst-released, 10⁹": round(found["operations"] / 1e9, 1),
        f"{label}: speed of a step of pst-released, 10⁹ operations/s": round(speed / 1e9, 1),
        f"{label}: speed of a matrix product, 10⁹ operations/s": round(found["product speed"] / 1e9, 1),
        f"{label}: share of the matrix product's speed": f"{speed / found['product speed']:.0%}",
        f"{label}: gathering a batch, ms": round(1e3 * medians["gathering"], 1),
        f"{label}: gathering / step": f"{medians['gathering'] / medians['pst-released']:.1%}",
    }


def whole(arguments: argparse.Namespace, setting: Setting) -> None:
    times = {threads: in_process(arguments, "times", threads) for threads in THREADS}
    memory = {which: in_process(arguments, which, max(THREADS)) for which in MEMORY_OF}
    extras: dict[str, object] = {}
    for which, label in EXTRAS.items():
        try:
            extras |= in_process(arguments, which, max(THREADS)) if getattr(arguments, which) else {}
        except subprocess.TimeoutExpired:
            extras[label] = f"not done after {PATIENCE} s"
    data = times[1]
    figures: dict[str, object] = {
        "batch": f"{setting.graphs} graphs of {data['data']}, {data['sizes']}",
        "model": f"{setting.layers} layers of {setting.dim}",
        "repeats (medians)": f"{setting.repeats}, reference {setting.reference_repeats}",
    }
    for threads, found in times.items():
        figures |= figures_of_times(found, threads)
    figures |= {f"memory of a step, {which}, GB": round(value, 3) for which, value in memory.items()}
    for which in MEMORY_OF[:2]:
        figures[f"memory, reference / {which}"] = round(memory["reference"] / max(memory[which], 1e-3), 1)
    report("A training step of the encoders", {**figures, **extras, **machine(torch.__version__)}, arguments.json)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("POINTSET_DATA", "../shared/data"))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--quick", action="store_true", help="once, with tiny sizes")
    parser.add_argument("--bf16", action="store_true", help="also measure bfloat16 autocast")
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile")
    parser.add_argument("--part", choices=["times", *MEMORY_OF, *EXTRAS], help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=max(THREADS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    setting, folder = QUICK if arguments.quick else Setting(), Path(arguments.data_dir)
    if arguments.part is None:
        return whole(arguments, setting)
    torch.set_num_threads(arguments.threads)
    if arguments.part == "times":
        result: object = measure_times(folder, setting)
    elif arguments.part in EXTRAS:
        small = setting._replace(graphs=setting.graphs // 8, layers=2, gathered=20)
        result = measure_extra(folder, small, arguments.part)
    else:
        result = measure_memory(folder, setting, arguments.part)
    return print(json.dumps(result))


if __name__ == "__main__":
    main()
