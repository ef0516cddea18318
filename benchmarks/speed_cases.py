"""Which models encoder_speed.py times, and their training steps: :data:`GROUPS`, :class:`Work`."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss

import pointset
from padded_reference import PaddedBatch, pad
from pointset.paper.comparison import matched
from pointset.paper.cost import ANY_GRAPHS
from pointset.points.graphs import Graph
from pointset.registry import PRESETS, is_baseline, preset_named
from pointset.runs.recipe import Recipe
from zinc_graphs import ATOM_TYPES, BOND_TYPES, Bonds, zinc


class Group(NamedTuple):
    """Models whose steps are compared. All are of one width, or as wide as it takes to have so many parameters."""

    label: str  # after the name of a model
    presets: tuple[str, ...]
    bonds: Bonds
    graphs: int  # in a batch
    layers: int
    dim: int | None = None
    parameters: int | None = None


PLAIN = Group("", ("pst-released", "pst", "psds", "pst-gc", "pst-onelayer"), "weights", 128, 6, dim=80)
WITH_BONDS = Group(
    "bond features", ("pst-released", "pst", "psds", "pst-fast", "gps"), "features", 128, 6, dim=80
)  # fmt: skip
LARGE = Group("350–500k parameters", ("pst-fast", "gps"), "features", 128, 6, parameters=425_000)
SMALL = Group("60k parameters, 16 graphs", ("pst-fast", "pst", "gps"), "features", 16, 4, parameters=60_000)
GROUPS = (PLAIN, WITH_BONDS, LARGE, SMALL)
PEER = "gps"
# Of ours, those that are also timed on torch's path; the other groups have the same kernels at other sizes.
TORCH_PATH = {PLAIN.label: ("pst-released", "pst", "psds"), WITH_BONDS.label: ("pst-fast",), SMALL.label: PRESETS}


class Setting(NamedTuple):
    """How much is measured."""

    graphs: int = 128  # from which batches are made
    repeats: int = 5
    reference_repeats: int = 2
    product: int = 2048  # size of the matrices of the product to compare with
    gathered: int = 20  # batches
    quick: bool = False


QUICK = Setting(graphs=8, repeats=1, reference_repeats=1, product=256, gathered=2, quick=True)


class Case(NamedTuple):
    """A model to be timed."""

    preset: str
    group: Group
    dim: int

    @property
    def name(self) -> str:
        """In the figures."""
        return f"{self.preset}, {self.group.label}" if self.group.label else self.preset

    def model(self) -> pointset.PointModel:
        """With weights that are always the same."""
        torch.manual_seed(0)
        edge = pointset.Categories(BOND_TYPES + 1) if self.group.bonds == "features" else None
        return pointset.PointModel.from_preset(
            self.preset, node=pointset.Categories(ATOM_TYPES), edge=edge, dim=self.dim, layers=self.group.layers
        )


def groups_of(setting: Setting) -> tuple[Group, ...]:
    """All groups; tiny ones for a quick look."""
    if not setting.quick:
        return GROUPS
    return tuple(
        group._replace(
            graphs=max(2, group.graphs // 16),
            layers=2,
            dim=group.dim and 16,
            parameters=group.parameters and group.parameters // 10,
        )
        for group in GROUPS
    )


def cases(setting: Setting, *, torch_path: bool = False) -> list[Case]:
    """The models of all groups that are registered; with ``torch_path`` only ours that are timed there."""
    found = []
    for group in groups_of(setting):
        chosen = TORCH_PATH.get(group.label, ()) if torch_path else group.presets
        known = [preset for preset in group.presets if preset in PRESETS and preset in chosen]
        if torch_path:
            known = [preset for preset in known if not is_baseline(preset)]
        found += [Case(preset, group, group.dim or nearest_width(preset, group)) for preset in known]
    return found


def absent() -> list[str]:
    """Models that would be timed and are not registered."""
    return sorted({preset for group in GROUPS for preset in group.presets if preset not in PRESETS})


def nearest_width(preset: str, group: Group) -> int:
    """With which the model has nearest to the group's number of parameters."""
    assert group.parameters is not None
    card = dataclasses.replace(
        ANY_GRAPHS, node=pointset.Categories(ATOM_TYPES), edge=pointset.Categories(BOND_TYPES + 1)
    )
    recipe = Recipe.from_dict(
        {"name": "speed", "model": {"layers": group.layers}, "trainer": {"epochs": 1, "batch_size": group.graphs}}
    )
    return matched(recipe, preset, group.parameters, card, tolerance=0.25).model.dim


class Work:
    """The data of a process: batches of points and, for the reference, padded ones."""

    def __init__(self, folder: Path, setting: Setting, *, one_size: bool = False):
        self.setting = setting
        self.graphs: dict[Bonds, list[Graph]] = {}
        bonds: Bonds
        for bonds in ("weights", "features"):
            self.name, arrays = zinc(folder, setting.graphs * setting.gathered, bonds)
            common = statistics.mode(arrays.num_nodes.tolist())
            self.graphs[bonds] = [graph for graph in arrays if graph.num_nodes == common or not one_size]
        self._points: dict[tuple[Bonds, str], pointset.PointSets] = {}

    def points(self, bonds: Bonds, matrix: str) -> pointset.PointSets:
        """Of all graphs that were read."""
        key = (bonds, matrix)
        if key not in self._points:
            self._points[key] = pointset.to_points_many(self.graphs[bonds], matrix=matrix, progress=False)
        return self._points[key]

    def batches(self, case: Case) -> list[pointset.PointBatch]:
        """The first graphs in batches of the case's size."""
        points, size = self.points(case.group.bonds, preset_named(case.preset).matrix), case.group.graphs
        starts = range(0, min(self.setting.graphs, len(points)), size)
        return [pointset.collate(points[start : start + size]).to(torch.float32) for start in starts]

    def padded(self, graphs: int) -> tuple[PaddedBatch, Tensor]:
        """The first graphs for the reference, and their targets."""
        chosen = self.graphs["weights"][:graphs]
        return pad(chosen), torch.cat([graph.features.y for graph in chosen if graph.features.y is not None])


def training_step(model: nn.Module, batch: Any, y: Tensor, *, bf16: bool = False) -> Callable[[], None]:
    """One step of training: call it as often as you like."""
    return training_steps(model, [(batch, y)], bf16=bf16)


def training_steps(
    model: nn.Module, batches: Sequence[tuple[Any, Tensor]], *, bf16: bool = False
) -> Callable[[], None]:
    """A step of training on each batch: forward, L1 loss, backward and AdamW."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)  # as pointset.train

    def steps() -> None:
        for batch, y in batches:
            optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
                loss = l1_loss(model(batch).squeeze(-1).float(), y)
            torch.autograd.backward(loss)
            optimiser.step()

    return steps


def steps_of(model: nn.Module, batches: Sequence[pointset.PointBatch], *, bf16: bool = False) -> Callable[[], None]:
    """A step of training on each batch of points."""
    return training_steps(model, [(batch, targets(batch)) for batch in batches], bf16=bf16)


def targets(batch: pointset.PointBatch) -> Tensor:
    """(B,)."""
    assert batch.y is not None
    return batch.y


def seconds(action: Callable[[], object]) -> float:
    """That it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
