"""What a run is: its recipe, its folder, its result, and how they are read again. Nothing here imports torch.

>>> from pointset.runs import read_recipe, read_run
>>> recipe = read_recipe("zinc", ["model.dim=64"])
>>> read_run("runs/first").result.test  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:
    from pointset.runs.folder import RunFolder as RunFolder
    from pointset.runs.recipe import Recipe as Recipe
    from pointset.runs.recipe_files import read_recipe as read_recipe
    from pointset.runs.recipe_files import recipe_names as recipe_names
    from pointset.runs.records import RunRecord as RunRecord
    from pointset.runs.records import read_run as read_run
    from pointset.runs.records import run_folders as run_folders
    from pointset.runs.result import EpochRow as EpochRow
    from pointset.runs.result import RunResult as RunResult
    from pointset.runs.result import read_result as read_result
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
