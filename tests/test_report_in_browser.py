"""The report in a real browser: nothing fails, nothing is fetched, nothing is wider than a phone, and it prints."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pointset.reports.pages import write_comparison, write_report
from tests.run_records import BINARY, MULTI_CLASS, MULTI_LABEL, REGRESSION, make_chemists_run, make_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 90  # Chromium starts in about one; a machine under load takes longer
PHONE, DESK = 360, 1200

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

# Frames each page at each width, and writes down what it measures: how wide the page is, what it fetched, how large
# the smallest text of a chart is, and which parts reach over the edge outside of a frame that scrolls by itself.
_WRAPPER = """<!doctype html><meta charset="utf-8"><body><script>
const found = [];
const pages = %s;
function measure(frame, page, width) {
  const inside = frame.contentWindow, root = inside.document.documentElement;
  const scrolls = part => part.closest(".scroll, pre, svg") !== null;
  const wide = [...root.querySelectorAll("body *")].filter(
    part => !scrolls(part) && part.getBoundingClientRect().right > width + 0.5);
  const folded = part => part.closest("details:not([open])") !== null;
  const texts = [...root.querySelectorAll("svg.chart text")].filter(text => !folded(text)).map(
    text => text.getBoundingClientRect().height);
  found.push({page, width, scrollWidth: root.scrollWidth, wide: wide.map(part => part.outerHTML.slice(0, 80)),
    fetched: inside.performance.getEntriesByType("resource").map(one => one.name).filter(n => !n.startsWith("data:")),
    smallest: Math.min(...texts), headings: [...root.querySelectorAll("h1, h2")].length,
    background: inside.getComputedStyle(inside.document.body).backgroundColor});
  if (found.length === pages.length) {
    const out = document.createElement("pre"); out.id = "found"; out.textContent = JSON.stringify(found);
    document.body.appendChild(out);
  }
}
for (const [page, width] of pages) {
  const frame = document.createElement("iframe");
  frame.style = `border: 0; width: ${width}px; height: 900px`;
  frame.onload = () => measure(frame, page, width);
  frame.src = page;
  document.body.appendChild(frame);
}
</script>"""


def chromium(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it once, without a window, with an own profile and a time limit."""
    assert CHROMIUM is not None
    fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    own = [f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--v=0", "--hide-scrollbars"]
    command = [CHROMIUM, *fixed, *own, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)


def measured(folder: Path, pages: list[tuple[Path, int]], *arguments: str) -> tuple[list[dict[str, Any]], list[str]]:
    """What the wrapper found on each page, and the lines of the console."""
    wrapper = folder / "wrapper.html"
    wrapper.write_text(_WRAPPER % json.dumps([[page.as_uri(), width] for page, width in pages]), encoding="utf-8")
    wait = ("--virtual-time-budget=20000", "--allow-file-access-from-files", "--dump-dom")
    done = chromium(folder, *arguments, *wait, wrapper.as_uri())
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stdout[-2000:] + done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(unescape(match[1]))
    return found, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One of every kind, with long names and wide tables."""
    folder = tmp_path_factory.mktemp("reports")
    names = [f"a-very-long-name-of-a-target-{i}" for i in range(5)]
    expected = {"metric": "mae", "value": 0.5, "std": 0.02, "per_target": dict.fromkeys(names, 0.5)}
    expected["others"] = {f"another model {i}": dict.fromkeys(names, 0.1234) for i in range(6)}
    classes = [f"class number {i}" for i in range(21)]
    runs = [
        make_run(folder / "regression", targets=names, rows=2000, result={"expected": expected}, drawn=True),
        make_run(folder / "binary", BINARY, smiles=True, drawn=True),
        make_run(folder / "labels", MULTI_LABEL, targets=[f"label {i}" for i in range(10)]),
        make_chemists_run(folder / "logS", REGRESSION),
        make_chemists_run(folder / "active", BINARY, targets=["a-very-long-name-of-a-target"]),
        make_run(folder / "classes", MULTI_CLASS, classes=classes, level="node", recipe={"title": "x" * 300}),
    ]
    return [*map(write_report, runs), write_comparison(runs, folder / "comparison.html")]


def test_pages_fit_a_phone_and_a_desk_and_fetch_nothing(reports: list[Path], tmp_path: Path) -> None:
    found, console = measured(tmp_path, [(page, width) for page in reports for width in (PHONE, DESK)])
    assert console == []
    assert len(found) == 2 * len(reports)
    for one in found:
        assert (one["scrollWidth"], one["wide"]) == (one["width"], []), one["page"]
        assert one["fetched"] == []
        assert one["headings"] >= 4 or "comparison" in one["page"]
        assert one["smallest"] is None or one["smallest"] >= 9.5  # pixels, with ascenders: an 8 px letter can be read
        assert one["background"] == "rgb(255, 255, 255)"


def test_these_checks_would_find_a_bad_page(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    with socket.create_server(("127.0.0.1", 0)) as server:
        picture = f"http://127.0.0.1:{server.getsockname()[1]}/picture.png"
    page.write_text(f'<img src="{picture}"><p style="width: 700px">wide</p><script>console.error("no")</script>')
    (found,), console = measured(tmp_path, [(page, PHONE)])
    assert found["scrollWidth"] > PHONE and found["wide"]
    assert found["fetched"] == [picture]
    assert len(console) >= 1


def test_a_dark_screen_gets_a_dark_page(reports: list[Path], tmp_path: Path) -> None:
    (found,), console = measured(tmp_path, [(reports[0], PHONE)], "--blink-settings=preferredColorScheme=0")
    assert (found["background"], console) == ("rgb(18, 24, 31)", [])


def test_it_can_be_seen_and_printed(reports: list[Path], tmp_path: Path) -> None:
    picture, printed = tmp_path / "page.png", tmp_path / "page.pdf"
    chromium(tmp_path, f"--window-size={DESK},1600", f"--screenshot={picture}", reports[0].as_uri())
    with Image.open(picture) as image:
        inked = np.asarray(image.convert("L")) < 200
    assert 0.005 < inked.mean() < 0.5
    assert not inked[40:, :24].any() and not inked[40:, -24:].any()  # below the coloured bar the margins are empty
    chromium(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={printed}", reports[0].as_uri())
    content = printed.read_bytes()
    assert content.startswith(b"%PDF")
    pages = re.findall(rb"/MediaBox ?\[0 0 (\d+)[.\d]* (\d+)", content)
    assert 2 <= len(pages) <= 12
    assert set(pages) == {(b"594", b"841")}  # A4, in points
