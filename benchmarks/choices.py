"""What the paper leaves open in PST, decided by measurement: small models, real data, one change at a time.

    python benchmarks/choices.py [--data-dir DIR] [--json FILE] [--epochs 12] [--seeds 2] [--only NAME …]

Two tasks: ZINC-12k (1,000 training graphs, graph regression) and four-cycles at each node of the counting graphs (1,000
training graphs, node regression). Every row trains the preset `pst` (3 layers of 32) with one part replaced, from the
same seeds, and gives the mean absolute error on 500 validation graphs, in units of the target's standard
deviation; the best epoch. Differences below the spread over seeds mean nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor, nn

import pointset
from common import machine, report
from pointset.arrays import Integers
from pointset.datasets import Dataset, load
from pointset.datasets.dataset import TargetScale
from pointset.encoders import layers as parts
from pointset.encoders import pst
from pointset.encoders.batch import PointGroup
from pointset.encoders.coordinates import Coordinates, LearnedDeepSet
from pointset.encoders.layers import PointState, VectorNorm
from pointset.encoders.products import weighted_sums
from pointset.encoders.pst import PST

WIDTH = 32


@dataclass(frozen=True)
class Task:
    """1,000 training and 500 validation graphs, and the scale that gives targets mean 0 and deviation 1."""

    dataset: Dataset
    points: pointset.PointSets
    train: Integers
    valid: Integers
    scale: TargetScale

    @classmethod
    def of(cls, dataset: Dataset) -> Task:
        train, valid = dataset.split["train"][:1000], dataset.split["val"][:500]
        scale = TargetScale.of(dataset.targets[dataset.target_rows(train)])  # type: ignore[index]
        return cls(dataset, dataset.points(progress=False), train, valid, scale)


def zinc(folder: Path) -> Task:
    """ZINC-12k: atom types, bond types, one target."""
    return Task.of(load("zinc", folder))


def four_cycles(folder: Path) -> Task:
    """Four-cycles through each node."""
    return Task.of(load("counting-original", folder).with_targets(["4-cycle"]))


class NormedLayer(nn.Module):
    """A layer that sees its vectors through a normalisation; what it adds goes to the vectors as they were."""

    def __init__(self, layer: nn.Module, norm: nn.Module):
        super().__init__()
        self.layer, self.norm = layer, norm

    def forward(self, state: PointState) -> PointState:
        v = self.norm(state.v)
        s, after = self.layer(PointState(state.s, v))
        return PointState(s, state.v + (after - v))


class PointNorm(nn.Module):
    """One length for all channels of a point: the root of their mean square."""

    def forward(self, v: Tensor) -> Tensor:
        squares = v.square().sum(-1, keepdim=True).mean(0, keepdim=True)
        return v * (squares + 1e-6).rsqrt()


class GraphVectorNorm(nn.Module):
    """One length for all channels and points of a graph: the root of their mean square."""

    def forward(self, v: Tensor) -> Tensor:
        squares = v.square().sum(-1).mean((0, 2)).view(1, -1, 1, 1)
        return v * (squares + 1e-6).rsqrt()


def _unbounded(model: pointset.PointModel) -> None:
    for layer in model.encoder.layers:  # type: ignore[union-attr]
        layer.bound_v = nn.Identity()


def _normed(norm: type[nn.Module], first: int = 0) -> Callable[[pointset.PointModel], None]:
    def change(model: pointset.PointModel) -> None:
        layers = model.encoder.layers
        if isinstance(layers, nn.ModuleList):
            for position in range(first, len(layers)):
                layers[position] = NormedLayer(layers[position], norm())

    return change


def _no_scalar_norm(model: pointset.PointModel) -> None:
    for layer in model.encoder.layers:  # type: ignore[union-attr]
        layer.norm_s = nn.Identity()


class _Neighbours(Coordinates):
    """v_i = Σ_j e_ij ⊙ U_j ⊙ f(Λ): without the point's own."""

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        values, vectors = self._eigenpairs(group, generator)
        v = vectors.unsqueeze(0) * self._by_channel(values, group)
        return v if self.pairs is None else weighted_sums(self.pairs(group), v)


def _edges_replace(model: pointset.PointModel) -> None:
    model.coordinates.__class__ = _Neighbours


def _no_residual(model: pointset.PointModel) -> None:
    class Alone(nn.Module):
        """Equation (4) to the letter: the sums replace what was there."""

        def __init__(self, layer: nn.Module):
            super().__init__()
            self.layer = layer

        def forward(self, state: PointState) -> PointState:
            s, v = self.layer(state)
            return PointState(s - state.s, v - state.v if self.layer.mixer_v is not None else v)

    encoder = model.encoder
    if isinstance(encoder, PST):
        encoder.layers = nn.ModuleList(Alone(layer) for layer in encoder.layers)


