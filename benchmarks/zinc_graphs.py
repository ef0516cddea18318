"""Molecules to measure on: the first graphs of ZINC-12k, or random ones like them where the data is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch

import pointset
from pointset.arrays import Array
from pointset.points.graphs import Features

ATOM_TYPES, BOND_TYPES = 28, 3
Bonds = Literal["weights", "features"]  # bond types as weights of the edges, as the authors have them, or as categories


def zinc(folder: Path, count: int, bonds: Bonds = "weights") -> tuple[str, pointset.GraphArrays]:
    """The first ``count`` graphs of ZINC-12k, or random ones like them; and which of the two."""
    path = folder / "zinc" / "zinc12k.npz"
    if not path.exists():
        return "random graphs of ZINC's sizes", synthetic_zinc(count, bonds)
    with np.load(path) as file:
        nodes, edges = file["num_nodes"][:count].astype(int), file["num_edges"][:count].astype(int)
        atoms = file["atom_type"][: nodes.sum()].astype(np.int64)
        ends, types = file["edges"][: edges.sum()].T, file["bond_type"][: edges.sum()].astype(np.int64)
        return "ZINC-12k", _graphs(nodes, edges, ends, atoms, types, file["y"][:count], bonds)


def synthetic_zinc(count: int, bonds: Bonds = "weights", seed: int = 0) -> pointset.GraphArrays:
    """Random connected graphs of ZINC's sizes with bond types 1 to 3 and 28 categories of nodes."""
    generator = np.random.default_rng(seed)
    nodes = np.clip(generator.normal(23.16, 4.48, count).round(), 9, 37).astype(int)
    ends = [random_molecule(int(size), generator) for size in nodes]
    edges = np.array([len(pairs) for pairs in ends])
    types = generator.integers(1, BOND_TYPES + 1, edges.sum())
    atoms, y = generator.integers(0, ATOM_TYPES, nodes.sum()), generator.normal(size=count).astype(np.float32)
    return _graphs(nodes, edges, np.concatenate(ends).T, atoms, types, y, bonds)


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


def _graphs(
    nodes: Array,
    edges: Array,
    ends: Array,
    atoms: Array,
    types: Array,
    y: Array,
    bonds: Bonds,
) -> pointset.GraphArrays:
    """``nodes``, ``edges``, ``y`` (G,); ``ends`` (2, M); ``atoms`` (N,); ``types`` (M,)."""
    by_node = torch.split(torch.from_numpy(atoms), nodes.tolist())
    by_edge = torch.split(torch.from_numpy(types), edges.tolist())
    with_types = bonds == "features"
    features = [
        Features(x=x, edge_attr=e if with_types else None, y=target)
        for x, e, target in zip(by_node, by_edge, torch.split(torch.from_numpy(y), 1), strict=True)
    ]
    return pointset.GraphArrays.from_flat(nodes, edges, ends, None if with_types else types, features)
