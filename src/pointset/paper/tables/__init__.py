"""The paper's tables: specs say what they are made of, plans which runs fill them, results what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:  # loaded on first use: a plan needs torch, a result does not
    from pointset.paper.tables.formats import read_table as read_table
    from pointset.paper.tables.formats import write_table as write_table
    from pointset.paper.tables.plan import plan_table as plan_table
    from pointset.paper.tables.result import TableResult as TableResult
    from pointset.paper.tables.spec import TableSpec as TableSpec
    from pointset.paper.tables.spec import table_named as table_named
    from pointset.paper.tables.spec import table_names as table_names
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
