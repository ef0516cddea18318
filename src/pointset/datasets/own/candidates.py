"""Which columns of a table can be targets, and why others are not (:func:`judge_columns`).

Targets that nobody named are a guess, so the guess is made in the open: every column gets a role and the reason for it.
One candidate is taken, and labels of 0 and 1 are taken together; anything else is a question to the user
(:class:`UnclearTargetsError`).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.own.options import as_setting, option
from pointset.datasets.own.targets import is_missing, limit_of, number_of
from pointset.datasets.splits.files import AUTOMATIC, SplitChoice, by_column
from pointset.datasets.splits.parts import EXPECTED_PARTS, part_of
from pointset.errors import SpecError
from pointset.text import counted

if TYPE_CHECKING:
    from pointset.datasets.own.csv_rows import Table

Numbers = NDArray[np.float64]

_SAMPLE = 20_000  # rows that are looked at
_SPLIT_NAMES = ("split", "set", "subset", "partition", "fold")  # the earlier goes first
_MOST_LISTED = 30  # columns in a message
_MOST_ALIKE = 3  # columns with the same reason, each in a line of its own
_MOST_CLASSES = 20
_MOST_WORDS = 5  # of a split that are not known, in a message
_LONGEST_EXAMPLE = 24

_IDENTIFIER = re.compile(
    r"(|unnamed:? ?[0-9]*|__index_level_[0-9]+__|(.*[_ .-])?(id|ids|idx|cid|sid|chemblid)|index|row|line|"
    r"(mol(ecule)?|compound|drug|substance)?[_ .-]?(id|name|no|nr|number|title)|cas(rn)?|record)"
)
_SPLIT = re.compile(rf"(is[_ .-])?({'|'.join(_SPLIT_NAMES)}|train|test|val(id)?)|.*[_ .-](split|fold)")
_RUNNING_ROWS = 10  # 1, 2, 3, … in fewer rows may be anything
_DIGITS = 1000  # numbers of registries are at least this large, and each stands once
_IDENTIFIER_ROWS = 50

_SPREAD = re.compile(
    r"(.*[_ .\[(-])?(sd|std|stdev|stddev|std[_ .-]?dev|sem|stderr|std[_ .-]?err|err|error|errors|uncertainty|variance|"
    r"var|rsd|cv|ci|ci95|ci_?low(er)?|ci_?(high|up(per)?))([_ .\])-].*)?"
)
_COUNTS = re.compile(
    r"(.*[_ .-])?(count|counts|occurrences?|replicates?|measurements|observations|n_?obs|n_?meas)|n|"
    r"num_?(values|points)"
)
_WEIGHTS = re.compile(r"((sample|row|instance|data)[_ .-]?)?weights?")
_PREDICTED = re.compile(r"(.*[_ .-])?(pred|predicted|prediction|calc|calculated|computed|estimated)([_ .-].*)?")
# Computed from the structure: RDKit's names are known to RDKit, these are what else people call them.
_DESCRIPTORS = re.compile(
    r"mw|mol(ecular)?[_ .-]?(weight|wt|mass)|exact[_ .-]?(mass|mw|mol ?wt)|[acxmsw]logp[0-9]?|mollogp|molmr|t?psa|"
    r"(topological )?polar surface area|hb[ad]|n?rotb?|rb|qed|sas?(core)?|fsp3|balabanj|bertzct|labuteasa|"
    r"minimum degree|heavy[_ .-]?atoms?([_ .-]?count)?|ring[_ .-]?count|"
    r"(num(ber)?([_ .-]?of)?[_ .-]?|n[_ .-]?)"
    r"(h(ydrogen)?[_ .-]?bond.*|h[_ .-]?(acceptors|donors)|rotat.*|het.*|heavy.*|atoms?|bonds?|valence.*|.*rings?)"
)
_CONCENTRATION = re.compile(  # IC50 [nM]; pIC50, -log10(IC50), log_ki
    r"(?<![a-z])(?P<logarithm>(neg)?[_ .-]?log[0-9]*[_ .(-]*|p)?"
    r"(?P<of>[ieagl][cd] ?[0-9]{2}|ki|kd|km|mic|potency)(?![a-z])"
)
_RANK_CORRELATION = 0.999
_LEAST_PAIRS = 10  # of values, to call two columns transforms of each other
_MOST_COMPARED, _COMPARED_ROWS = 40, 5000  # columns and rows: the pairs of more would take long


class Role(StrEnum):
    """What a column is taken for."""

    STRUCTURE = "SMILES"
    SPLIT = "split"
    WEIGHT = "weight"
    TARGET = "target"
    DOUBTFUL = "perhaps a target"
    OTHER = "not a target"


@dataclass(frozen=True)
class JudgedColumn:
    """One column, and what it is taken for."""

    column: int  # counted from 0
    name: str
    kind: str  # "numbers", "whole numbers", "0/1 labels", "words", "empty"
    values: int  # cells that are not missing, among the rows that were looked at
    example: str
    role: Role
    reason: str = ""
    named: bool = True  # whether it has a name that no other column has

    @property
    def chosen_by(self) -> str | int:
        """What to choose it by: its name, or where it has none of its own its number."""
        return self.name if self.named else self.column

    @property
    def is_label(self) -> bool:
        """Whether it holds 0 and 1 only."""
        return self.kind == "0/1 labels"


class UnclearTargetsError(SpecError):
    """Several columns could be the targets, and none was named."""


@dataclass(frozen=True)
class Judgement:
    """All columns of a table. ``targets`` are to be taken unless ``asks``, where they are what can be suggested."""

    file: str
    columns: tuple[JudgedColumn, ...]
    targets: tuple[int, ...]
    asks: bool

    @property
    def candidates(self) -> list[JudgedColumn]:
        """Columns that are or may be targets."""
        return [one for one in self.columns if one.role in (Role.TARGET, Role.DOUBTFUL)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was guessed, for the card."""
        names = [self.columns[column].name for column in self.targets]
        notes = []
        if not names:
            notes.append(f"no targets: nothing to learn from; name a column with {option('targets')}")
        elif len(names) == 1:
            notes.append(f"the target is {names[0]}, the only candidate. Choose another with {option('targets')}")
        else:
            told = ", ".join(names[:_MOST_LISTED]) + (", …" if len(names) > _MOST_LISTED else "")
            notes.append(
                f"targets are all {len(names)} columns of 0 and 1: {told}. Choose others with {option('targets')}"
            )
        left_out = [one for one in self.columns if one.role is Role.OTHER and one.kind != "words" and one.reason]
        if left_out:
            told = "; ".join(f"{one.name!r} ({one.reason})" for one in left_out[:_MOST_LISTED])
            notes.append(f"not targets: {told}")
        notes += [f"{one.name!r}: {one.reason}" for one in self.columns if one.kind == "words" and one.reason]
        return tuple(notes)

    def question(self) -> str:
        """Which of the candidates is meant, with what to add for each answer."""
        candidates = self.candidates
        lines = []
        for reason, same in _grouped(candidates):
            if not reason or len(same) <= _MOST_ALIKE:
                why = f" ({reason})" if reason else ""
                lines += [
                    f"  {one.name}: {one.kind}, {counted(one.values, 'value')}, e.g. {one.example}{why}" for one in same
                ]
            else:
                lines.append(f"  {', '.join(one.name for one in same)}: {reason}")
        if len(lines) > _MOST_LISTED:
            lines[_MOST_LISTED:] = [f"  … and {len(lines) - _MOST_LISTED:,} more"]
        clear = [self.columns[column].chosen_by for column in self.targets]
        alone = self.columns[self.targets[0]] if clear else candidates[0]
        first = alone.chosen_by
        answer = f"For {alone.name!r} alone, add {as_setting([first])} (targets={first!r} in Python, --target {first})"
        if len(clear) > 1:
            answer += f"; for {'all' if len(clear) == len(candidates) else 'these'} together, {as_setting(clear)}"
        return (
            f"{self.file}: {len(candidates)} columns could be targets; expected one, only labels of 0 and 1, or to be "
            "told which:\n" + "\n".join(lines) + f"\n{answer}"
        )

    def answered(self) -> tuple[int, ...]:
        """The targets; raises the question where there is one."""
        if self.asks:
            raise UnclearTargetsError(self.question())
        return self.targets


