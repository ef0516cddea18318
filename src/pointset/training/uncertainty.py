"""What a model adds to its predictions: intervals, deviations, sets of classes, nearness to training.

:class:`Uncertainty` joins :mod:`~pointset.training.calibration`, :mod:`~pointset.training.difficulty` and
:mod:`~pointset.training.domain`: it is fitted at the end of a training, kept in the bundle, and asked for
:class:`Answers` when the model predicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Array, Flags, Floats, Integers
from pointset.datasets.card import Card, Level, Task
from pointset.errors import FileFormatError
from pointset.native.similarity import Packed
from pointset.training.calibration import (
    CONFIDENCE,
    Arrays,
    ClassCalibration,
    IntervalCalibration,
    check_confidence,
    coverage,
    two_classes,
)
from pointset.training.difficulty import Difficulty
from pointset.training.domain import Domain, InDomain
from pointset.training.outputs import Column, as_predictions, mean_outputs

if TYPE_CHECKING:
    from pointset.training.bundle import Place

_LABELS = ("0", "1")
_SIMILARITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # bins in which the coverage is reported


class Seen(NamedTuple):
    """Graphs as models see them: rows are graphs, or the nodes of all graphs."""

    members: Tensor  # (members, rows, k) numbers in the targets' own units, or logits
    num_nodes: Integers  # (G,)
    representations: Array | None = None  # (G, d) of the first member; not of models of nodes
    fingerprints: Packed | None = None  # (G, 256) of molecules
    strange: Flags | None = None  # (G,) with nodes of a category that does not occur in the training part


class Answers(NamedTuple):
    """Predictions, and how far to trust them. Arrays are NaN where nothing is known."""

    predictions: Floats  # (rows, k) numbers, or calibrated probabilities
    lower: Floats | None  # (rows, k) of a regression
    upper: Floats | None
    std: Floats | None  # (rows, targets)
    sets: Flags | None  # (rows, 2 · labels) or (rows, classes): which of them the sets hold
    similarity: Floats | None  # (G,)
    in_domain: Flags | None  # (G,)


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Calibrations of all targets, by difficulty, and the domain."""

    card: Card
    members: int
    targets: tuple[IntervalCalibration | ClassCalibration | None, ...]  # one for all classes; None: no validation rows
    difficulties: tuple[Difficulty, ...] = ()  # of the targets of a regression
    residuals: Array | None = None  # (R, k) float32 |error| on the representations of the domain
    domain: Domain | None = None

    @classmethod
    def fit(
        cls, card: Card, val: Seen, val_targets: Tensor, known: Tensor, known_targets: Tensor, domain: Domain | None
    ) -> Uncertainty:
        """From the validation part; ``known`` are the outputs (members, R, k) for the domain's representations."""
        if card.task is not Task.REGRESSION:
            return cls(card, len(val.members), _class_calibrations(card, val, val_targets), domain=domain)
        residuals = None
        if domain is not None:
            predicted = mean_outputs(known, card.task)
            residuals = (known_targets - predicted).abs().numpy().astype(np.float32)
        bare = cls(card, len(val.members), (), (), residuals, domain)
        errors = (val_targets - mean_outputs(val.members, card.task)).numpy()
        terms = bare._terms(val, bare.near(val))  # (rows, k, J)
        difficulties, targets = [], []
        for column in range(errors.shape[1]):
            difficulty = Difficulty.fit(terms[:, column], errors[:, column])
            difficulties.append(difficulty)
            targets.append(IntervalCalibration.fit(errors[:, column], difficulty.sigma(terms[:, column])))
        return cls(card, len(val.members), tuple(targets), tuple(difficulties), residuals, domain)

    def near(self, seen: Seen, *, threads: int = 1) -> InDomain | None:
        """How near graphs are to the training part; None where the model has no domain."""
        if self.domain is None or seen.representations is None:
            return None
        more: dict[str, Any] = {"strange": seen.strange, "threads": threads}
        return self.domain(seen.num_nodes, seen.representations, seen.fingerprints, **more)

    def _terms(self, seen: Seen, near: InDomain | None) -> Floats:
        """(rows, k, J) what the difficulty is made of."""
        _, rows, width = seen.members.shape
        terms = []
        if self.members > 1:
            terms.append(seen.members.std(0).numpy())
        if self.domain is not None and self.residuals is not None:
            if near is None:
                terms += [np.full((rows, width), np.nan)] * 2
            else:
                terms.append(_known_means(self.residuals[near.neighbours]))
                apart = near.distance
                if self.domain.fingerprints is not None:
                    apart = np.full(rows, np.nan) if near.similarity is None else 1 - near.similarity
                terms.append(np.repeat(apart[:, None], width, axis=1))
        return np.stack(terms, axis=2) if terms else np.zeros((rows, width, 0))

    @property
    def _term_count(self) -> int:
        return (self.members > 1) + 2 * (self.domain is not None and self.residuals is not None)

    def __call__(self, seen: Seen, confidence: float = CONFIDENCE, *, threads: int = 1) -> Answers:
        """The predictions of graphs, with intervals or sets that hold the truth with this probability."""
        check_confidence(confidence)
        near = self.near(seen, threads=threads)
        similarity, inside = (None, None) if near is None else (near.similarity, near.inside)
        if near is not None and similarity is None and self.domain and self.domain.fingerprints is not None:
            similarity = np.full(len(inside), np.nan) if inside is not None else None
        outputs = mean_outputs(seen.members, self.card.task)
        if self.card.task is not Task.REGRESSION:
            return Answers(*self._classes(seen, outputs, confidence), similarity, inside)
        predicted = outputs.numpy()
        half, std = np.full((2, *predicted.shape), np.nan)
        terms = self._terms(seen, near)
        for column, (target, difficulty) in enumerate(zip(self.targets, self.difficulties, strict=True)):
            if isinstance(target, IntervalCalibration):
                sigma = difficulty.sigma(terms[:, column])
                half[:, column], std[:, column] = target.half_width(sigma, confidence), target.std(sigma)
        half[~np.isfinite(half)] = np.nan  # too few validation rows: nothing can be promised
        return Answers(predicted, predicted - half, predicted + half, std, None, similarity, inside)

    def predictions(self, outputs: Tensor) -> Tensor:
        """(rows, k) numbers or logits → numbers, or calibrated probabilities, without all else."""
        if self.card.task is Task.REGRESSION:
            return outputs
        return torch.from_numpy(self._probabilities(outputs))

    def _probabilities(self, outputs: Tensor) -> Floats:
        """(rows, k) of logits, each label with its own temperature."""
        return as_predictions(outputs / self.temperatures.to(outputs.dtype), self.card.task).numpy()

    @property
    def temperatures(self) -> Tensor:
        """By which logits are divided: (k,) of labels, (1,) of classes; ones where nothing is calibrated."""
        known = [one.temperature if isinstance(one, ClassCalibration) else 1.0 for one in self.targets]
        return torch.tensor(known, dtype=torch.float64)

    def _classes(
        self, seen: Seen, outputs: Tensor, confidence: float
    ) -> tuple[Floats, None, None, Floats | None, Flags]:
        """Probabilities, no bounds, their deviation over the members, and sets."""
        probabilities, sets = self._probabilities(outputs), []
        for column, target in enumerate(self.targets):
            logits = _logits_of(self.card, outputs.numpy(), column)
            if isinstance(target, ClassCalibration):
                sets.append(target.sets(logits, confidence))
            else:  # nothing can be ruled out
                sets.append(np.ones_like(logits, dtype=np.bool_))
        std = None
        if self.members > 1:
            each = as_predictions(seen.members.flatten(0, 1), self.card.task).reshape(seen.members.shape)
            std = each.std(0).numpy()
            if self.card.task is Task.MULTI_CLASS:  # of the class that is predicted
                std = np.take_along_axis(std, probabilities.argmax(1)[:, None], 1)
        return probabilities, None, None, std, np.concatenate(sets, axis=1)

    # --- as columns of a table

    def columns(self) -> list[Column]:
        """``lower_``, ``upper_`` and ``std_`` of numbers, ``set_`` of classes, ``similarity`` and ``in_domain``."""
        found = []
        for name in self.card.target_names:
            if self.card.task is Task.REGRESSION:
                found += [Column(f"{kind}_{name}") for kind in ("lower", "upper", "std")]
            else:
                found.append(Column(f"set_{name}", self.card.classes or _LABELS))
                found += [Column(f"std_{name}")] * (self.members > 1)
        if self.domain is not None:
            found += [Column("similarity")] * (self.domain.fingerprints is not None)
            found.append(Column("in_domain", flag=True))
        return found

    def numbers(self, answers: Answers) -> Floats:
        """(rows, Σ widths) of the columns."""
        parts: list[Array] = []
        for at in range(len(self.card.target_names)):
            if answers.lower is not None and answers.upper is not None and answers.std is not None:
                parts += [one[:, [at]] for one in (answers.lower, answers.upper, answers.std)]
            elif answers.sets is not None:
                width = len(self.card.classes or _LABELS)
                parts.append(answers.sets[:, at * width : (at + 1) * width])
                parts += [] if answers.std is None else [answers.std[:, [at]]]
        if answers.in_domain is not None:
            parts += [] if answers.similarity is None else [answers.similarity[:, None]]
            parts.append(answers.in_domain[:, None])
        return np.concatenate([part.astype(np.float64) for part in parts], axis=1)

    def too_few(self, confidence: float) -> str | None:
        """A line for people where the validation part is too small for intervals of this confidence."""
        counts = {
            name: 0 if target is None else target.rows
            for name, target in zip(self.card.target_names, self.targets, strict=False)
            if not isinstance(target, ClassCalibration)
        }
        least = math.ceil(confidence / (1 - confidence) - 1e-9)  # ⌈(n + 1)c⌉ ≤ n
        missing = [f"{name} ({count})" for name, count in counts.items() if count < least]
        if not missing or self.card.task is not Task.REGRESSION:
            return None
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        return (
            f"no {confidence:.6g} intervals for {', '.join(missing[:4])}{more}: they need at least {least} validation "
            "rows with a value (in parentheses: how many there were). Ask for a lower confidence"
        )

    # --- how well it holds

    def report(self, answers: Answers, targets: Tensor, confidence: float, spread: Floats | None) -> dict[str, Any]:
        """``calibration`` and ``domain`` of a result, of a part with these targets.

        The error in bins of similarity is the mean |error| of a regression, in the target's unit (of several targets in
        units of their ``spread``, (k,)), and the share of wrong classes otherwise.
        """
        truth = targets.numpy()
        names = self.card.target_names
        inside, widths, errors = self._held(answers, truth, spread)
        known = ~np.isnan(errors)
        per_target = {
            name: coverage(inside[:, at], widths[:, at], known[:, at] & np.isfinite(widths[:, at]))._asdict()
            for at, name in enumerate(names)
        }
        result: dict[str, Any] = {
            "calibration": {
                "confidence": confidence,
                "kind": "intervals" if self.card.task is Task.REGRESSION else "prediction sets",
                "per_target": per_target,
                "by_similarity": _by_similarity(answers.similarity, inside, widths, errors),
            }
        }
        if self.domain is not None and answers.in_domain is not None:
            result["domain"] = {
                "threshold": None if self.domain.fingerprints is None else self.domain.least_similarity,
                "largest_distance": self.domain.largest_distance,
                "nodes": [self.domain.least_nodes, self.domain.most_nodes],
                "references": self.domain.references,
                "test_in_domain": float(answers.in_domain.mean()) if len(answers.in_domain) else None,
            }
        return result

    def _held(self, answers: Answers, truth: Array, spread: Floats | None) -> tuple[Flags, Floats, Floats]:
        """(rows, targets) whether the truth is inside, how wide, and the error: NaN where there is no truth."""
        if answers.lower is not None and answers.upper is not None:
            with np.errstate(invalid="ignore"):
                inside = (truth >= answers.lower) & (truth <= answers.upper)
            errors = np.abs(truth - answers.predictions)
            several = spread is not None and truth.shape[1] > 1
            return inside, answers.upper - answers.lower, errors / spread if several else errors
        shape = len(truth), len(self.card.target_names), len(self.card.classes or _LABELS)
        sets: Flags = np.zeros(shape, np.bool_) if answers.sets is None else answers.sets.reshape(shape)
        classes = truth[:, None] if self.card.task is Task.MULTI_CLASS else np.where(np.isnan(truth), -1, truth)
        classes = classes.astype(np.int64)
        held = np.take_along_axis(sets, np.maximum(classes, 0)[:, :, None], 2)[:, :, 0]
        if self.card.task is Task.MULTI_CLASS:
            predicted = answers.predictions.argmax(1)[:, None]
        else:
            predicted = (answers.predictions > 0.5).astype(np.int64)
        return held, sets.sum(2, dtype=np.float64), np.where(classes < 0, np.nan, predicted != classes)

    # --- in a bundle

    def as_plain(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """``calibration`` and ``domain`` of bundle.json, and the arrays beside it."""
        arrays: dict[str, Array] = {}

        def kept(prefix: str, part: tuple[dict[str, Any], Arrays]) -> dict[str, Any]:
            arrays.update({f"{prefix}.{name}": array for name, array in part[1].items()})
            return part[0]

        targets = [
            None if target is None else kept(f"calibration.{at}", target.as_plain())
            for at, target in enumerate(self.targets)
        ]
        if self.residuals is not None:
            arrays["calibration.residuals"] = self.residuals
        calibration = {"targets": targets, "difficulty": [one.as_plain() for one in self.difficulties]}
        domain = None if self.domain is None else kept("domain", self.domain.as_plain())
        return {"calibration": calibration, "domain": domain}, arrays

    @classmethod
    def from_plain(cls, place: Place, arrays: Arrays, card: Card, members: int, channels: int) -> Uncertainty:
        """The inverse of :meth:`as_plain`, for a model with so many members and channels of its representation.

        Raises:
            FileFormatError: it is not what :meth:`as_plain` gave.
        """
        section, known = place.at("calibration"), place.at("domain")
        domain = None
        if known.value is not None and card.level is Level.GRAPH:
            domain = Domain.from_plain(known, _within(arrays, "domain."), channels, card.node)
        residuals = arrays.get("calibration.residuals")
        if residuals is not None:
            wanted = None if domain is None else (len(domain.representations), card.outputs)
            if residuals.shape != wanted or residuals.dtype != np.float32:
                raise FileFormatError("calibration: the residuals do not fit the domain; the bundle is damaged")
        entries = section.at("targets").items()
        if len(entries) != (1 if card.task is Task.MULTI_CLASS else len(card.targets)):
            raise section.wrong(f"the calibration of {len(card.targets)} targets")
        bare = cls(card, members, (), (), residuals, domain)
        regression = card.task is Task.REGRESSION
        difficulties = [Difficulty.from_plain(one, bare._term_count) for one in section.at("difficulty").items()]
        if len(difficulties) != (len(entries) if regression else 0):
            raise section.wrong(f"the difficulty of {len(entries)} targets")
        targets: list[IntervalCalibration | ClassCalibration | None] = []
        for at, entry in enumerate(entries):
            own = _within(arrays, f"calibration.{at}.")
            if entry.value is None:
                targets.append(None)
            elif regression:
                targets.append(IntervalCalibration.from_plain(entry, own))
            else:
                targets.append(ClassCalibration.from_plain(entry, own, len(card.classes or _LABELS)))
        found = cls(card, members, tuple(targets), tuple(difficulties), residuals, domain)
        if (domain is not None or known.value is None) and (unused := set(arrays) - set(found.as_plain()[1])):
            raise FileFormatError(
                f"the bundle contradicts itself: it holds the array {min(unused)}, and calibration and domain in "
                "its description say that there is none"
            )
        return found


def _class_calibrations(card: Card, val: Seen, targets: Tensor) -> tuple[ClassCalibration | None, ...]:
    outputs, truth = mean_outputs(val.members, card.task).numpy(), targets.numpy()
    columns = [truth] if card.task is Task.MULTI_CLASS else list(np.where(np.isnan(truth), -1, truth).T)
    return tuple(
        ClassCalibration.fit(_logits_of(card, outputs, at), column.astype(np.int64))
        for at, column in enumerate(columns)
    )


def _logits_of(card: Card, outputs: Floats, column: int) -> Floats:
    """(rows, classes) of all classes, or of no and yes of one label."""
    return outputs if card.task is Task.MULTI_CLASS else two_classes(outputs[:, column])


def _known_means(values: Array) -> Floats:
    """(rows, neighbours, k) → (rows, k) the mean of those that are known; NaN where none is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0).sum(1, dtype=np.float64) / known.sum(1))


def _by_similarity(similarity: Floats | None, inside: Flags, widths: Floats, errors: Floats) -> list[dict[str, Any]]:
    """Coverage and error of rows in bins of similarity to the training part; bins without rows are left out."""
    if similarity is None:
        return []
    found = []
    for low, high in pairwise(_SIMILARITIES):
        rows = (similarity >= low) & ((similarity < high) | (high == _SIMILARITIES[-1]))
        known = ~np.isnan(errors) & rows[:, None]
        promised = known & np.isfinite(widths)
        if known.any():
            found.append(
                {
                    "from": low,
                    "to": high,
                    "rows": int(known.any(1).sum()),
                    "coverage": float(inside[promised].mean()) if promised.any() else None,
                    "error": float(errors[known].mean()),
                }
            )
    return found


def _within(arrays: Arrays, prefix: str) -> Mapping[str, Array]:
    return dict(_named(arrays, prefix))


def _named(arrays: Arrays, prefix: str) -> Iterator[tuple[str, Array]]:
    for name, array in arrays.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), array
