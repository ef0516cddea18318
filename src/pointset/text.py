"""Numbers, durations and sizes as people write them; names of metrics in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NO_NUMBER = "–"
_METRICS = {
    "mae": ("MAE", "mean absolute error"),
    "rmse": ("RMSE", "root mean square error"),
    "r2": ("R²", "share of the variance explained"),
    "normalised_mae": ("normalised MAE", "mean absolute error in units of the target's standard deviation"),
    "roc_auc": ("ROC-AUC", "area under the ROC curve"),
    "average_precision": ("average precision", "area under the precision-recall curve"),
    "accuracy": ("accuracy", "share of correct answers"),
    "macro_f1": ("macro F1", "F1 score, averaged over the classes"),
    "loss": ("loss", "training loss"),
}
_ERRORS = ("mae", "rmse", "normalised_mae", "loss")  # metrics of which less is better


def metric_name(metric: str) -> str:
    """``MAE``."""
    return _METRICS.get(metric, (metric.replace("_", " "), ""))[0]


def metric_meaning(metric: str) -> str:
    """``mean absolute error``; empty where it is unknown."""
    return _METRICS.get(metric, ("", ""))[1]


def higher_is_better(metric: str) -> bool:
    """The direction of a metric by its name."""
    return metric not in _ERRORS


def number(value: float | None, digits: int = 4) -> str:
    """``0.0631``, ``12,345``, ``6.3 × 10⁻⁵``; a dash where there is no number."""
    if value is None or math.isnan(value):
        return _NO_NUMBER
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{float(mantissa):g} × 10{str(int(exponent)).translate(_RAISED)}"
    else:
        text = f"{value:,.0f}" if size >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def with_spread(value: float | None, std: float | None) -> str:
    """``0.063 ± 0.003``."""
    return number(value) if std is None or math.isnan(std) else f"{number(value)} ± {number(std, 2)}"


def count(value: int, noun: str) -> str:
    """``1 graph``, ``2,000 graphs``; classes end in -es."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{value:,} {noun if value == 1 else plural}"


def duration(seconds: float | None) -> str:
    """``0.4 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds is None or not math.isfinite(seconds):
        return _NO_NUMBER
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    for size, unit, smaller, smaller_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            whole, rest = divmod(round(seconds / smaller), size // smaller)
            return f"{whole:,} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    raise AssertionError


def memory(size: float | None) -> str:
    """``34 MB``, ``1.2 GB``."""
    if size is None or not math.isfinite(size):
        return _NO_NUMBER
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def listed(words: Sequence[str], most: int = 4) -> str:
    """``a, b and c``; ``a, b, c and 9 others``."""
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} others"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def clipped(text: str, most: int) -> str:
    """On one line, not longer than ``most`` letters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def capitalised(text: str) -> str:
    """The first letter large, the others as they are."""
    return text[:1].upper() + text[1:]