def _grouped(columns: Sequence[JudgedColumn]) -> list[tuple[str, list[JudgedColumn]]]:
    """The columns with each reason, those without one first."""
    reasons = dict.fromkeys(["", *(one.reason for one in columns)])
    groups = [(reason, [one for one in columns if one.reason == reason]) for reason in reasons]
    return [(reason, group) for reason, group in groups if group]


def judge_columns(file: Table, known: Mapping[int, Role]) -> Judgement:
    """Judge all columns of a table; ``known`` are those whose role is settled: the SMILES, a split that was chosen."""
    cells = _sampled(file)
    names = [(file.header[column] if file.header else "") or f"column {column}" for column in range(file.width)]
    numbers = [_numbers(column, commas=file.decimal_commas) for column in cells]
    judged, repeated = [], Counter(file.header)
    for column, name in enumerate(names):
        given = [cell.strip() for cell in cells[column] if not is_missing(cell)]
        kind = _kind(given, numbers[column])
        example = _shortened(given[0]) if given else ""
        named = repeated[name] == 1
        one = JudgedColumn(column, name, kind, len(given), example, Role.OTHER, named=named)
        if column in known:
            judged.append(replace(one, role=known[column]))
            continue
        header = file.header[column] if file.header else None
        role, reason = _alone(header, one, given, numbers[column], is_name=file.is_smi and column == 1)
        judged.append(replace(one, role=role, reason=reason))
    candidates = [one.column for one in judged if one.role in (Role.TARGET, Role.DOUBTFUL)]
    if len(candidates) > 1 and all(judged[column].is_label for column in candidates):
        return Judgement(str(file.path), tuple(judged), tuple(candidates), asks=False)
    judged = _compared(judged, numbers, cells)
    candidates = [one.column for one in judged if one.role in (Role.TARGET, Role.DOUBTFUL)]
    clear = [one.column for one in judged if one.role is Role.TARGET]
    asks = len(candidates) > 1
    if not asks:
        judged = [replace(one, role=Role.TARGET) if one.column in candidates else one for one in judged]
    return Judgement(str(file.path), tuple(judged), tuple(clear if asks else candidates), asks)


