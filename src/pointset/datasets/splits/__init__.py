"""Splits of a dataset into train, val and test: at random, stratified, in folds, by scaffold, column or file; leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.datasets.splits.files import save_split as save_split
from pointset.datasets.splits.files import split_by_column as split_by_column
from pointset.datasets.splits.files import split_from_file as split_from_file
from pointset.datasets.splits.parts import PARTS as PARTS
from pointset.datasets.splits.parts import Split as Split
from pointset.datasets.splits.parts import check_split as check_split
from pointset.datasets.splits.random import folds as folds
from pointset.datasets.splits.random import random_split as random_split
from pointset.datasets.splits.random import stratified_split as stratified_split
from pointset.datasets.splits.scaffolds import scaffold_split as scaffold_split
from pointset.datasets.splits.scaffolds import split_by_scaffold as split_by_scaffold
from pointset.lazy import on_first_use

if TYPE_CHECKING:  # these need torch, which takes seconds to import: loaded on first use
    from pointset.datasets.splits.leaks import LeakReport as LeakReport
    from pointset.datasets.splits.leaks import find_leaks as find_leaks
else:
    __getattr__ = on_first_use(
        __name__,
        {"find_leaks": "pointset.datasets.splits.leaks", "LeakReport": "pointset.datasets.splits.leaks"},
    )
