"""Numbers, counts, durations, sizes and names as people read them."""

from __future__ import annotations

import math

import pytest

from pointset.text import (
    byte_size,
    clipped,
    clock,
    counted,
    duration,
    fixed,
    listed,
    log_number,
    number,
    percent,
    printable,
    short_clock,
    visible,
    with_interval,
    with_spread,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.06312, "0.06312"), (0.5, "0.5"), (0, "0"), (1, "1"), (-0.25, "−0.25"), (23.15533, "23.16"),
        (-42.036563, "−42.04"), (0.0163405, "0.01634"), (1249, "1,249"), (12345.6, "12,346"), (-11234.56, "−11,235"),
        (249456, "249,456"), (1e6, "1,000,000"), (999.96, "1,000"), (6.3e-5, "6.3 × 10⁻⁵"), (1.5e-7, "1.5 × 10⁻⁷"),
        (2.5e12, "2.5 × 10¹²"), (None, "–"), (math.nan, "–"), (math.inf, "∞"), (-math.inf, "−∞"),
    ],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.063, 4, "0.0630"), (1234.56, 1, "1,234.6"), (-0.001, 2, "0.00"), (-3.14159, 2, "−3.14"), (7, 0, "7"),
        (1.234e12, 4, "1.23 × 10¹²"), (None, 2, "–"), (math.nan, 2, "–"), (-math.inf, 2, "−∞"),
    ],
)  # fmt: skip
def test_numbers_in_columns(value: float | None, digits: int, text: str) -> None:
    assert fixed(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (0.234, "0.2340"),
        (-12.3456, "-12.35"),
        (1234.4, "1234"),
        (9999.9, "10000"),
        (98765.4, "98765"),
        (123456.0, "1.235e+05"),
        (0.00012346, "0.0001235"),
        (0.000012344, "1.234e-05"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
    ids=str,
)
def test_numbers_of_a_log_keep_four_digits(value: float, text: str) -> None:
    assert log_number(value) == text


def test_shares_and_spreads() -> None:
    assert [percent(share) for share in (0, 0.0005, 0.125, 1)] == ["0.0 %", "< 0.1 %", "12.5 %", "100.0 %"]
    assert with_spread(0.063, 0.003) == "0.063 ± 0.003"
    assert with_spread(0.063, None) == with_spread(0.063, math.nan) == "0.063"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.6134, 0.5301, 0.7012), "0.61 (0.53–0.70)"),
        ((0.6134, 0.6101, 0.6182), "0.6134 (0.6101–0.6182)"),
        ((123.4, 101.0, 146.2), "123 (101–146)"),
        ((-3.21, -3.4, -3.0), "−3.21 (−3.40 to −3.00)"),
        ((1.0, 1.0, 1.0), "1.0000 (1.0000–1.0000)"),
        ((0.5, None, None), "0.5"),
        ((0.5, math.nan, math.nan), "0.5"),
        ((None, None, None), "–"),
        ((math.inf, 1.0, math.inf), "∞"),
    ],
)
def test_scores_with_intervals(values: tuple[float | None, float | None, float | None], text: str) -> None:
    assert with_interval(*values) == text


def test_counts() -> None:
    assert [counted(1, "graph"), counted(2000, "graph")] == ["1 graph", "2,000 graphs"]
    assert [counted(1, "class"), counted(2, "class")] == ["1 class", "2 classes"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.42 s"), (12, "12 s"), (60, "1 min"), (754, "12 min 34 s"), (3599.9, "60 min"), (7500, "2 h 5 min"),
     (277_200, "3 d 5 h"), (None, "–")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (192, "3:12"), (93_899, "26:04:59")])
def test_clocks(seconds: float, text: str) -> None:
    assert clock(seconds) == text
    assert short_clock(seconds) == (text if seconds < 3600 else "26h05")


def test_sizes() -> None:
    sizes = (0, 512, 999, 1000, 34_200, 999_900, 123_456_789, 1.234e9, 5e9, 7e15, None)
    assert [byte_size(size) for size in sizes] == [
        "0 B", "512 B", "999 B", "1 kB", "34.2 kB", "1 MB", "123 MB", "1.23 GB", "5 GB", "7,000 TB", "–"
    ]  # fmt: skip


def test_lists_and_long_texts() -> None:
    assert [listed([]), listed(["a"]), listed(["a", "b", "c"])] == ["", "a", "a, b and c"]
    assert listed(list("abcdef")) == "a, b, c and 3 others"
    assert (clipped("one  two\nthree", 20), clipped("abcdef", 4)) == ("one two three", "abc…")


def test_names_from_files_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31m\nb\t c") == "a�[31m b c"
    assert visible("a\x1bb\n  c\r") == "a�b\n  c�"
