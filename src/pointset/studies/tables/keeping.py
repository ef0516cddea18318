"""A table measured in several sittings: rows of an earlier result stay beside new ones (:func:`joined`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from pointset.errors import SpecError
from pointset.studies.tables.commands import table_command
from pointset.studies.tables.plan import TablePlan, planned
from pointset.studies.tables.result import Row, TableResult
from pointset.studies.tables.spec_files import table_named

_THREADS = re.compile(r" trainer\.threads=\S+")  # changes the time that a run takes, and nothing else


class Joined(NamedTuple):
    """``taken`` and ``outdated``: titles of earlier rows that stay, and of those that the table now makes otherwise."""

    result: TableResult
    taken: list[str]
    outdated: list[str]


def joined(new: TableResult, before: TableResult) -> Joined:
    """``new``, and the rows of ours that only ``before`` has, in the table's own order.

    An earlier row stays only if each of its runs would be made by the same command today. Date and machine are those of
    ``new``.

    Raises:
        SpecError: the two are not of one table and budget, columns would be lost, or rows would have to be joined of a
            table that is not shipped, whose settings cannot be looked up.
    """
    if (new.table, new.budget) != (before.table, before.budget):
        raise SpecError(
            f"got a result of {new.table}-{new.budget} to keep beside one of {before.table}-{before.budget}; expected "
            "the same table and budget"
        )
    lost = [column.title for column in before.columns if column.key not in {one.key for one in new.columns}]
    if lost:
        raise SpecError(
            f"the result of {new.table}-{new.budget} that is kept has the columns {', '.join(lost)}, which the new one "
            "lacks; expected them in both. Run the table without --columns, or remove the kept file to begin anew"
        )
    ours = {row.title: row for row in new.rows if row.source == "ours"}
    earlier = [row for row in before.rows if row.source == "ours" and row.title not in ours]
    if not earlier:
        return Joined(new, [], [])
    plan = planned(table_named(new.table), new.budget)
    taken = [row for row in earlier if _is_current(row, plan)]
    ours |= {row.title: row for row in taken}
    order = {row.title: row.name for row in plan.spec.ours if row.title in ours}
    rows = [ours[title] for title in order]
    names = {run.row.name for run in plan.runs}
    result = new.model_copy(
        update={
            "rows": (*(row for row in new.rows if row.source != "ours"), *rows),
            "command": table_command(new.table, new.budget, () if set(order.values()) == names else [*order.values()]),
            "seconds": round(sum(record.seconds or 0.0 for row in rows for record in row.runs), 3),
            "complete": new.complete and before.complete,
        }
    )
    return Joined(result, [row.title for row in taken], [row.title for row in earlier if row not in taken])


def _is_current(row: Row, plan: TablePlan) -> bool:
    """Whether the table would make this row's runs by the same commands today."""
    commands = {_THREADS.sub("", run.command) for run in plan.runs if run.row.title == row.title}
    return bool(row.runs) and {_THREADS.sub("", run.command) for run in row.runs} <= commands
