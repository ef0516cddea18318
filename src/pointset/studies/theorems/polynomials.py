"""Polynomials in named quantities, written as the paper writes its formulas: ``"A3 + A - i.d2*A - j.d2*A"``.

They stand for the MLPs of explicit constructions: an MLP comes as near as one likes to a polynomial on every bounded
set, and rounding whole numbers takes the rest away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pointset.errors import SpecError

Terms = tuple[tuple[float, tuple[str, ...]], ...]  # (factor, names multiplied)

_NAME = r"[A-Za-z_][\w.]*"
_TERM = re.compile(rf"(-?)\s*(\d+(?:\.\d+)?)?\s*({_NAME}(?:\*{_NAME})*)?")


def terms(formula: str) -> Terms:
    """``"2 A*B - 0.5"`` → ((2, ("A", "B")), (-0.5, ())); the empty formula is 0."""
    found = []
    for text in formula.replace("-", "+-").split("+"):
        if not text.strip():
            continue
        match = _TERM.fullmatch(text.strip())
        if match is None or not (match[2] or match[3]):
            raise SpecError(f"got the term {text.strip()!r}; expected a number, names joined by '*', or both: 2 A*B")
        factor = float(match[2] or 1) * (-1 if match[1] else 1)
        found.append((factor, tuple(match[3].split("*")) if match[3] else ()))
    return tuple(found)


@dataclass(frozen=True)
class Polynomials:
    """A function (…, number of inputs) → (…, number of formulas)."""

    inputs: tuple[str, ...]
    outputs: tuple[Terms, ...]

    @classmethod
    def of(cls, inputs: Sequence[str], formulas: Sequence[str]) -> Polynomials:
        """Parsed, each name checked."""
        outputs = tuple(terms(formula) for formula in formulas)
        for name in sorted({name for output in outputs for _, names in output for name in names}):
            if name not in inputs:
                raise SpecError(f"got {name!r} in a formula; expected one of {', '.join(inputs)}")
        return cls(tuple(inputs), outputs)

    def __call__(self, values: Tensor) -> Tensor:
        column = {name: values[..., index] for index, name in enumerate(self.inputs)}
        results = values.new_zeros(*values.shape[:-1], len(self.outputs))
        for index, output in enumerate(self.outputs):
            for factor, names in output:
                product = values.new_full(values.shape[:-1], factor)
                for name in names:
                    product = product * column[name]
                results[..., index] += product
        return results


def linear(rows: Sequence[str], columns: Sequence[str | None]) -> Tensor:
    """(rows, columns) of zeros with a one where a column has the name of a row; a column None stays zero."""
    matrix = torch.zeros(len(rows), len(columns), dtype=torch.float64)
    for column, name in enumerate(columns):
        if name is not None:
            matrix[list(rows).index(name), column] = 1.0
    return matrix
