"""Charts: one description, drawn on pages and in picture files in the colours of one palette."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.text import Text

from pointset.reports import palette
from pointset.reports.canvas import compose_chart
from pointset.reports.charts import Axis, Chart
from pointset.reports.learning_curves import Curve, curve_style, learning_curve
from pointset.reports.pictures import save_picture

HOSTILE = "<b>$x_1$</b> & more"


def everything(log: bool) -> Chart:
    """A chart with every kind of part."""
    values = [0.01, 0.2, np.nan, 5.0] if log else [1.0, 2.0, np.nan, 4.0]
    chart = Chart(Axis(0, 10, "epoch", whole=True), Axis.around([values], HOSTILE, may_be_log=log), "All of it")
    chart.density(np.linspace(0, 1, 6).reshape(2, 3), palette.BLUE)
    chart.bars([0, 1, 2, 3], [values[0], 0.0, values[3]], "c5")
    chart.line([0, 1, 2, 3], values, "c0", "a line")
    for style in ("c1 dashed thin", "c2 dotted pale", "reference"):
        chart.line([0, 10], [values[0], values[3]], style, HOSTILE)
    for style in ("c3", "c4 faint", "c5 large", "c6 large hollow", "c7 large cross"):
        chart.dots([5, 6, 7, 8], values, style, f"dots {style}")
    chart.spans([4.5, 5.5], [values[0], -np.inf], [values[3], np.nan], "c8 thin", "spans")
    chart.rug([1.5, 2.5])
    chart.ring(3, values[3], "best: 4", "c1")
    chart.ring(np.nan, 1.0, "nowhere")
    return chart


@pytest.mark.parametrize("log", [False, True])
def test_both_drawings_show_the_same_description(log: bool, tmp_path: Path) -> None:
    chart = everything(log)
    page = ElementTree.fromstring(chart.svg())
    figure = compose_chart(chart, 5.0, 3.0)
    on_page = {text.text for text in page.iter("text")}
    in_picture = {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible()}
    ticks = {text for axis in (chart.x, chart.y) for _, text in axis.ticks()}
    assert ticks | {"epoch", HOSTILE, "best: 4"} <= on_page & in_picture
    assert "nowhere" not in on_page | in_picture
    assert {label for label, _, _ in chart.legend} <= in_picture
    drawn = [line.get_xydata() for line in figure.axes[0].lines]
    assert np.array_equal(drawn[0], np.stack([chart.parts[2].x, chart.parts[2].y], axis=1), equal_nan=True)
    low, high = figure.axes[0].get_ylim()
    assert (low, high) == pytest.approx((chart.y.low, chart.y.high))
    for suffix in (".svg", ".png", ".pdf"):
        written = [tmp_path / f"{name}{suffix}" for name in "ab"]
        for path in written:
            save_picture(compose_chart(everything(log), 5.0, 3.0), path)
        assert written[0].read_bytes() == written[1].read_bytes()


def test_names_on_an_axis_are_all_there() -> None:
    names = [f"column {index}" for index in range(12)]
    chart = Chart(Axis.of_names(names), Axis(0, 1), "named")
    assert [text for _, text in chart.x.ticks()] == names
    labels = [text.get_text() for text in compose_chart(chart, 8.0, 3.0).axes[0].get_xticklabels()]
    assert labels == names


def test_a_learning_curve_has_a_line_for_each_run_and_a_label_for_each_style() -> None:
    runs = [Curve([1, 2, 3], [3.0, np.nan, 1.0], "c0", "a"), Curve([1, 2, 3], [2.0, 2.0, 0.05], "c0", "a", best=2)]
    chart = learning_curve([*runs, Curve.through([(2, 0.5)], "c1", "b")], "three runs", score="validation MAE")
    assert [label for label, _, _ in chart.legend] == ["a", "b"]
    assert [part.kind for part in chart.parts] == ["line", "line", "ring", "line", "ring"]  # one point is a ring
    assert chart.parts[0].x.tolist() == [1, 3]  # the epoch that was not validated is passed over
    assert chart.y.log and not learning_curve(runs, "scores", lower_is_better=False).y.log
    assert learning_curve([], "nothing").svg()
    assert len({curve_style(index) for index in range(30)}) == 30


def test_every_colour_of_pages_and_pictures_is_in_the_palette() -> None:
    folder = files("pointset.reports")
    sources = [folder / "style.css", *(folder / "templates").iterdir()]
    sources += [file for file in folder.iterdir() if file.name.endswith(".py") and file.name != "palette.py"]
    tables = files("pointset.paper.tables")
    sources += [file for file in tables.iterdir() if file.name.endswith(".py")]
    for file in sources:
        found = re.findall(r"(?<![&\w])#[0-9a-fA-F]{3,8}\b", file.read_text(encoding="utf-8"))
        assert [one for one in found if one not in ("#d9583b", "#1d2733")] == [], file.name  # these are in docstrings


def test_every_variable_of_the_style_sheet_is_set_for_light_and_dark_screens() -> None:
    folder = files("pointset.reports")
    used = set()
    for file in (folder / "style.css", *(folder / "templates").iterdir()):
        used |= set(re.findall(r"var\(--([\w-]+)\)", file.read_text(encoding="utf-8")))
    light, dark = palette.css_variables().split("@media")
    assert used <= set(re.findall(r"--([\w-]+):", light))
    coloured = {name for name, value in re.findall(r"--([\w-]+): (#\w+);", light)} - {"on-dark", "on-light"}
    assert coloured == set(re.findall(r"--([\w-]+): #", dark))
