"""Pictures of what ``pointset express`` finds, from the same content that it writes as JSON.

All take the content and a path that ends in ``.png``, ``.svg`` or ``.pdf``; an older file is replaced. They raise
``MissingExtraError`` where matplotlib is not installed, and ``FileFormatError`` for another ending or a missing folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pointset.reports.picture_files import check_picture_file, save_picture


def draw_theorems(content: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """A row for each statement: its verdict, what it claims and what was found.

    Args:
        content: {"statement", "verdict", "evidence", "claim"} of each.
        path: where to write.
    """
    check_picture_file(path)
    from pointset.reports.express.theorems_page import compose_theorems

    save_picture(compose_theorems(content), path)


def draw_brec(content: Mapping[str, Mapping[str, Mapping[str, int]]], path: str | Path) -> None:
    """For each model a bar in each category of pairs, and the total; unreliable answers are hatched in red.

    Args:
        content: {model: {category: {"pairs", "separated", "unreliable"}}}.
        path: where to write.
    """
    check_picture_file(path)
    from pointset.reports.express.brec_page import compose_brec

    save_picture(compose_brec(content), path)


def draw_counting(content: Mapping[str, Any], path: str | Path) -> None:
    """A table of errors, coloured: substructures by families of fresh graphs, with a mark where the model counts.

    Args:
        content: what ``pointset express counting RUN --json FILE`` writes.
        path: where to write.
    """
    check_picture_file(path)
    from pointset.reports.express.counting_page import compose_counting

    save_picture(compose_counting(content), path)


def draw_distances(content: Mapping[str, Any], path: str | Path) -> None:
    """What can be read off each layer of a model, distance by distance, beside degrees and fresh weights.

    Args:
        content: what ``pointset express distances RUN --json FILE`` writes.
        path: where to write.
    """
    check_picture_file(path)
    from pointset.reports.express.distances_page import compose_distances

    save_picture(compose_distances(content), path)
