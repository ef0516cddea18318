"""Text for people: numbers, counts, durations, sizes, lists and names from files, the same everywhere."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NO_NUMBER = "–"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed
_HUGE = 1e9  # from here on fixed digits would only be wide


def number(value: float | None, digits: int = 4) -> str:
    """``0.0631``, ``12,345``, ``6.3 × 10⁻⁵``: so many significant digits; a dash where there is no number."""
    if value is None or math.isnan(value):
        return _NO_NUMBER
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(float(f"{value:.{digits}g}"))
    if size >= 1e9 or 0 < size < 1e-4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{float(mantissa):g} × 10{str(int(exponent)).translate(_RAISED)}"
    else:
        text = f"{value:,.0f}" if size >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def signed(value: float, digits: int = 4) -> str:
    """``+0.31``, ``−1.2``, ``0``."""
    return ("+" if value > 0 else "") + number(value, digits)


def fixed(value: float | None, digits: int) -> str:
    """``0.0630``, ``1,234.5``: so many digits after the point, for columns; huge values as :func:`number` has them."""
    if value is None or not abs(value) < _HUGE:  # NaN, too
        return number(value, 3)
    rounded = float(f"{value:.{digits}f}") + 0.0  # never −0.00
    return f"{rounded:,.{digits}f}".replace("-", "−")


def log_number(value: float) -> str:
    """``0.2340``, ``12.34``, ``1.234e-05``: four digits, final zeros kept, so that a line that moves does not jump."""
    if value and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.3e}"
    return f"{value:#.4g}".rstrip(".") if abs(value) < 1e3 else f"{value:.0f}"


def percent(share: float) -> str:
    """``12.5 %``; what is more than nothing is never ``0.0 %``."""
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:.1f} %"


def whole_percent(share: float) -> str:
    """``90 %``."""
    return f"{100 * share:.0f} %"


def with_spread(value: float | None, std: float | None) -> str:
    """``0.063 ± 0.003``."""
    return number(value) if std is None or math.isnan(std) else f"{number(value)} ± {number(std, 2)}"


def with_interval(value: float | None, lower: float | None, upper: float | None) -> str:
    """``0.61 (0.53–0.70)``, ``−3.2 (−3.4 to −3.0)``: as many digits as the width of the interval allows."""
    if value is None or lower is None or upper is None or not math.isfinite(value + upper - lower):
        return number(value)
    return f"{fixed(value, _digits(lower, upper))} ({interval_text(lower, upper)})"


def interval_text(lower: float | None, upper: float | None) -> str:
    """``0.53–0.70``, ``−3.4 to −3.0``; a dash where one of them is not known."""
    if lower is None or upper is None or math.isnan(lower + upper):
        return _NO_NUMBER
    digits = _digits(lower, upper)
    return f"{fixed(lower, digits)}{' to ' if lower < 0 else '–'}{fixed(upper, digits)}"


def _digits(lower: float, upper: float) -> int:
    """Digits after the point with which both ends differ in two places."""
    width = upper - lower
    return min(max(1 - math.floor(math.log10(width)), 0), 6) if 0 < width < math.inf else 4


def counted(count: int, noun: str) -> str:
    """``1 graph``, ``2,000 graphs``; classes end in -es."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{count:,} {noun if count == 1 else plural}"


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


def clock(seconds: float) -> str:
    """``0:07``, ``3:12``, ``26:04:59``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def short_clock(seconds: float) -> str:
    """``3:12``, but ``26h05``: nobody waits for those seconds."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h{minutes:02}" if hours else clock(seconds)


def byte_size(size: float | None) -> str:
    """``512 B``, ``34.2 kB``, ``1.23 GB``; a dash where it is not known."""
    if size is None or not math.isfinite(size):
        return _NO_NUMBER
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{number(size, 3)} TB"


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


def visible(text: str) -> str:
    """Without control characters but line ends: names come from files, and must not steer the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)


def for_markup(text: str) -> str:
    """Without the control characters that neither HTML nor SVG may hold, and a name may."""
    return _CONTROLS.sub("�", text)


def printable(text: str) -> str:
    """On one line, without control characters."""
    return visible(" ".join(text.split()))