def _usual_weights(model: pointset.PointModel) -> None:
    """PyTorch's own first weights, drawn anew."""
    with mock.patch.object(pst, "enlarge_first_weights"):
        model.encoder = PST(WIDTH, len(model.encoder.layers))  # type: ignore[arg-type]


def _learned_at_once(model: pointset.PointModel) -> None:
    model.coordinates.function = LearnedDeepSet(WIDTH)


@dataclass(frozen=True)
class Choice:
    """One change of the preset."""

    change: Callable[[pointset.PointModel], None] = lambda model: None
    exponent: float = parts.SIZE_EXPONENT
    preset: str = "pst"
    layers: int = 3


CHOICES = {
    "pst as shipped": Choice(),
    "6 layers": Choice(layers=6),
    "vectors: length 1 in each channel (released)": Choice(_normed(VectorNorm)),
    "vectors: length 1 in each channel, not in the first layer": Choice(_normed(VectorNorm, 1)),
    "vectors: not bounded": Choice(_unbounded),
    "vectors: one length for all channels of a point": Choice(_normed(PointNorm)),
    "vectors: one length for a graph": Choice(_normed(GraphVectorNorm)),
    "6 layers, vectors: length 1 in each channel (released)": Choice(_normed(VectorNorm), layers=6),
    "scalars: no normalisation": Choice(_no_scalar_norm),
    "sums not scaled with n": Choice(exponent=0.0),
    "sums scaled by n^-0.5": Choice(exponent=0.5),
    "no residuals (equation (4) to the letter)": Choice(_no_residual),
    "edges replace the eigenvectors": Choice(_edges_replace),
    "PyTorch's first weights": Choice(_usual_weights),
    "f a DeepSet from the first step": Choice(_learned_at_once),
    "pst-released": Choice(preset="pst-released"),
    "pst-gc": Choice(preset="pst-gc"),
    "pst-sum": Choice(preset="pst-sum"),
    "psds": Choice(preset="psds"),
    "psds, vectors: length 1 in each channel (released)": Choice(_normed(VectorNorm), preset="psds"),
}


TASKS = {"four-cycles": four_cycles, "ZINC": zinc}


def train(task: Task, choice: Choice, epochs: int, seed: int) -> float:
    """Best validation error of one run; NaN where it diverged from the start."""
    torch.manual_seed(seed)
    parts.SIZE_EXPONENT = choice.exponent
    model = pointset.PointModel.from_preset(
        choice.preset,
        node=task.dataset.card.node,
        edge=task.dataset.card.edge,
        level=task.dataset.card.level.value,
        dim=WIDTH,
        layers=choice.layers,
    )
    choice.change(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    batches = -(-len(task.train) // 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, epochs * batches, pct_start=0.1)
    shuffle = torch.Generator().manual_seed(seed)
    best = float("inf")
    for _ in range(epochs):
        model.train()
        for batch in pointset.PointLoader(task.points, 32, indices=task.train, shuffle=True, generator=shuffle):
            loss = error(model, task, batch).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
        best = min(best, validate(model, task))
    return best


def error(model: pointset.PointModel, task: Task, batch: pointset.PointBatch) -> Tensor:
    prediction: Tensor = model(batch)
    target = task.scale.normalise(batch.y)  # type: ignore[arg-type]
    return (prediction - target.reshape(prediction.shape)).abs()


def validate(model: pointset.PointModel, task: Task) -> float:
    model.eval()
    with torch.no_grad():
        loader = pointset.PointLoader(task.points, 128, indices=task.valid)
        errors = [error(model, task, batch) for batch in loader]
    return float(torch.cat(errors).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("POINTSET_DATA", "../shared/data")))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--only", nargs="*", default=list(CHOICES), choices=list(CHOICES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, object] = {}
    for task_name in arguments.tasks:
        task = TASKS[task_name](arguments.data_dir)
        for name in arguments.only:
            if task.dataset.card.edge is None and "edges" in name:
                continue
            errors = [train(task, CHOICES[name], arguments.epochs, seed) for seed in range(arguments.seeds)]
            each = ", ".join(f"{error:.4f}" for error in errors)
            figures[f"{task_name}: {name}"] = f"{statistics.mean(errors):.4f} ({each})"
            print(f"{task_name}: {name}: {figures[f'{task_name}: {name}']}", flush=True)
            parts.SIZE_EXPONENT = Choice.exponent
    title = "Choices in PST: validation error in standard deviations of the target"
    report(title, figures | machine(torch.__version__), arguments.json)


if __name__ == "__main__":
    main()