def choose_split(file: Table, split: SplitChoice, others: Sequence[int] = ()) -> tuple[SplitChoice, tuple[str, ...]]:
    """The split that ``"auto"`` means for this table: by its own column if it has one, else at random; and what to say.

    Any other choice stays. ``others`` are columns that have a role already.
    """
    if split != AUTOMATIC:
        return split, ()
    column, notes = _split_column(file, others)
    if column is None:
        return "random", notes
    name = file.header[column]
    return by_column(name), (f"split by the column {name!r}, as it holds words of a split", *notes)


def _split_column(file: Table, others: Sequence[int] = ()) -> tuple[int | None, tuple[str, ...]]:
    """The column that splits the table by the words train, val and test, if there is one; and what is to be said.

    It must be named split, set, subset, partition or fold (in any case), and hold such words only. Another column of
    such words, or one of that name with anything else in it, is named, but not used.

    Raises:
        SpecError: it holds train and another part, and words that are no part beside them.
    """
    cells = _sampled(file)
    lower = [name.strip().lower() for name in file.header]
    splits, notes = [], []
    for column, name in enumerate(lower):
        if column in others:
            continue
        words = {cell.strip() for cell in cells[column] if cell.strip()}
        parts = {part for word in words if (part := part_of(word))}
        is_split = bool(words) and all(part_of(word) for word in words)
        if is_split and name in _SPLIT_NAMES and "train" in parts:
            splits.append(column)
        elif is_split:
            notes.append(_other_split(file.header[column], "holds words of a split"))
        elif name in _SPLIT_NAMES and "train" in parts and len(parts) > 1:
            raise SpecError(_unknown_parts(file, column))
        elif name in _SPLIT_NAMES and words:
            notes.append(_no_split(file.header[column], words))
    splits.sort(key=lambda column: _SPLIT_NAMES.index(lower[column]))
    notes += [_other_split(file.header[column], "holds a split, too") for column in splits[1:]]
    return (splits[0] if splits else None), tuple(notes)


