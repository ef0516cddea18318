"""Names of nodes in files: they give the nodes their order, and are then gone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from pointset.errors import GraphError

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def ordered_names(names: Sequence[str]) -> list[str]:
    """Whole numbers in their order, other names as they come. 0- and 1-based numbering give the same graph."""
    if not all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        return list(names)
    ordered = sorted(names, key=int)
    for one, other in itertools.pairwise(ordered):
        if int(one) == int(other):
            raise GraphError(f"the names {one!r} and {other!r} are the same number; write a node always the same way")
    return ordered


def lost_names(ordered: Sequence[str]) -> tuple[str, ...]:
    """What is to be said of names that are not 0…n−1 already: points have no place for them."""
    plain = all(name == str(index) for index, name in enumerate(ordered))
    return () if plain else ("node names (nodes are numbered from 0)",)
