"""Molecules with one scaffold stay together (:func:`scaffold_split`): a harder test than a random split."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pointset.datasets.splits.parts import PARTS, Integers, Split, parts_from_codes
from pointset.datasets.splits.shuffled import generator_of
from pointset.datasets.splits.sizes import DEFAULT_FRACTIONS, exact_shares
from pointset.errors import SpecError


def scaffold_split(
    smiles: Sequence[str], fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int | None = None
) -> Split:
    """Split molecules by their Bemis–Murcko scaffold (rings and the chains between them).

    Molecules without a ring have the empty scaffold and are one group, as in OGB, DeepChem and chemprop; so are SMILES
    that cannot be read.

    Args:
        smiles: (G,) one for each molecule.
        fractions: as in :func:`~pointset.datasets.splits.random_split`; reached only as nearly as whole groups allow.
        seed: None for the deterministic split of OGB and DeepChem: the largest groups first, into train until it is
            full, then into val, then into test; so train has the common scaffolds and test the rare ones. With a seed
            the "balanced" split of chemprop: groups too large for val and test go first, the others in random order.

    Raises:
        SpecError: impossible fractions, or groups so large that a part stays empty.
        MissingExtraError: RDKit is not installed.
    """
    from pointset.datasets.molecules.many import Unreadable, read_many
    from pointset.datasets.molecules.scaffold import murcko_scaffold

    exact_shares(len(smiles), fractions)  # refused before the scaffolds are made, which takes a while
    scaffolds = ["" if isinstance(found, Unreadable) else found for found in read_many(smiles, murcko_scaffold)]
    return split_by_scaffold(scaffolds, fractions, seed=seed)


def split_by_scaffold(
    scaffolds: Sequence[str], fractions: Sequence[float] = DEFAULT_FRACTIONS, *, seed: int | None = None
) -> Split:
    """As :func:`scaffold_split`, for scaffolds (or any other names of groups) that are known already."""
    count = len(scaffolds)
    shares = exact_shares(count, fractions)
    members: dict[str, list[int]] = {}
    for index, scaffold in enumerate(scaffolds):
        members.setdefault(scaffold, []).append(index)
    groups = list(members.values())
    if seed is None:
        # Equal groups by the later first member, as OGB does it: only so does its official split come out.
        groups.sort(key=lambda group: (len(group), group[0]), reverse=True)
        room = [math.floor(shares[0] * count), math.floor((shares[0] + shares[1]) * count)]
        codes = _fill_in_turn(groups, room, count)
    else:
        codes = _fill_at_random(groups, [math.floor(share * count) for share in shares], count, seed)
    split = parts_from_codes(codes)
    empty = [part for part, share in zip(PARTS, shares, strict=True) if share and not len(split[part])]
    if empty:
        largest = max(len(group) for group in groups)
        raise SpecError(
            f"the part {empty[0]!r} stays empty: there are {len(groups)} scaffolds for {count} molecules, the largest "
            f"with {largest}, and a scaffold is never divided. Expected smaller groups: use random_split, or other "
            "fractions"
        )
    return split


def _fill_in_turn(groups: list[list[int]], room: list[int], count: int) -> Integers:
    """Into train while it fits; otherwise into val while train and val together hold it; otherwise into test."""
    codes = np.empty(count, dtype=np.int64)
    filled = [0, 0, 0]
    for group in groups:
        if filled[0] + len(group) <= room[0]:
            part = 0
        elif filled[0] + filled[1] + len(group) <= room[1]:
            part = 1
        else:
            part = 2
        codes[group] = part
        filled[part] += len(group)
    return codes


def _fill_at_random(groups: list[list[int]], sizes: list[int], count: int, seed: int) -> Integers:
    """Large groups, then the others, each in random order; into the first part that has room, otherwise into test."""
    rng = generator_of(seed)
    large = [group for group in groups if len(group) > sizes[1] / 2 or len(group) > sizes[2] / 2]
    small = [group for group in groups if len(group) <= sizes[1] / 2 and len(group) <= sizes[2] / 2]
    codes = np.empty(count, dtype=np.int64)
    filled = [0, 0, 0]
    for some in (large, small):
        for position in rng.permutation(len(some)):
            group = some[position]
            part = next((part for part in (0, 1) if filled[part] + len(group) <= sizes[part]), 2)
            codes[group] = part
            filled[part] += len(group)
    return codes
