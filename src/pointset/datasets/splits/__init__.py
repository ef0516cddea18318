"""Splits of a dataset into train, val and test: at random, stratified, in folds, by scaffold, column or file; leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.datasets.splits.files import save_split, split_by_column, split_from_file
from pointset.datasets.splits.parts import PARTS, Split, check_split
from pointset.datasets.splits.splitters import folds, random_split, scaffold_split, split_by_scaffold, stratified_split
from pointset.lazy import on_first_use

if TYPE_CHECKING:  # these need torch, which takes seconds to import: loaded on first use
    from pointset.datasets.splits.leaks import LeakReport, find_leaks
else:
    __getattr__, __dir__, _ = on_first_use(__name__)

__all__ = [
    "PARTS",
    "LeakReport",
    "Split",
    "check_split",
    "find_leaks",
    "folds",
    "random_split",
    "save_split",
    "scaffold_split",
    "split_by_column",
    "split_by_scaffold",
    "split_from_file",
    "stratified_split",
]
