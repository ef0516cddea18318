"""Energies and forces: PST* learns the potential of a small molecule from both.

    python examples/forces.py                  # pst-star; half a minute on one core
    python examples/forces.py --preset pst-fast-star

The molecule is a zigzag chain of six atoms with a potential made up here: Morse along the bonds, Lennard-Jones between
all other pairs. A model gives the energy E; the forces are −∂E/∂positions. A loss on forces is a loss on gradients, so
training differentiates twice: ``create_graph=True``, and nothing else.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import mse_loss
from torch_geometric.data import Data

import pointset

ATOMS = 6
BONDS = torch.tensor([[i, i + 1] for i in range(ATOMS - 1)]).mT
DEPTH, STIFFNESS, LENGTH = 4.0, 1.5, 1.5  # of the Morse potential: eV, 1/Å, Å
EPSILON, SIGMA = 0.2, 2.2  # of Lennard-Jones: eV, Å
Potential = Callable[[Tensor], Tensor]  # (K, n, 3) in Å → (K,) in eV


class Geometries(NamedTuple):
    """K geometries of the molecule, and what a model is to learn of them."""

    positions: Tensor  # (K, n, 3) in Å
    energies: Tensor  # (K,) in eV
    forces: Tensor  # (K, n, 3) in eV/Å


class Progress(NamedTuple):
    """Root mean square errors on geometries that were not trained on."""

    step: int
    energies: float  # eV
    forces: float  # eV/Å


def reference_potential(positions: Tensor) -> Tensor:
    """Morse and Lennard-Jones."""
    low, high = torch.triu_indices(ATOMS, ATOMS, 1)
    distances = (positions[:, low] - positions[:, high]).norm(dim=-1)  # (K, pairs)
    morse = DEPTH * (1 - torch.exp(-STIFFNESS * (distances - LENGTH))).square()
    power = (SIGMA / distances).pow(6)
    return torch.where(high - low == 1, morse, 4 * EPSILON * (power.square() - power)).sum(1)


def random_geometries(count: int, generator: torch.Generator, deviation: float = 0.12) -> Geometries:
    """The chain with each coordinate moved at random."""
    place = torch.arange(ATOMS)
    chain = torch.stack([1.25 * place, 0.83 * (place % 2), torch.zeros(ATOMS)], dim=1)
    positions = chain + deviation * torch.randn(count, ATOMS, 3, generator=generator)
    energies, forces = energies_and_forces(reference_potential, positions)
    return Geometries(positions, energies.detach(), forces)


def energies_and_forces(potential: Potential, positions: Tensor, *, again: bool = False) -> tuple[Tensor, Tensor]:
    """E and −∂E/∂positions; ``again``: the forces can be differentiated again, as a loss on them needs."""
    positions = positions.detach().requires_grad_()
    energies = potential(positions)
    (slopes,) = torch.autograd.grad(energies.sum(), positions, create_graph=again)
    return energies, -slopes


def learned_potential(model: pointset.PointModel, mean: Tensor, deviation: Tensor) -> Potential:
    """A model as a potential. The graph, and so its points, are the same in all geometries; positions differ."""
    molecule = Data(edge_index=torch.cat([BONDS, BONDS.flip(0)], dim=1), num_nodes=ATOMS, pos=torch.zeros(ATOMS, 3))
    points = pointset.to_points(molecule, matrix=model.matrix)

    def potential(positions: Tensor) -> Tensor:
        batch = model.read(pointset.collate([points] * len(positions)))
        outputs: Tensor = model(replace(batch, pos=positions.flatten(0, 1)))
        return mean + deviation * outputs.squeeze(1)

    return potential


def train(
    model: pointset.PointModel, known: Geometries, unseen: Geometries, *, steps: int, batch: int = 32
) -> list[Progress]:
    """Adam on mean squares of the errors of energies and forces, each in units of its deviation."""
    mean, deviation = known.energies.mean(), known.energies.std()
    size_of_forces = known.forces.square().mean().sqrt()
    potential = learned_potential(model, mean, deviation)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    order = torch.Generator().manual_seed(0)

    def progress(step: int) -> Progress:
        energies, forces = energies_and_forces(potential, unseen.positions)
        errors = mse_loss(energies.detach(), unseen.energies), mse_loss(forces, unseen.forces)
        return Progress(step, *(error.sqrt().item() for error in errors))

    found = [progress(0)]
    for step in range(1, steps + 1):
        chosen = torch.randint(len(known.energies), (batch,), generator=order)
        energies, forces = energies_and_forces(potential, known.positions[chosen], again=True)
        loss = mse_loss(energies / deviation, known.energies[chosen] / deviation)
        loss = loss + mse_loss(forces / size_of_forces, known.forces[chosen] / size_of_forces)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step == steps or step % max(1, steps // 5) == 0:
            found.append(progress(step))
            print("step {:4}: energies ±{:.3f} eV, forces ±{:.3f} eV/Å".format(*found[-1]), flush=True)
    return found


def main(arguments: list[str] | None = None) -> list[Progress]:
    """Train and print the errors on geometries that were not trained on."""
    parser = argparse.ArgumentParser(description="Learn the energies and forces of a small molecule.")
    parser.add_argument("--preset", default="pst-star", help="a model with positions (default: pst-star)")
    parser.add_argument("--steps", type=int, default=300, help="of training (default: 300)")
    parser.add_argument("--geometries", type=int, default=400, help="to learn from (default: 400)")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    known, unseen = random_geometries(options.geometries, generator), random_geometries(100, generator)
    model = pointset.PointModel.from_preset(options.preset, dim=32, layers=2)
    start = time.perf_counter()
    spread = unseen.energies.std(), unseen.forces.square().mean().sqrt()
    print("to learn:  energies ±{:.3f} eV, forces ±{:.3f} eV/Å".format(*spread))
    found = train(model, known, unseen, steps=options.steps)
    print(f"{options.preset}, {options.steps} steps: {time.perf_counter() - start:.0f} s")
    return found


if __name__ == "__main__":
    main()
