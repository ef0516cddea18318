"""Targets that grow with the molecule: what each atom contributes by itself (:func:`fit_references`).

Energies, heat capacities and the like are sums over the molecule: a linear model on how often each category of each
atom feature occurs explains nearly all of them, as in tables of group contributions. Where it does, the model is given
these contributions (:class:`~pointset.encoders.coordinates.NodeReferences`) and learns what is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Floats
from pointset.datasets.card import Level, Task
from pointset.datasets.dataset import Dataset, TargetScale
from pointset.errors import SpecError
from pointset.runs.recipe import AtomReferences
from pointset.specs import Categories

EXPLAINED = 0.9
"""With ``model.atom_references=auto``, atoms must explain this share of a target's variance."""
_MOST_GRAPHS = 20_000  # that the contributions are fitted to
_FEWEST_GRAPHS = 50
_PENALTIES = 10.0 ** np.arange(-4, 4)  # of the ridge regression; the best is taken by leave-one-out errors
_LEAST_REST = 1e-3  # of the target's deviation: outputs in smaller units would be rounded away in float32
_CERTAIN = 1e-9  # of a variance: a target without any is not explained


class References(NamedTuple):
    """Contributions w of node categories to k targets: y ≈ offset + Σ_i w(x_i) + scale.std · (what is learned)."""

    weight: Tensor  # (k, Σ sizes) float64, in the targets' own units; zero for targets that atoms do not explain
    scale: TargetScale  # of what is left, for those targets; of the others as it was
    explained: Floats  # (k,) share of the variance that is explained of graphs that were left out

    @property
    def normalised(self) -> Tensor:
        """(k, Σ sizes) in units of ``scale.std``, as the model adds them."""
        return self.weight / self.scale.std.unsqueeze(1)

    def describe(self, names: list[str]) -> str:
        """A line for people."""
        used = [
            f"{name} ({share:.1%})"
            for name, share, weight in zip(names, self.explained, self.weight, strict=True)
            if bool(weight.any())
        ]
        return (
            f"{', '.join(used)}: grows with the molecule; the share is what contributions of single atoms explain. "
            "They are part of the model, which learns the rest (model.atom_references=never leaves them out)"
        )


def fit_references(dataset: Dataset, scale: TargetScale | None, wanted: AtomReferences) -> References | None:
    """Contributions of atoms to the targets, from the training part.

    Args:
        dataset: molecules with categories as node features.
        scale: of the targets.
        wanted: the recipe's ``model.atom_references``; ``"auto"``: for targets that are explained to
            :data:`EXPLAINED` at least.

    Returns:
        None where none are wanted, or no target is explained.

    Raises:
        SpecError: they are wanted, and impossible.
    """
    card = dataset.card
    possible = card.task is Task.REGRESSION and card.level is Level.GRAPH and isinstance(card.node, Categories)
    if wanted == "always" and (not possible or scale is None):
        raise SpecError(
            f"got model.atom_references=always for {card.title or card.name}; expected a regression of whole graphs "
            "with categories as node features, and scale_targets=true. Leave it out"
        )
    train = np.asarray(dataset.split["train"])
    if wanted == "never" or not possible or scale is None or len(train) < (_FEWEST_GRAPHS if wanted == "auto" else 2):
        return None
    if len(train) > _MOST_GRAPHS:
        train = np.sort(np.random.default_rng(0).choice(train, _MOST_GRAPHS, replace=False))
    counts, targets = _counts(dataset)[train], _targets(dataset)[train]
    least = EXPLAINED if wanted == "auto" else -np.inf
    weight = torch.zeros(targets.shape[1], counts.shape[1], dtype=torch.float64)
    mean, std, explained = scale.mean.clone(), scale.std.clone(), np.zeros(targets.shape[1])
    for place, target in enumerate(targets.T):
        known = np.isfinite(target)
        if known.sum() < 2 or target[known].var() <= _CERTAIN * np.square(target[known]).mean():
            continue
        solution, explained[place] = _ridge(counts[known], target[known])
        if explained[place] < least:
            continue
        left = target[known] - counts[known] @ solution
        weight[place] = torch.from_numpy(solution)
        of_rest = TargetScale.of(torch.from_numpy(left))
        mean[place] = of_rest.mean[0]
        std[place] = torch.clamp(of_rest.std[0], min=_LEAST_REST * scale.std[place])
    return References(weight, TargetScale(mean, std), explained) if bool(weight.any()) else None


def _counts(dataset: Dataset) -> Floats:
    """(G, Σ sizes) how often each category of each column occurs in a graph."""
    spec, x = dataset.card.node, dataset.features.x
    if not isinstance(spec, Categories) or x is None:
        raise SpecError(f"{dataset.card.name} has no node categories; expected some")
    columns = x.numpy() + np.array(spec.starts)  # (N, c)
    width, graphs = sum(spec.sizes), len(dataset)
    place = np.repeat(np.arange(graphs), dataset.arrays.num_nodes)[:, None] * width + columns
    return np.bincount(place.ravel(), minlength=graphs * width).reshape(graphs, width).astype(np.float64)


def _targets(dataset: Dataset) -> Floats:
    """(G, k) float64; limits such as >3 are not known values."""
    y = dataset.targets
    if y is None:
        raise SpecError(f"{dataset.card.name} has no targets; expected some")
    return y.to(torch.float64).reshape(len(dataset), -1).numpy()


def _ridge(counts: Floats, target: Floats) -> tuple[Floats, float]:
    """Coefficients (c,) of a ridge regression with an offset, and R² of rows that were left out, one at a time.

    The error of a row that is left out is e_i / (1 − h_i), with h the diagonal of the hat matrix.
    """
    centre = counts.mean(0)
    values, vectors = np.linalg.eigh((counts - centre).T @ (counts - centre))
    values, turned = np.clip(values, 0.0, None), (counts - centre) @ vectors  # (n, c)
    centred = target - target.mean()
    projected, squares = turned.T @ centred, np.square(turned)
    best, found = -np.inf, np.zeros(counts.shape[1])
    for penalty in _PENALTIES:
        inverse = 1 / (values + penalty)
        hat = squares @ inverse + 1 / len(target)
        errors = (centred - turned @ (inverse * projected)) / np.clip(1 - hat, 1e-3, None)
        explained = 1 - float(np.square(errors).sum() / np.square(centred).sum())
        if explained > best:
            best, found = explained, vectors @ (inverse * projected)
    return found, best
