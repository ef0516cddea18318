"""Parameters of graph families, checked before networkx sees them."""

from __future__ import annotations

import operator
from typing import Any

from pointset.errors import SpecError


def whole_number(value: Any, name: str, least: int, most: int | None = None) -> int:
    """``value`` as a whole number from ``least`` to ``most``."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        expected = f"from {least}" if most is None else f"from {least} to {most}"
        raise SpecError(f"got {name}={value!r}; expected a whole number {expected}")
    return number
