"""Molecules with one scaffold stay together (:func:`scaffold_split`): a harder test than a random split."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pointset.datasets.splits.parts import DEFAULT_FRACTIONS, PARTS, Integers, Split, exact_shares, parts_from_codes
from pointset.errors import SpecError


def scaffold_split(smiles: Sequence[str], fractions: Sequence[float] = DEFAULT_FRACTIONS) -> Split:
    """Split molecules by their Bemis–Murcko scaffold (rings and the chains between them), always in the same way.

    As in OGB and DeepChem, the largest groups go first, into train until it is full, then into val, then into test; so
    train has the common scaffolds and test the rare ones.

    Molecules without a ring have the empty scaffold and are one group, as in OGB, DeepChem and chemprop; so are SMILES
    that cannot be read.

    Args:
        smiles: (G,) one for each molecule.
        fractions: as in :func:`~pointset.datasets.splits.random_split`; reached only as nearly as whole groups allow.

    Raises:
        SpecError: impossible fractions, or groups so large that a part stays empty.
        MissingExtraError: RDKit is not installed.
    """
    from pointset.datasets.molecules.many import Unreadable, read_many
    from pointset.datasets.molecules.parsing import murcko_scaffold

    exact_shares(len(smiles), fractions)  # refused before the scaffolds are made, which takes a while
    scaffolds = ["" if isinstance(found, Unreadable) else found for found in read_many(smiles, murcko_scaffold)]
    return split_by_scaffold(scaffolds, fractions)


def split_by_scaffold(scaffolds: Sequence[str], fractions: Sequence[float] = DEFAULT_FRACTIONS) -> Split:
    """As :func:`scaffold_split`, for scaffolds (or any other names of groups) that are known already."""
    count = len(scaffolds)
    shares = exact_shares(count, fractions)
    members: dict[str, list[int]] = {}
    for index, scaffold in enumerate(scaffolds):
        members.setdefault(scaffold, []).append(index)
    groups = list(members.values())
    # Equal groups by the later first member, as OGB does it: only so does its official split come out.
    groups.sort(key=lambda group: (len(group), group[0]), reverse=True)
    room = [math.floor(shares[0] * count), math.floor((shares[0] + shares[1]) * count)]
    split = parts_from_codes(_fill_in_turn(groups, room, count))
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