def _unknown_parts(file: Table, column: int) -> str:
    """Rows of an unknown part must not be trained on, as those of a random split would be."""
    cells = (row.cells[column].strip() for row in file.rows() if row.problem is None)
    unknown = Counter(cell for cell in cells if cell and part_of(cell) is None).most_common()
    told = ", ".join(f"{_shortened(word)!r} ({counted(rows, 'row')})" for word, rows in unknown[:_MOST_WORDS])
    more = f" and {counted(left, 'other word')}" if (left := len(unknown) - _MOST_WORDS) > 0 else ""
    return (
        f"{file.path}: the column {file.header[column]!r} is a split, but holds {told}{more}; expected "
        f"{EXPECTED_PARTS}. Correct them, or clear these cells to leave the rows out; to split without the column, "
        f"pass {option('split', 'random')}"
    )


def _no_split(name: str, words: Collection[str]) -> str:
    """What is to be said of a column that is named like a split and is none."""
    shown = ", ".join(repr(_shortened(word)) for word in sorted(words)[:3]) + (", …" if len(words) > 3 else "")
    if all(number_of(word) is not None for word in words):
        return (
            f"the column {name!r} looks like a split by number ({shown}), which is not used. To split by it, write "
            f"the words train, val and test into a column and pass {option('split', 'column:NAME')}; for a "
            "cross-validation with folds at random, train with --folds"
        )
    return f"the column {name!r} is named like a split, but holds {shown}, not the words train, val and test; not used"


def _other_split(name: str, what: str) -> str:
    return f"the column {name!r} {what}; it is not used. To split by it, pass {option('split', by_column(name))}"


def _sampled(file: Table) -> list[list[str]]:
    """The cells of each column, of the first rows that can be read."""
    rows = file.sample(_SAMPLE)
    return [[row[column] for row in rows] for column in range(file.width)]


def _numbers(cells: Sequence[str], *, commas: bool) -> Numbers | None:
    """(rows,) NaN where there is none; None for a column in which less than half of the known cells are numbers.

    A stray word makes a bad row, not a column of text; a limit such as >100 is a number.
    """
    values = np.full(len(cells), np.nan)
    known = found = 0
    for row, cell in enumerate(cells):
        if is_missing(cell):
            continue
        known += 1
        number = number_of(cell, truth=True)
        if number is None:
            limit = limit_of(cell, comma=commas)
            number = number_of(cell, comma=commas) if limit is None else limit.value
        if number is not None:
            values[row] = number
            found += 1
    return values if found and 2 * found >= known else None


def _kind(given: Sequence[str], numbers: Numbers | None) -> str:
    if not given:
        return "empty"
    if numbers is None:
        return "words"
    values = numbers[~np.isnan(numbers)]
    if np.isin(values, (0, 1)).all():
        return "0/1 labels"
    return "whole numbers" if (values == np.round(values)).all() else "numbers"


