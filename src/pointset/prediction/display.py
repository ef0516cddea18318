"""Predictions to look at: rows beside their structures, as a notebook shows them (:class:`PredictionTable`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointset.datasets.card import Card, Task
from pointset.errors import PointsetError
from pointset.files import write_csv
from pointset.metrics import metric_label
from pointset.notebook import Markup, card, table
from pointset.reports.molecules import draw_molecule
from pointset.text import clipped, counted, fixed, number, printable, with_interval

if TYPE_CHECKING:
    from torch import Tensor

    from pointset.prediction.predictor import Predictor
    from pointset.training.outputs import Column

_MOST_SHOWN = 25  # rows with structures that a notebook shows
_MOST_REASONS = 20  # bad items whose reason is asked for
_MOST_PRINTED = 10
_WIDTH, _HEIGHT = 170.0, 120.0
_OK = "ok"

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class PredictionTable:
    """Predictions row by row, with the columns that ``pointset predict`` writes; a notebook shows structures too.

    ``rows`` are plain dictionaries: ``pandas.DataFrame(table.rows)`` makes a data frame of them. Each has ``smiles``
    (or ``graph``, what was given, in words), the predictions, and ``status``: ``ok``, or why there is no prediction.
    """

    rows: Sequence[Row]
    card: Card

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, position: int) -> Row:
        return self.rows[position]

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def to_csv(self, path: str | Path) -> None:
        """Write the rows as a table, whole or not at all; what is not known is empty."""
        columns = self.columns
        write_csv(Path(path), [columns, *([_text(row.get(name)) for name in columns] for row in self.rows)])

    def __repr__(self) -> str:
        lines = [f"PredictionTable({counted(len(self), 'row')})"]
        for row in self.rows[:_MOST_PRINTED]:
            values = self._values(row)
            said = ", ".join(f"{name} {value}" for name, value in values) if values else row["status"]
            lines.append(f"  {clipped(printable(_named(row)), 40)}: {clipped(printable(said), 80)}")
        if len(self) > _MOST_PRINTED:
            lines.append(f"  … {len(self) - _MOST_PRINTED:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        shown = self.rows[:_MOST_SHOWN]
        names = self._value_names()
        with_similarity = any(row.get("similarity") is not None for row in shown)
        head = ["", "", *names, *(["similarity"] if with_similarity else [])]
        lines = []
        for row in shown:
            values = dict(self._values(row))
            cells: list[object] = [_structure(row), _named(row)]
            if row["status"] != _OK:
                cells += [row["status"], *[""] * (len(names) - 1)]
            else:
                cells += [values.get(name, "") for name in names]
            lines.append([*cells, *([_similarity(row)] if with_similarity else [])])
        more = len(self) - len(shown)
        return table(head, lines, f"… {counted(more, 'more row')}: table.rows, table.to_csv(path)" if more else "")

    def _value_names(self) -> list[str]:
        return [target.label for target in self.card.targets]

    def _values(self, row: Row) -> list[tuple[str, str]]:
        """(target, prediction in words) of a row that has one."""
        if row["status"] != _OK:
            return []
        names = self._value_names()
        if self.card.task is Task.MULTI_CLASS:
            best = str(row[f"predicted_{self.card.target_names[0]}"])
            return [(names[0], f"{best} ({fixed(row[f'probability_{best}'], 2)})")]
        digits = None if self.card.task is Task.REGRESSION else 3  # of probabilities
        return [(name, _value(row, target, digits)) for name, target in zip(names, self.card.target_names, strict=True)]


def _structure(row: Row) -> Markup:
    """The molecule drawn; empty of other graphs, and of what is not a SMILES."""
    drawn = draw_molecule(row["smiles"], width=_WIDTH, height=_HEIGHT, for_file=True) if "smiles" in row else None
    return Markup(drawn or "")


def _named(row: Mapping[str, Any]) -> str:
    return str(row.get("smiles", row.get("graph", "")))


def _value(row: Row, target: str, digits: int | None) -> str:
    value, lower, upper = (row.get(f"{word}_{target}") for word in ("predicted", "lower", "upper"))
    if digits is not None:
        return fixed(value, digits)
    return with_interval(value, lower, upper) if lower is not None else number(value)


def _similarity(row: Row) -> str:
    similarity = row.get("similarity")
    text = "" if similarity is None else fixed(similarity, 2)
    return f"{text} (outside the domain)" if row.get("in_domain") == "no" else text


def _text(value: object) -> str:
    if value is None:
        return ""
    return ("" if value != value else f"{value:.9g}") if isinstance(value, float) else str(value)


def prediction_table(predictor: Predictor, items: Iterable[Any], rows: Tensor) -> PredictionTable:
    """From the items and the rows (G, k + …) that :meth:`Predictor.table` has computed, NaN where there is none."""
    described = predictor.card
    width, found = described.outputs, predictor.bundle.uncertainty
    given, columns = list(items), [] if found is None else found.columns()
    bad = rows[:, :width].isnan().any(1).tolist()
    reasons = _reasons(predictor, given, [place for place, is_bad in enumerate(bad) if is_bad])
    table_rows: list[Row] = []
    for place, (item, numbers) in enumerate(zip(given, rows.tolist(), strict=True)):
        values = _predictions(described, numbers[:width]) | _trust(columns, numbers[width:])
        known = dict.fromkeys(values) if bad[place] else values
        table_rows.append(_description(item, place) | known | {"status": reasons.get(place, _OK)})
    return PredictionTable(table_rows, described)


def _predictions(described: Card, numbers: Sequence[float]) -> Row:
    """The columns of the predictions themselves."""
    if described.task is not Task.MULTI_CLASS:
        return {f"predicted_{name}": value for name, value in zip(described.target_names, numbers, strict=True)}
    best = described.classes[max(range(len(numbers)), key=numbers.__getitem__)]
    probabilities = {f"probability_{name}": value for name, value in zip(described.classes, numbers, strict=True)}
    return {f"predicted_{described.target_names[0]}": best, **probabilities}


def _trust(columns: Sequence[Column], numbers: Sequence[float]) -> Row:
    """Intervals, sets, similarity and domain; None where nothing can be said."""
    row: Row = {}
    start = 0
    for column in columns:
        own, start = numbers[start : start + column.width], start + column.width
        if any(map(math.isnan, own)):
            row[column.name] = None
        elif column.classes or column.flag:
            row[column.name] = column.cell(own)
        else:
            row[column.name] = own[0]
    return row


def _description(item: Any, place: int) -> Row:
    """``smiles`` of a SMILES or an RDKit molecule, otherwise ``graph``."""
    if isinstance(item, str):
        return {"smiles": item}
    if type(item).__module__.startswith("rdkit."):
        from rdkit import Chem

        return {"smiles": Chem.MolToSmiles(item)}
    return {"graph": f"{type(item).__name__} {place}"}


def _reasons(predictor: Predictor, items: Sequence[Any], places: Sequence[int]) -> dict[int, str]:
    """Why these have no prediction."""
    reasons = dict.fromkeys(places, "no prediction; predict([item]) says why")
    for place in places[:_MOST_REASONS]:
        try:
            predictor.predict([items[place]], progress=False)
        except PointsetError as error:
            reasons[place] = str(error).removeprefix("item 0: ")
    return reasons


def predictor_card(predictor: Predictor) -> str:
    """What a notebook shows of a trained model."""
    described, model = predictor.card, predictor.model
    facts: dict[str, object] = {
        "predicts": ", ".join(target.label for target in described.targets[:6])
        + (f" and {len(described.targets) - 6} more" if len(described.targets) > 6 else ""),
        "task": described.task.value,
    }
    if described.classes:
        facts["classes"] = ", ".join(described.classes[:8]) + (", …" if len(described.classes) > 8 else "")
    if model.settings is not None:
        facts["model"] = f"{model.settings.preset}, {model.settings.layers} layers of {model.settings.dim} channels"
    if len(predictor.models) > 1:
        facts["members"] = len(predictor.models)
    facts["parameters"] = f"{predictor.num_parameters:,}"
    facts["trained on"] = described.title or described.name
    test = predictor.about.get("test")
    if isinstance(test, Mapping) and test:
        scores = [f"{metric_label(name)} {number(value)}" for name, value in test.items() if isinstance(value, float)]
        facts["test"] = ", ".join(scores)
    return card("Predictor", facts)
