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
_MEASURED = "measured on"


class Joined(NamedTuple):
    """``taken`` and ``outdated``: titles of earlier rows that stay, and of those that the table now makes otherwise."""

    result: TableResult
    taken: list[str]
    outdated: list[str]


def joined(new: TableResult, before: TableResult) -> Joined:
    """``new``, and the rows of ours that only ``before`` has, in the table's own order.

    A row of ``new`` counts if anything of it was measured. An earlier one stays only if each of its runs would be made
    by the same command today, and gets a note with its date. Date and machine of the table are those of ``new``.

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
    ours = {row.title: row for row in new.rows if row.source == "ours" and _is_measured(row)}
    earlier = [row for row in before.rows if row.source == "ours" and _is_measured(row) and row.title not in ours]
    if not earlier:
        return Joined(new, [], [])
    plan = planned(table_named(new.table), new.budget)
    taken = [row for row in earlier if _is_current(row, plan)]
    ours |= {row.title: _dated(row, before.date, new.date) for row in taken}
    order = {row.title: row.name for row in plan.spec.ours if row.title in ours}
    rows = [ours[title] for title in order]
    names = {run.row.name for run in plan.runs}
    done = {record.name for row in rows for record in row.runs}
    result = new.model_copy(
        update={
            "rows": (*(row for row in new.rows if row.source != "ours"), *rows),
            "command": table_command(new.table, new.budget, () if set(order.values()) == names else [*order.values()]),
            "seconds": round(sum(record.seconds or 0.0 for row in rows for record in row.runs), 3),
            "complete": {run.name for run in plan.runs} <= done,
        }
    )
    return Joined(result, [row.title for row in taken], [row.title for row in earlier if row not in taken])


def _is_measured(row: Row) -> bool:
    return any(cell.mean is not None for cell in row.cells.values())


def _dated(row: Row, date: str, today: str) -> Row:
    """The row with a note of when it was measured, if not on the table's own day; one that has such a note keeps it."""
    if date == today or _MEASURED in row.note:
        return row
    return row.model_copy(update={"note": "; ".join(filter(None, (row.note, f"{_MEASURED} {date}")))})


def _is_current(row: Row, plan: TablePlan) -> bool:
    """Whether the table would make this row's runs by the same commands today."""
    commands = {_THREADS.sub("", run.command) for run in plan.runs if run.row.title == row.title}
    return bool(row.runs) and {_THREADS.sub("", run.command) for run in row.runs} <= commands