def _alone(
    name: str | None, one: JudgedColumn, given: Sequence[str], numbers: Numbers | None, *, is_name: bool
) -> tuple[Role, str]:
    """The role of a column by its name and its own values; ``name`` is None where columns have none."""
    lower = None if name is None else " ".join(name.lower().split())
    if numbers is None:
        few = 2 <= len(set(given)) <= min(_MOST_CLASSES, len(given) // 2)
        is_split = all(part_of(word) for word in given)
        reason = "words, which can be predicted as classes if it is chosen by name" if few and not is_split else ""
        return Role.OTHER, reason
    if is_name or (lower is not None and _IDENTIFIER.fullmatch(lower)):
        return Role.OTHER, "named like an identifier" if lower else "a column without a name"
    if lower is not None and _SPLIT.fullmatch(lower):
        return Role.OTHER, "named like a split" if one.is_label else "looks like a split by number, which is not used"
    values = numbers[~np.isnan(numbers)]
    if reason := _identifier(values):
        return Role.OTHER, reason
    if one.is_label or lower is None:
        return Role.TARGET, ""
    for pattern, reason in (
        (_SPREAD, "named like an error or a standard deviation"),
        (_COUNTS, "named like a number of measurements"),
        (_WEIGHTS, "named like a weight"),
        (_PREDICTED, "named like a computed value"),
    ):
        if pattern.fullmatch(lower):
            return Role.DOUBTFUL, reason
    if _DESCRIPTORS.fullmatch(lower) or lower in _rdkit_names():
        return Role.DOUBTFUL, "a descriptor that can be computed from the structure"
    return Role.TARGET, ""


def _identifier(values: Numbers) -> str:
    """Why the values (rows,) look like numbers of molecules rather than properties; empty where they do not."""
    if len(values) < _RUNNING_ROWS or (values != np.round(values)).any():
        return ""
    if (np.diff(values) == 1).all():
        return "running numbers"
    large = len(values) >= _IDENTIFIER_ROWS and np.median(np.abs(values)) >= _DIGITS
    return "whole numbers that each stand once, like an identifier" if large and _all_differ(values) else ""


def _all_differ(values: Numbers) -> bool:
    return len(np.unique(values)) == len(values)


@cache
def _rdkit_names() -> frozenset[str]:
    """RDKit's own names of its descriptors, in lower case; none where RDKit is not installed."""
    try:
        from rdkit.Chem import Descriptors
    except ImportError:
        return frozenset()
    return frozenset(name.lower() for name, _ in Descriptors.descList)


# --- columns beside each other


def _compared(
    judged: Sequence[JudgedColumn], numbers: Sequence[Numbers | None], cells: Sequence[Sequence[str]]
) -> list[JudgedColumn]:
    """The same with doubts that only other columns give rise to: transforms, logarithms, flags, constants."""
    result = list(judged)

    def doubt(column: int, reason: str, role: Role = Role.DOUBTFUL) -> None:
        if result[column].role is Role.TARGET:
            result[column] = replace(result[column], role=role, reason=reason)

    def clear() -> list[int]:
        return [one.column for one in result if one.role is Role.TARGET]

    for column in clear():
        values = numbers[column]
        known = np.zeros(0) if values is None else values[~np.isnan(values)]
        if len(known) > 1 and (known == known[0]).all() and not _has_limits(cells[column]):
            doubt(column, "the same value in every row", Role.OTHER)
    quantities = {column: _quantity(result[column].name) for column in clear()}
    for column, (quantity, _) in quantities.items():
        beside = [other for other, one in quantities.items() if quantity and one == (quantity, True)]
        if beside and column not in beside:
            doubt(column, f"a concentration beside its logarithm {result[beside[0]].name!r}")
    compared = [column for column in clear() if not result[column].is_label]
    if len(compared) <= _MOST_COMPARED:
        for first, second in itertools.combinations(compared, 2):
            if result[first].role is Role.TARGET and result[second].role is Role.TARGET:
                which, reason = _transform(result, numbers, first, second)
                if reason:
                    doubt(which, reason)
    if any(not result[column].is_label for column in clear()):
        for column in clear():
            if result[column].is_label:
                doubt(column, "a flag of 0 and 1 beside other numbers")
    return result


def _has_limits(cells: Sequence[str]) -> bool:
    return any(limit_of(cell) or limit_of(cell, comma=True) for cell in cells)


def _quantity(name: str) -> tuple[str, bool]:
    """``("ic50", True)`` of pIC50 and of -log10(IC50), ``("ic50", False)`` of IC50 [nM], ``("", False)`` of logS."""
    found = _CONCENTRATION.search(name.lower())
    return (found["of"].replace(" ", ""), bool(found["logarithm"])) if found else ("", False)


def _transform(
    judged: Sequence[JudgedColumn], numbers: Sequence[Numbers | None], first: int, second: int
) -> tuple[int, str]:
    """Which of two columns is a transform of the other, and how; an empty reason where neither is."""
    from scipy.stats import rankdata

    a, b = numbers[first], numbers[second]
    if a is None or b is None:
        return second, ""
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both][:_COMPARED_ROWS], b[both][:_COMPARED_ROWS]
    if len(a) < _LEAST_PAIRS or _correlation(rankdata(a), rankdata(b)) <= _RANK_CORRELATION:
        return second, ""
    for column, values, other, theirs in ((first, a, second, b), (second, b, first, a)):
        linear, logarithmic = _correlation(values, theirs), 0.0
        if (values > 0).all():
            logarithmic = _correlation(np.log(values), theirs)
        if logarithmic > max(linear, _RANK_CORRELATION):
            return column, f"10 to the power of {judged[other].name!r} or the like: the same order in other numbers"
    return second, f"a transform of {judged[first].name!r} (rank correlation above {_RANK_CORRELATION})"


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """|r| of Pearson; 0 where one of them never varies."""
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return abs(float(a @ b)) / norm if norm > 0 else 0.0


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_EXAMPLE else line[: _LONGEST_EXAMPLE - 1] + "…"
