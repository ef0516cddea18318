"""The report of a run: what it says for every kind of task, what it does with odd and damaged files, its numbers."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.metrics import average_precision_score, r2_score, roc_auc_score  # type: ignore[import-untyped]
from typer.testing import CliRunner

from pointset.cli import report as report_command
from pointset.errors import FileFormatError, MissingExtraError
from pointset.reports import pages
from pointset.reports.charts import Axis
from pointset.reports.pages import write_comparison, write_report
from pointset.reports.prediction_charts import agreement, confusion, detection
from pointset.reports.scores import beside_baseline
from pointset.reports.svg import picture_of
from pointset.reports.uncertainty import coverages, row_errors, wilson
from pointset.reports.verdict import verdict_on
from pointset.runs.recipe import Expected
from pointset.runs.records import Predictions, read_run
from pointset.runs.result import RunResult
from tests.run_records import (
    BINARY,
    MULTI_CLASS,
    MULTI_LABEL,
    REGRESSION,
    TASKS,
    make_chemists_run,
    make_run,
    make_several,
    write_csv,
    write_json,
)

HOSTILE = "<script>alert(1)</script>\"'&"
EXPECTED: dict[str, Any] = {"metric": "mae", "value": 0.5, "std": 0.02, "seeds": 10, "table": "Table 4"}


ON_EVERY_PAGE = ("How it learned", "Where it is most wrong", "eigenvalue functions", "Attention", "The recipe")
CHARTS = {
    "regression": ("Predicted against true", "Errors", "R²"),
    "binary": ("ROC curve", "Precision and recall", "Confusion matrix", "guessing would give"),
    "labels": ("ROC curve", "mean over 3 labels", "label 2"),
    "classes": ("Confusion matrix", "distinguish 3 classes of graphs", "precision", "middle"),
}


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.parts: list[str] = []
        self._in_style = False
        self.feed(self.source)
        self.text = " ".join(" ".join(self.parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def values_of(self, *names: str) -> list[str]:
        return [value for name, value in self.attributes if name in names]


def any_task(folder: Path, kind: str, **options: Any) -> Path:
    targets = [f"label {i}" for i in range(3)] if kind == "labels" else ["y"]
    return make_run(
        folder, TASKS[kind], targets=targets, classes=["low", "middle", "high"] if kind == "classes" else [], **options
    )


@pytest.mark.parametrize("kind", TASKS)
def test_every_task_gives_a_whole_page_with_its_charts_that_fetches_nothing(kind: str, tmp_path: Path) -> None:
    run = any_task(tmp_path / "run", kind, drawn=True)
    path = write_report(run)
    assert path == run / "report.html"
    page = Page(path)
    assert [words for words in (*ON_EVERY_PAGE, *CHARTS[kind]) if words not in page.text] == []
    assert "The test split was scored once" in page.text
    assert f"pointset train {run}/recipe.yaml --run-dir {run}-again" in page.text
    assert f"pointset predict {run} graphs.graphml -o out.csv" in page.text
    assert not {"script", "link", "iframe", "img"} & set(page.tags) - {"link"}
    assert all(value.startswith("data:") for value in page.values_of("href", "src"))
    ids = page.values_of("id")
    assert len(ids) == len(set(ids))
    assert set(page.values_of("aria-labelledby")) <= set(ids)
    assert len(re.findall(r'<svg class="\w+" viewBox="[^"]+" role="img" aria-label="[^"]+"', page.source)) > 6
    assert len(path.read_bytes()) < 400_000
    assert sorted(item.name for item in run.iterdir() if item.name.startswith(".")) == []


def test_the_same_run_gives_the_same_file(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", smiles=True, drawn=True)
    first, second = write_report(run, tmp_path / "1.html"), write_report(run, tmp_path / "2.html")
    assert first.read_bytes() == second.read_bytes()
    assert "input.csv -o out.csv" in Page(first).text


@pytest.mark.parametrize("kind", TASKS)
def test_names_cannot_become_markup(kind: str, tmp_path: Path) -> None:
    targets = [HOSTILE, f"b{HOSTILE}"][: 2 if kind in ("regression", "labels") else 1]
    classes = [HOSTILE, f"other {HOSTILE}"] if kind == "classes" else []
    run = make_run(
        tmp_path / "run", TASKS[kind], targets=targets, classes=classes, recipe={"name": HOSTILE}, drawn=True
    )
    result = json.loads((run / "result.json").read_text())
    expected = {"metric": result["metric"], "value": 0.5, "table": HOSTILE, "note": HOSTILE, "others": {HOSTILE: {}}}
    expected["per_target"] = dict.fromkeys(targets, 0.5)
    hostile = {"title": HOSTILE, "dataset": {"title": HOSTILE}, "units": dict.fromkeys(targets, HOSTILE)}
    write_json(run / "result.json", result | hostile | {"expected": expected, "test_scored": HOSTILE})
    examples = json.loads((run / "examples.json").read_text())
    for graph in [*(worst["graph"] for worst in examples["worst"]), examples["attention"]["graph"]]:
        graph |= {"name": HOSTILE, "smiles": HOSTILE, "labels": [HOSTILE] * graph["num_nodes"]}
    write_json(run / "examples.json", examples)
    write_json(run / "environment.json", {HOSTILE: HOSTILE, "command": [HOSTILE]})
    page = Page(write_report(run))
    assert "script" not in page.tags
    assert "<script" not in page.source
    assert HOSTILE in page.text
    assert not {name for name, _ in page.attributes if name.startswith("on")}
    comparison = Page(write_comparison([run, run], tmp_path / "comparison.html"))
    assert "script" not in comparison.tags and HOSTILE in comparison.text


@pytest.mark.parametrize(
    ("ours", "metric", "word", "beginning"),
    [
        (0.40, "mae", "better", "Better than the paper's 0.5 ± 0.02 by 0.1 (20.0 %). That is 5 times"),
        (0.60, "mae", "worse", "Worse than the paper's 0.5 ± 0.02 by 0.1 (20.0 %)."),
        (1.60, "mae", "worse", "Worse than the paper's 0.5 ± 0.02 by 1.1 (3.2 times as large)."),
        (0.515, "mae", "level", "Level with the paper's 0.5 ± 0.02: the difference of 0.015 is within its spread."),
        (0.60, "roc_auc", "better", "Better than the paper's 0.5 ± 0.02 by 0.1"),
        (0.40, "accuracy", "worse", "Worse than the paper's 0.5 ± 0.02 by 0.1"),
        (0.50, "mae", "level", "The same as the paper's 0.5 ± 0.02."),
    ],
)
def test_the_result_beside_the_papers_in_words(ours: float, metric: str, word: str, beginning: str) -> None:
    verdict = verdict_on(ours, None, 1, Expected.model_validate(EXPECTED | {"metric": metric}))
    assert verdict is not None
    assert (verdict.word, verdict.sentence[: len(beginning)]) == (word, beginning)
    assert "one run with one seed; the paper's value is the mean of 10 seeds" in verdict.notes[0]
    assert verdict_on(math.nan, None, 1, Expected.model_validate(EXPECTED)) is None


def test_one_fold_is_not_called_one_seed() -> None:
    verdict = verdict_on(0.6, None, 1, Expected.model_validate(EXPECTED), one_fold=True)
    assert verdict is not None
    assert verdict.notes == ["This is one fold of a cross-validation; the paper's value is the mean over all folds."]


def test_what_makes_the_comparison_unfair_is_said(tmp_path: Path) -> None:
    expected = EXPECTED | {"parameters": 472_000, "note": "Trained for longer."}
    run = make_run(tmp_path / "run", result={"expected": expected, "test": {"mae": 0.7}})
    command = ["pointset", "train", "example", "model.dim=32", "seed=3", "--run-dir", "a=b", "trainer.epochs=40"]
    write_json(run / "environment.json", {"command": command})
    text = Page(write_report(run)).text
    assert "Worse than the paper's 0.5 ± 0.02 by 0.2 (40.0 %)" in text
    assert "Table 4 of the paper." in text and "Trained for longer." in text
    assert "changed on the command line: model.dim=32, trainer.epochs=40." in text
    assert "smaller than the paper's: 123,456 parameters; the paper's has 472,000" in text


def test_substructures_that_are_counted_are_marked(tmp_path: Path) -> None:
    scores = {"3-cycle": 0.010, "4-cycle": 0.0101, "5-cycle": None}
    expected = {"metric": "normalised_mae", "value": 0.003, "per_target": {"3-cycle": 0.002}, "table": "Table 1"}
    expected["others"] = {"MPNN": {"3-cycle": 0.3515}}
    result = {
        "metric": "normalised_mae", "test": {"normalised_mae": 0.01005}, "expected": expected,
        "per_target": {name: {"normalised_mae": value} for name, value in scores.items()},
    }  # fmt: skip
    page = Page(write_report(make_run(tmp_path / "run", targets=list(scores), level="node", result=result)))
    assert "1 of 3 are counted: a model counts a substructure where its normalised MAE is at most 0.010" in page.text
    assert page.source.count('class="pill"') == 1
    assert "target normalised MAE verdict paper MPNN 3-cycle 0.01 counts 0.002 0.3515 4-cycle 0.0101" in page.text


def test_a_run_that_still_trains_has_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", epochs=12, recipe={"trainer": {"epochs": 50, "batch_size": 64}})
    for name in ("result.json", "predictions.csv", "environment.json"):
        (run / name).unlink()
    page = Page(write_report(run))
    assert "12 of 50 epochs are done, and the test split is unseen" in page.text
    assert "This run has not finished" in page.text
    assert f"pointset train {run}/recipe.yaml --run-dir {run} --resume" in page.text
    assert "Validation" in page.text and "Predicted against true" not in page.text
    (run / "metrics.csv").unlink()
    assert "0 of 50 epochs" in Page(write_report(run)).text


def test_a_run_without_test_and_validation_parts_says_so(tmp_path: Path) -> None:
    result = {"test": {}, "val": {}, "per_target": {}, "test_scored": "there is no test part"}
    text = Page(write_report(make_run(tmp_path / "run", result=result))).text
    assert "There is no test score: no graphs were held back to test on." in text
    assert "The weights of the last epoch were kept, as there is no validation split." in text
    assert "was scored" not in text


def test_pieces_that_are_missing_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "predictions.csv").unlink()
    write_json(run / "examples.json", {"functions": None, "attention": None, "worst": []})
    text = Page(write_report(run)).text
    for words in ("Attention", "eigenvalue functions", "most wrong", "Predicted against true", "paper"):
        assert words not in text
    assert "How it learned" in text


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("recipe.yaml", b"a: [1,\n"),
        ("recipe.yaml", b"- a list\n"),
        ("recipe.yaml", b"model: {layers: many}\n"),
        ("recipe.yaml", b"\xff\xfe\x00"),
        ("result.json", b'{"task": "regression"'),
        ("result.json", b"[]"),
        ("result.json", b'{"task": "regression"}'),
        ("result.json", b'{"runs": ["../elsewhere"]}'),
        ("result.json", b"[" * 100_000),
        ("environment.json", b'"text"'),
        ("examples.json", b'{"functions": {"channels": [1], "eigenvalues": [1, 2], "values": [[1]]}}'),
        ("examples.json", b'{"attention": {"graph": {"num_nodes": 2}, "layers": [[[1]]], "node": 0}}'),
        ("examples.json", b'{"attention": {"graph": {"num_nodes": 1}, "layers": [[[1]]], "node": 5}}'),
        ("examples.json", b'{"worst": [{"graph": {"num_nodes": 2, "edges": [[0, 2]]}}]}'),
        ("examples.json", b'{"worst": [{"graph": {"num_nodes": 2, "labels": ["C"]}}]}'),
        ("metrics.csv", b""),
        ("metrics.csv", b"epoch,lr\n1,0.1,7\n"),
        ("metrics.csv", b"epoch,lr\n1,fast\n"),
        ("metrics.csv", b"epoch,epoch\n1,1\n"),
        ("predictions.csv", b"graph,y\n1,2\n"),
        ("predictions.csv", b"graph,y,predicted_y\n0,1,high\n"),
        ("predictions.csv", b"\xff\xfe"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_damaged_file_is_named_and_the_old_report_stays(file: str, content: bytes, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "report.html").write_text("old")
    (run / file).write_bytes(content)
    with pytest.raises(FileFormatError, match=re.escape(file)):
        write_report(run)
    assert (run / "report.html").read_text() == "old"


def test_a_run_of_another_version_has_a_page_too(tmp_path: Path) -> None:
    model = {"preset": "pst", "dim": 32, "layers": 4, "pooling": "mean", "of_tomorrow": 3}
    run = make_run(
        tmp_path / "run", recipe={"model": model, "also_new": {"a": 1}, "dataset": {"name": "not known here"}}
    )
    assert "4 layers of 32 channels" in Page(write_report(run)).text
    assert read_run(run).recipe.dataset.name == "not known here"


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"is not a run folder: there is no recipe\.yaml"):
        write_report(tmp_path)
    with pytest.raises(FileFormatError, match="there is no run to compare"):
        write_comparison([], tmp_path / "page.html")


def test_without_jinja2_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pointset\[report\]'"):
        write_report(make_run(tmp_path / "run"))


def test_odd_numbers_do_not_stop_a_report(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", targets=["a", "b"], result={"test": {"mae": None}, "val": {}, "seconds": None})
    write_csv(run / "metrics.csv", ["epoch", "lr", "train_loss", "val_mae"], [[1, 0.0, math.nan, math.nan]])
    rows = [[0, math.nan, 5.0, math.nan, math.nan], [1, 2.0, 5.0, math.nan, 5.0], [2, 1e300, 5.0, -1e300, 5.0]]
    write_csv(run / "predictions.csv", ["graph", "a", "b", "predicted_a", "predicted_b"], rows)
    layers = [[[None, 0.0], [0.0, 0.0]]]
    graph = {"num_nodes": 2, "edges": [[0, 0], [0, 1]]}
    functions: dict[str, Any] = {"channels": [], "eigenvalues": [], "values": []}
    worst = [{"graph": {"num_nodes": nodes}} for nodes in (0, 1, 301)]
    write_json(
        run / "examples.json", {"functions": functions, "attention": {"graph": graph, "layers": layers}, "worst": worst}
    )
    page = Page(write_report(run))
    assert "no nodes" in page.text and "301 nodes: too many to draw" in page.text
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+", "", page.source.lower()).split("<body>")[1]
    assert "2 of 3 rows have a value" in page.text


def test_one_hundred_thousand_rows_stay_small(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", targets=["a", "b"], rows=100_000, level="node", epochs=5000)
    path = write_report(run)
    assert path.stat().st_size < 700_000
    text = Page(path).text
    assert "100,000 rows" in text and "The darker, the more rows lie there" in text


def test_more_targets_than_fit_are_said(tmp_path: Path) -> None:
    many = make_run(tmp_path / "many", targets=[f"t{i}" for i in range(15)], rows=20)
    assert "The first 13 of 15 targets are drawn" in Page(write_report(many)).text
    labels = make_run(tmp_path / "labels", MULTI_LABEL, targets=[f"t{i}" for i in range(12)], rows=40)
    assert "The first 10 of 12 labels are drawn" in Page(write_report(labels)).text
    classes = make_run(tmp_path / "classes", MULTI_CLASS, classes=[f"c{i}" for i in range(30)], rows=300)
    assert "The 25 most frequent classes are shown" in Page(write_report(classes)).text


# --- comparison ---


def test_seeds_have_a_mean_and_a_deviation(tmp_path: Path) -> None:
    folder = make_several(tmp_path / "seeds", range(3), rows=50)
    for seed, value in enumerate((0.4, 0.5, 0.6)):
        path = folder / f"seed-{seed}" / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"test": {"mae": value}, "expected": EXPECTED}))
    path = write_report(folder)
    assert path == folder / "report.html"
    text = Page(path).text
    assert "3 runs of one recipe, which differ in seed. Their test MAE is 0.5 ± 0.1" in text
    assert "The same as the paper's 0.5 ± 0.02." in text
    assert "Mean of 3 runs here, of 10 in the paper." in text
    assert "seeds/seed-1 1 0.5" in text


def test_only_differing_settings_are_shown_and_the_best_is_named(tmp_path: Path) -> None:
    model = {"preset": "psds", "dim": 16, "layers": 4, "pooling": "mean"}
    one = make_run(tmp_path / "one", result={"test": {"mae": 0.30}})
    two = make_run(tmp_path / "two", result={"test": {"mae": 0.20}}, recipe={"model": model, "name": "deepset"})
    page = Page(write_comparison([one, two], tmp_path / "comparison.html"))
    assert "2 runs of 2 recipes. deepset has the best test MAE: 0.2." in page.text
    assert "run model.preset model.dim test MAE best epoch parameters time" in page.text
    assert re.search(r"/one pst 32 0\.3 .*/two psds 16 0\.2 ", page.text)
    assert "trainer.batch_size" not in page.text


def test_runs_of_one_name_are_told_apart_by_their_settings(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / f"run-{batch}", recipe={"trainer": {"epochs": 40, "batch_size": batch}})
        for batch in (8, 16)
    ]
    text = Page(write_comparison(runs, tmp_path / "comparison.html")).text
    assert "example, trainer.batch_size=16" in text


def test_runs_of_different_metrics_are_not_ranked(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", BINARY, recipe={"name": "other"})]
    text = Page(write_comparison(runs, tmp_path / "comparison.html")).text
    assert "scored by different metrics, so no order is given" in text
    assert "ROC-AUC 0.913" in text


def test_runs_with_other_test_graphs_are_not_ranked(tmp_path: Path) -> None:
    by_scaffold = {"name": "something", "fold": None, "options": {"split": "scaffold"}}
    plain = make_run(tmp_path / "a", recipe={"dataset": {"name": "something", "fold": None, "options": {}}})
    other = make_run(tmp_path / "b", recipe={"name": "other", "dataset": by_scaffold})
    text = Page(write_comparison([plain, other], tmp_path / "comparison.html")).text
    assert "tested on different graphs (dataset.options.split), so no order is given" in text
    assert "best test" not in text
    assert "run dataset.options.split test" in text  # and not dataset.options={} beside it
    assert "recipe runs test MAE parameters" in text  # without an empty column for the paper


def test_a_folder_of_unfinished_runs_is_a_comparison_too(tmp_path: Path) -> None:
    for seed in (2, 10):
        make_run(tmp_path / "runs" / f"seed-{seed}", seed=seed, rows=30)
    (tmp_path / "runs" / "seed-10" / "result.json").unlink()
    text = Page(write_report(tmp_path / "runs")).text
    assert "Not finished yet: 1 run." in text
    assert text.index("runs/seed-2") < text.index("runs/seed-10")


def test_targets_of_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    folder = make_several(tmp_path / "seeds", range(2), rows=20, targets=["a", "b"])
    for seed, value in enumerate((0.4, 0.6)):
        path = folder / f"seed-{seed}" / "result.json"
        scores = {"per_target": {"a": {"mae": value}, "b": {"mae": 1.0}}}
        path.write_text(json.dumps(json.loads(path.read_text()) | scores))
    assert "a 0.5 ± 0.14 b 1 ± 0" in Page(write_report(folder)).text


# --- the command ---


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer(rich_markup_mode="rich")
    app.command(epilog=report_command.EXAMPLES)(report_command.report)
    return app


def test_the_command_prints_the_path(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("one"), rows=30)
    shutil.copytree("one", "two")
    done = CliRunner().invoke(app, ["one"])
    assert (done.exit_code, done.stdout) == (0, "one/report.html\n")
    done = CliRunner().invoke(app, ["one", "two"])
    assert (done.exit_code, done.stdout) == (0, "comparison.html\n")
    done = CliRunner().invoke(app, ["one", "-o", "page.html"])
    assert (done.exit_code, Path("page.html").exists()) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 2, "does not exist"),
        (["."], 1, "is not a run folder"),
        (["one", "-o", "page.pdf"], 2, "ends in .html"),
        (["one", "-o", "missing/page.html"], 2, "no folder missing"),
        (["damaged"], 1, "result.json is damaged"),
    ],
    ids=["no folder", "no run", "not html", "no folder for it", "damaged"],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], code: int, message: str, app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    if arguments != ["."]:
        for name in ("one", "damaged"):
            make_run(Path(name), rows=5)
    if Path("damaged").exists():
        Path("damaged/result.json").write_text("{")
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code
    assert message in " ".join(done.output.replace("│", " ").split())


def test_help_teaches(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert "pointset report runs/pst runs/psds" in done.output and "needs no network" in done.output


# --- numbers ---


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=60))
def test_curves_agree_with_scikit_learn(rows: list[tuple[bool, int]]) -> None:
    true = np.array([float(answer) for answer, _ in rows])
    probability = np.array([score / 6 for _, score in rows])
    found = detection(true, probability)
    assert found.positives == int(true.sum()) and found.positives + found.negatives == len(rows)
    if 0 < true.sum() < len(rows):
        assert found.roc_auc == pytest.approx(roc_auc_score(true, probability))
    if true.sum():
        assert found.average_precision == pytest.approx(average_precision_score(true, probability))
        assert (found.recall[0], found.recall[-1]) == (0, 1)
    else:
        assert math.isnan(found.average_precision)


def test_a_label_without_any_known_answer_has_curves_of_equal_length() -> None:
    found = detection(np.full(3, np.nan), np.array([0.1, 0.5, 0.9]))
    assert len(found.recall) == len(found.precision) == len(found.false_positive_rate) == 1
    assert math.isnan(found.roc_auc) and math.isnan(found.average_precision)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=40))
def test_agreement_agrees_with_scikit_learn(rows: list[tuple[float, float]]) -> None:
    true, predicted = np.array(rows).T
    found = agreement(np.append(true, np.nan), np.append(predicted, 1.0))
    assert found.mae == pytest.approx(float(np.abs(true - predicted).mean()))
    if np.ptp(true) > 1e-3:
        assert found.r2 == pytest.approx(r2_score(true, predicted), rel=1e-6, abs=1e-6)


def test_confusion_counts_by_hand() -> None:
    true = ["a", "a", "b", "", "c", "b"]
    predicted = ["a", "b", "b", "a", "new", "b"]
    names, counts = confusion(true, predicted, ["b", "a", "c"], most=10)
    assert names == ["b", "a", "c", "new"]
    assert counts.tolist() == [[2, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert confusion(true, predicted, ["b", "a", "c"], most=2)[0] == ["b", "a"]


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.booleans())
def test_ticks_are_few_and_inside(low: float, width: float, log: bool) -> None:
    axis = Axis.around(
        [[abs(low) + 1e-6, (abs(low) + 1e-6) * (1 + width)] if log else [low, low + width]], may_be_log=log
    )
    values = [value for value, _ in axis.ticks()]
    slack = 1e-6 * (axis.high - axis.low)
    assert 1 <= len(values) <= 8
    assert all(axis.low - slack <= value <= axis.high + slack for value in values)
    assert values == sorted(values)
    assert len({text for _, text in axis.ticks()}) >= min(len(values), 1)


def test_a_matrix_becomes_a_picture_of_its_numbers() -> None:
    address = picture_of(np.array([[0.0, 1.0, 0.5], [math.nan, 2.0, -1.0]]), "#d9583b")
    with Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/png;base64,")))) as image:
        pixels = np.asarray(image.convert("RGBA"))
    assert pixels[..., 3].tolist() == [[0, 255, 128], [0, 255, 0]]
    assert pixels[0, 1, :3].tolist() == [0xD9, 0x58, 0x3B]


def test_a_record_keeps_what_the_files_say(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", REGRESSION, targets=["a"], rows=7, smiles=True))
    assert run.predictions is not None and run.result is not None
    assert (run.predictions.rows, run.predictions.has_smiles, run.metric) == (7, True, "mae")
    true, predicted = run.predictions.numbers["a"]
    assert float(np.abs(true - predicted).mean()) == pytest.approx(run.result.test["mae"], abs=1e-5)


def test_epochs_without_validation_do_not_break_the_curve(tmp_path: Path) -> None:
    make_run(tmp_path / "run", epochs=40)
    path = tmp_path / "run" / "metrics.csv"
    header, *rows = path.read_text().splitlines()
    at = header.split(",").index("val_mae")
    for number_of_row, row in enumerate(rows):
        cells = row.split(",")
        cells[at] = cells[at] if number_of_row % 10 == 9 else ""
        rows[number_of_row] = ",".join(cells)
    path.write_text("\n".join([header, *rows]) + "\n")
    lines = re.findall(r'd="(M[^"]*)"', Page(write_report(tmp_path / "run")).source)
    of_validation = [line for line in lines if line.count("L") == 3 and line.count("M") == 1]
    assert of_validation  # one line through the four epochs that were validated


# --- the page for chemists: molecules of an own table


def chemists_run(folder: Path, kind: str) -> Path:
    targets = ["tox a", "tox b"] if kind == "labels" else ["logS"]
    return make_chemists_run(
        folder, TASKS[kind], targets=targets, classes=["low", "middle", "high"] if kind == "classes" else []
    )


@pytest.mark.parametrize("kind", TASKS)
def test_the_page_for_chemists_begins_with_what_they_ask(kind: str, tmp_path: Path) -> None:
    page = Page(write_report(chemists_run(tmp_path / "run", kind)))
    title = "tox a and tox b of delaney.csv" if kind == "labels" else "logS of delaney.csv"
    assert f"<h1>{title}</h1>" in page.source
    for words in (
        "On 120 test molecules it has never seen",
        "delaney.csv: 1,200 molecules, 960 to learn from, 120 to choose the epoch and 120 to test.",
        "3 rows cannot be used and were left out",
        "2 molecules occur twice with different values: the mean was taken.",
        "Of the 960 molecules to train, 600 were scored.",
        "a random forest on Morgan fingerprints",
        "Error by similarity",
        "Calibration",
    ):
        assert words in page.text, words
    headings = re.findall(r"<h2[^>]*>([^<]+)</h2>", page.source)
    assert headings[:2] == ["What it learned from", "How good it is"] and headings[-1] == "For researchers"
    assert '<details class="researchers">' in page.source  # folded
    assert "4.12 = 2.5 for average atoms, +0.6 by these, +1 by the molecule as a whole" in page.text
    assert "Typical ones" in page.text and "molecule 17" in page.text
    assert page.source.count('class="molecule"') == 7 and 'class="graph"' not in page.source.split("<details class")[0]
    assert 'class="scale"' in page.source and "red raises it" in page.text


def test_numbers_have_intervals_and_coverage(tmp_path: Path) -> None:
    run = chemists_run(tmp_path / "run", "regression")
    page = Page(write_report(run))
    found = read_run(run).predictions
    assert found is not None
    ((true, _), (lower, upper)) = found.numbers["logS"], found.intervals["logS"]
    inside = int(((true >= lower) & (true <= upper)).sum())
    assert f"The 90 % intervals hold the true value in {inside} of 120 cases" in page.text
    for words in ("Predicted against measured", "Coverage by similarity", "Strokes are 90 % intervals", "88.3 %"):
        assert words in page.text
    assert found.similarity is not None and "inside the domain outside mean" in page.text
    outside = int((np.asarray(found.similarity) < 0.25).sum())
    assert f"{120 - outside} of 120 test molecules are like those that the model learned from" in page.text


def test_graphs_that_are_no_molecules_are_for_researchers(tmp_path: Path) -> None:
    page = Page(write_report(make_run(tmp_path / "run", drawn=True)))
    assert '<details class="researchers" open>' in page.source and "molecule" not in page.text
    assert "<h1>An example</h1>" in page.source and "How far to trust it" not in page.text


@pytest.mark.parametrize(
    ("forest", "interval", "word", "said"),
    [
        (0.70, (0.5, 0.8), "level", "level with it: MAE 0.7 eV lies inside"),
        (0.45, (0.5, 0.8), "worse", "does better here: MAE 0.45 eV"),
        (0.90, (0.5, 0.8), "better", "does worse: MAE 0.9 eV"),
        (0.59, None, "worse", "does better here"),
    ],
)
def test_a_better_forest_is_admitted(forest: float, interval: tuple[float, float] | None, word: str, said: str) -> None:
    parts = {} if interval is None else {"test": {"mae": {"value": 0.6, "lower": interval[0], "upper": interval[1]}}}
    baselines = {"ecfp forest": {"test": {"mae": forest}}, "mean": {"test": {"mae": 2.0}}}
    values = {"task": REGRESSION, "metric": "mae", "higher_is_better": False, "test": {"mae": 0.6}}
    result = RunResult.model_validate(values | {"parts": parts, "baselines": baselines, "units": {"gap": "eV"}})
    found = beside_baseline(result)
    assert found is not None and found.word == word and said in found.sentence
    assert "random forest on Morgan fingerprints" in found.sentence
    assert "no better than always predicting the mean" not in found.sentence
    bare = RunResult.model_validate(values | {"baselines": {"mean": {"test": {}}}})
    assert beside_baseline(bare) is None


@pytest.mark.parametrize(
    ("mean", "said"), [(0.55, "no better"), (0.6, "no better"), (0.65, "not clearly better"), (0.85, "")]
)
def test_a_model_that_is_no_better_than_the_mean_is_called_so(mean: float, said: str) -> None:
    values = {"task": REGRESSION, "metric": "mae", "higher_is_better": False, "test": {"mae": 0.6}}
    parts = {"test": {"mae": {"value": 0.6, "lower": 0.5, "upper": 0.8}}}
    baselines = {"ecfp forest": {"test": {"mae": 0.4}}, "mean": {"test": {"mae": mean}}}
    found = beside_baseline(RunResult.model_validate(values | {"parts": parts, "baselines": baselines}))
    assert found is not None
    assert (f"The model is {said} than always predicting the mean" in found.sentence) == bool(said)
    assert ("predicting the mean" in found.sentence) == bool(said)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize(
    "missing",
    [
        ("lower_logS",), ("lower_logS", "upper_logS"), ("std_logS",), ("similarity",), ("in_domain",),
        ("lower_logS", "upper_logS", "std_logS", "similarity", "in_domain"),
    ],
    ids=lambda missing: "-".join(missing),
)  # fmt: skip
def test_whatever_is_missing_only_its_charts_are_left_out(kind: str, missing: tuple[str, ...], tmp_path: Path) -> None:
    run = chemists_run(tmp_path / "run", kind)
    with (run / "predictions.csv").open(newline="") as file:
        header, *rows = list(csv.reader(file))
    kept = [index for index, name in enumerate(header) if name not in missing]
    write_csv(run / "predictions.csv", [header[i] for i in kept], [[row[i] for i in kept] for row in rows])
    page = Page(write_report(run))
    assert ("Error by similarity" in page.text) == ("similarity" not in missing)
    for key in ("parts", "part_graphs", "baselines", "calibration", "domain", "warnings", "left_out"):
        result = json.loads((run / "result.json").read_text())
        del result[key]
        write_json(run / "result.json", result)
    text = Page(write_report(run)).text
    assert "forest" not in text and "How it learned" in text


def test_the_members_of_an_ensemble_are_scored_alone_and_together(tmp_path: Path) -> None:
    members = [{"name": f"seed {at}", "test": {"mae": value}} for at, value in enumerate((0.66, 0.61, 0.63))]
    run = make_run(tmp_path / "run", result={"members": members, "test": {"mae": 0.58}, "best_epoch": None})
    text = Page(write_report(run)).text
    assert "An ensemble of 3 members: alone their test MAE is 0.61 to 0.66, together 0.58." in text
    assert "123,456 parameters in all" in text


def test_molecules_cannot_become_markup(tmp_path: Path) -> None:
    run = make_chemists_run(tmp_path / "run", targets=[HOSTILE], recipe={"dataset": {"file": f"x/{HOSTILE}.csv"}})
    result = json.loads((run / "result.json").read_text())
    baselines = {HOSTILE: {"test": {"mae": 0.1}}}
    write_json(run / "result.json", result | {"warnings": [HOSTILE], "baselines": baselines})
    examples = json.loads((run / "examples.json").read_text())
    for one in examples["worst"]:
        one["graph"] |= {"smiles": HOSTILE, "name": HOSTILE}
    write_json(run / "examples.json", examples)
    page = Page(write_report(run))
    assert "script" not in page.tags and "<script" not in page.source and HOSTILE in page.text
    assert 'class="graph"' in page.source.split("<details class")[0]  # RDKit cannot read it: the plain graph is drawn


def test_infinite_intervals_and_unknown_similarity_do_not_stop_a_report(tmp_path: Path) -> None:
    run = chemists_run(tmp_path / "run", "regression")
    header = ["graph", "smiles", "logS", "predicted_logS", "lower_logS", "upper_logS", "std_logS"]
    rows = [[at, "CCO", float(at), at + 0.1, -math.inf, math.inf, math.nan, math.nan, ""] for at in range(9)]
    write_csv(run / "predictions.csv", [*header, "similarity", "in_domain"], rows)
    page = Page(write_report(run))
    assert "hold the true value in 9 of 9 cases" in page.text and "Error by similarity" not in page.text
    assert "inf" not in re.sub(r"[a-z]*inf[a-z]+", "", page.source.lower()).split("<body>")[1]


def test_coverage_of_errors_of_known_size() -> None:
    """Errors of 0, 1 and 3 standard deviations: 68 % hold the first two, 99.9 % all."""
    true, predicted, std = np.zeros(3), np.array([0.0, 2.0, 3.0]), np.array([1.0, 2.0, 1.0])
    assert coverages(true, predicted, std, np.array([0.1, 0.69, 0.999])).tolist() == [1 / 3, 2 / 3, 1.0]
    low, high = wilson(np.array([0.5, 1.0]), np.array([10.0, 10.0]))
    assert low == pytest.approx([0.2366, 0.7225], abs=1e-4) and high == pytest.approx([0.7634, 1.0], abs=1e-4)


def test_errors_of_rows() -> None:
    base = {"metric": "mae", "higher_is_better": False, "test": {}}
    numbers = {
        "a": (np.array([0.0, 2.0]), np.array([1.0, math.nan])),
        "b": (np.array([4.0, 0.0]), np.array([4.0, 1.0])),
    }
    both = row_errors(Predictions(2, True, numbers), RunResult.model_validate(base | {"task": REGRESSION}))
    assert both.tolist() == [0.5, 0.5]  # 1 of spread 1 and 0; 1 of spread 2
    labels = row_errors(Predictions(2, True, numbers), RunResult.model_validate(base | {"task": MULTI_LABEL}))
    assert labels.tolist() == [0.5, 1.0]
    classes = Predictions(3, True, classes={"c": (["x", "y", ""], ["x", "x", "x"])})
    wrong = row_errors(classes, RunResult.model_validate(base | {"task": MULTI_CLASS}))
    assert wrong[:2].tolist() == [0.0, 1.0] and math.isnan(wrong[2])
