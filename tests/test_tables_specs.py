"""The tables that are shipped: their numbers are the paper's, and every run of every budget can be begun."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml
from typer.testing import CliRunner

from pointset.cli import reproduce as reproduce_cli
from pointset.datasets.loading import benchmark_named
from pointset.errors import PointsetError, SpecError
from pointset.paper.comparison import with_model
from pointset.paper.tables import plan as planning
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.plan import Selection, card_of, parameters_of, plan_table
from pointset.paper.tables.result import Budget
from pointset.paper.tables.sheet import BUDGETS
from pointset.paper.tables.spec import PrintedRow, TableSpec, printed_cell, table_named, table_names
from pointset.registry import is_baseline
from pointset.runs.recipe import Recipe, check_ready, check_schedule
from pointset.runs.recipe_files import flattened, read_recipe, recipe_names
from pointset.training.scoring import check_metric

ISSUE = {
    "counting",
    "qm9",
    "zinc",
    "zinc-ablation",
    "zinc-full",
    "molhiv",
    "long-range",
    "tu",
    "ablation",
    "scalability",
    "parameters",
}
app = typer.Typer()
app.command()(reproduce_cli.reproduce)


CPU_GRAPHS = {"qm9": 50_000, "ablation": 10_000}  # the others train on all graphs there
WITH_HOURS = {"counting", "qm9", "zinc", "molhiv", "tu", "long-range"}
BUDGETS_OF = {name: {"small", "cpu", "hours", "full"} for name in WITH_HOURS} | {
    "zinc-ablation": {"small", "cpu", "hours"}
}


def invoke(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


# --- every run can be begun


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the search for a width, which takes most of a plan's time and is tested by itself."""

    def as_wide(recipe: Recipe, model: str, parameters: int, card: object) -> Recipe:
        return with_model(recipe, model)

    monkeypatch.setattr(planning, "matched", as_wide)
    monkeypatch.setattr(planning, "parameters_of", lambda recipe, data_dir: 1)


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("name", sorted(ISSUE))
def test_every_recipe_and_setting_exists_and_its_command_says_it_all(name: str) -> None:
    spec = table_named(name)
    assert set(spec.budgets) == BUDGETS_OF.get(name, {"small", "cpu", "full"})
    for budget in spec.budgets:
        runs = plan_table(spec, budget).runs
        assert len({run.name for run in runs}) == len(runs) > 0
        assert {run.row.name for run in runs} == {row.name for row in spec.rows_at(budget)}
        graphs = {run.recipe.dataset.train_graphs for run in runs}
        if spec.kind != "trained" or budget != "small":
            assert graphs == {CPU_GRAPHS.get(name) if budget == "cpu" else None}
        if spec.kind == "trained" and budget == "small":  # it is to take minutes
            assert None not in graphs
        assert all(f"{count:,} " in spec.budgets[budget].scope for count in graphs - {None})  # it says so
        for run in {(run.row.name, run.task.name): run for run in runs}.values():
            recipe, card = run.recipe, card_of(run.recipe)
            check_ready(recipe)
            check_schedule(recipe.schedule, recipe.trainer.epochs)
            if spec.kind != "trained":
                continue
            if run.row.fingerprints is not None:
                assert run.command.startswith(f"pointset reproduce {name} --budget {budget} --models {run.row.name}")
                continue
            assert run.task.metric == check_metric(recipe.metric, card)
            if run.task.by_target:
                assert list(card.target_names) == run.task.columns
            words = shlex.split(run.command)
            assert words[:2] == ["pointset", "train"] and words[-2] == "--run-dir"
            again = read_recipe(words[2], words[3:-2])
            words_only = {"name": recipe.name, "title": recipe.title}
            assert again.model_copy(update=words_only) == recipe


def test_the_tables_of_the_issue_are_there_in_the_papers_order() -> None:
    assert set(table_names()) == ISSUE
    numbers = [int(re.findall(r"\d+", table_named(name).paper_table)[0]) for name in table_names()]
    assert numbers == sorted(numbers)


@pytest.mark.usefixtures("of_any_size")
def test_the_full_budget_is_the_papers() -> None:
    plan = plan_table(table_named("tu"), "full")
    assert len(plan.runs) == 4 * 3 * 2 * 10
    by_test = [run for run in plan.runs if run.recipe.dataset.options.get("validation") == "test"]
    assert len(by_test) == 120 and all(run.row.name.endswith("-paper") for run in by_test)
    for name, row in (("zinc-full", "pst"), ("long-range", "psds"), ("molhiv", "pst")):
        runs = plan_table(table_named(name), "full", Selection(models=[row])).chosen
        assert {run.seed for run in runs} == set(range(8))
        shipped = {read_recipe(recipe).model_dump_json() for recipe in recipe_names()}
        assert all(run.recipe.model_copy(update={"seed": 0}).model_dump_json() in shipped for run in runs)


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("zinc", "small"),
        pytest.param("zinc", "cpu", marks=pytest.mark.slow),
        pytest.param("zinc", "full", marks=pytest.mark.slow),
        pytest.param("scalability", "cpu", marks=pytest.mark.slow),
    ],
)
def test_models_are_of_one_size_and_see_bonds_as_their_authors_do(name: str, budget: Budget) -> None:
    plan = plan_table(table_named(name), budget)
    sizes = {run.row.name: parameters_of(run.recipe) for run in plan.runs}
    assert all(size == pytest.approx(sizes["pst"], rel=0.15) and size < 500_000 for size in sizes.values())
    for run in plan.runs:
        as_features = is_baseline(run.recipe.model.preset) or run.row.name.endswith("-bonds")
        assert (run.recipe.dataset.weighted_edges is None) == as_features
    if name == "zinc":
        presets = {run.row.name: run.recipe.model.preset for run in plan.runs}
        assert {"pst-gc", "pst-onelayer", "pst-adj", "pst-normadj", "psds", "gin", "gps"} <= set(presets)
        assert presets["pst"] == ("pst-released-zinc" if budget == "full" else "pst")
        assert presets.get("pst-released") == (None if budget == "full" else "pst-released-zinc")
    assert name == "zinc" or all("--cost-only" in run.command for run in plan.runs)


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("name", sorted(WITH_HOURS))
def test_hours_have_the_fast_variant_and_its_peers(name: str) -> None:
    plan = plan_table(table_named(name), "hours")
    trained = [run for run in plan.runs if run.row.fingerprints is None]
    assert {"gps", "gin"} < {run.recipe.model.preset for run in trained}
    for run in plan.runs:
        assert run.recipe.dataset.weighted_edges is None
        if run.recipe.model.preset in ("gps", "gin"):  # as large as ours, with a learning rate of its own
            change = run.row.budgets.get("hours")
            assert str((change and change.as_large_as) or run.row.as_large_as).startswith("pst-fast")
            assert run.trials is not None and run.trials.best_of.key == "optimizer.lr" and len(run.possible) == 3
    kinds = {run.row.fingerprints for run in plan.runs} - {None}
    assert kinds == (set() if name in ("tu", "counting") else {"forest", "boosting"})


@pytest.mark.parametrize("budget", ["small", "cpu", "hours"])
def test_each_row_of_the_ablation_changes_one_thing(budget: Budget) -> None:
    plan = plan_table(table_named("zinc-ablation"), budget)
    base, *others = [flattened(run.recipe.as_dict()) for run in plan.runs if run.seed == 0]
    sizes = [parameters_of(run.recipe) for run in plan.runs]
    assert max(sizes) <= 1.15 * min(sizes)
    for other in others:
        changes = {key for key in base if base[key] != other[key]} - {"name", "title", "model.dim", "expected"}
        assert changes in ({"model.preset"}, {"optimizer.method", "optimizer.lr"}, {"trainer.ema"})


def test_every_list_of_budgets_is_the_same_and_a_table_without_one_says_so() -> None:
    budgets = set(get_args(Budget))
    assert budgets == set(BUDGETS) == {one.value for one in reproduce_cli.BudgetName}
    assert all(f"  {budget} " in reproduce_cli.EXAMPLES for budget in budgets)
    assert "small, cpu, hours or full" in invoke("--help").stdout
    asked = invoke("zinc-full", "--budget", "hours")
    assert asked.exit_code == 1
    assert "'zinc-full' has no budget 'hours'; expected small, cpu, full" in asked.stderr


# --- the numbers are the paper's


def test_the_papers_numbers_are_those_of_the_recipes() -> None:
    """Both were written down by themselves; where a full run repeats a row, its recipe expects the row's numbers."""
    compared = 0
    for name in sorted(ISSUE - {"scalability", "parameters"}):
        spec = table_named(name)
        for run in (run for run in _plain_runs(spec) if run[2].expected is not None):
            title, columns, recipe = run
            expected = recipe.expected
            assert expected is not None and expected.table == spec.paper_table
            printed = next(line for line in spec.paper if line.title == title)
            cells = {
                column.key: printed_cell(text, column)
                for column, text in zip(spec.printed_columns, printed.values, strict=True)
                if text is not None
            }
            for key in columns:
                value = expected.value if expected.per_target is None else expected.per_target[key]
                assert cells[key].mean == pytest.approx(value, rel=1e-12)
                assert expected.std is None or cells[key].std == pytest.approx(expected.std, rel=1e-12)
                compared += 1
    assert compared >= 13 * 2 + 12 * 3 + 2 + 2 + 2 + 6 + 4


def _plain_runs(spec: TableSpec) -> Iterator[tuple[str, list[str], Recipe]]:
    """The paper's row, columns and recipe of rows that are trained by a shipped recipe as it is."""
    for row in spec.rows_at("full"):
        for task in spec.tasks:
            if row.model is None and row.counterpart and (task.only is None or "full" in task.only):
                change = task.budgets.get("full")
                recipe = read_recipe(row.recipe.format((change and change.recipe) or task.recipe))
                if spec.name != "ablation":
                    yield row.counterpart, task.columns, recipe
    if spec.name == "counting":
        yield "PSDS", spec.tasks[0].columns, read_recipe("counting-psds")


def test_the_papers_numbers_are_those_of_its_source(shared_data: Path) -> None:
    source = shared_data.parent / "paper" / "graph_as_point_set.tex"
    if not source.is_file():
        pytest.skip("the paper's source is not there")
    latex = source.read_text(encoding="utf-8")
    by_row = {
        "counting": ["tab::subgcount"],
        "long-range": ["Results on Long Range Graph Benchmark"],
        "tu": ["tab:tu}"],
        "ablation": ["tab:qm9abl", "tab:LRGBabl"],
    }
    for name, marks in by_row.items():
        spec = table_named(name)
        printed = {_letters(line.title): [value for value in line.values if value] for line in spec.paper}
        found: dict[str, list[str]] = {}
        for mark in marks:
            for title, values in _latex_rows(latex, mark):
                found[title] = found.get(title, []) + [value for value in values if value]
        assert printed == found
    for place, name in enumerate(("zinc", "zinc-full", "molhiv")):
        rows = {title: values[place] for title, values in _latex_rows(latex, "tab::zinc") if values[place]}
        assert {_letters(line.title): line.values[0] for line in _of_the_paper(name)} == rows
    for name, mark, first in (("qm9", "tab::qm9", 1), ("scalability", "tab:scalability}", 0)):
        columns = [values[first:] for _, values in _latex_rows(latex, mark)]
        assert [line.values for line in _of_the_paper(name)] == [list(one) for one in zip(*columns, strict=True)]
    parameters = [values[-1] for _, values in _latex_rows(latex, "tab::hyperparam")]
    assert table_named("parameters").paper[0].values == parameters


def _of_the_paper(table: str) -> list[PrintedRow]:
    """Without rows that were published elsewhere, which say where."""
    elsewhere = [line for line in table_named(table).paper if line.source == "published"]
    assert all(line.note for line in elsewhere)
    return [line for line in table_named(table).paper if line.source == "paper"]


def _latex_rows(latex: str, mark: str) -> Iterator[tuple[str, list[str | None]]]:
    """Title and values of the rows of the table that the mark is in; None for a dash or for words."""
    start = latex.index(r"\toprule", latex.index(mark, latex.index(r"\begin{document}")))
    for line in latex[start : latex.index(r"\end{tabular}", start)].split(r"\\"):
        cells = line.split("&")
        values = [_value(cell) for cell in cells[1:]]
        if any(values):
            yield _letters(re.sub(r"\\(toprule|midrule|textbf|mathbf|text|varepsilon)\b", "", cells[0])), values


def _value(cell: str) -> str | None:
    cell = re.sub(r"\\(countablecolor|mathbf|textbf|underline|small|bf|hiddim)\b|[\s${}_]", "", cell)
    cell = cell.replace(r"\pm", "±").removesuffix("k")
    return cell if re.fullmatch(r"\d+(\.\d+)?(±\d+(\.\d+)?)?", cell) else None


def _letters(title: str) -> str:
    """What is left of a title without markup: I²-GNN is printed as I$^2$-GNN."""
    return re.sub(r"[^\w*+-]", "", title.replace("²", "2")).replace("_", "")


def test_rows_that_are_printed_in_two_tables_agree() -> None:
    ablation, qm9 = table_named("ablation"), table_named("qm9")
    rows = {line.title: line.values for line in qm9.paper}
    for line in ablation.paper:
        if line.title in rows:
            assert line.values[:12] == rows[line.title]
    assert [column.key for column in ablation.columns[:12]] == list(benchmark_named("qm9").card.target_names)


# --- what is wrong with a table of one's own is said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colums": []}, "colums"),
        ({"paper": [{"title": "PST", "values": "0.1 0.2"}]}, "has 2 values; expected 1"),
        ({"paper": [{"title": "PST", "values": "0.1+0.2"}]}, "0.063±0.003"),
        ({"tasks": [{"name": "one", "recipe": "zinc", "metric": "mae", "columns": ["zink"]}]}, "did you mean 'zinc'"),
        ({"tasks": [{"name": "one", "recipe": "zinc", "columns": ["zinc"]}]}, "has no metric"),
        ({"ours": [{"name": "pst", "title": "PST", "counterpart": "PPST"}]}, "did you mean 'PST'"),
        ({"ours": [{"name": "pst", "title": "PST", "model": "psst"}]}, "ours.0.model"),
        ({"uses": ["nothing"]}, "expected one of counting"),
    ],
)
def test_a_table_that_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    values = {
        "name": "mine",
        "title": "Mine",
        "paper_table": "Table 1",
        "columns": [{"key": "zinc", "title": "MAE"}],
        "paper": [{"title": "PST", "values": "0.063±0.003"}],
        "tasks": [{"name": "one", "recipe": "zinc", "metric": "mae", "columns": ["zinc"]}],
        "ours": [{"name": "pst", "title": "PST", "counterpart": "PST"}],
        "budgets": {"small": {"scope": "Little."}},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    assert table_named(path).name == "mine"
    path.write_text(yaml.safe_dump(values | change, allow_unicode=True), encoding="utf-8")
    with pytest.raises(PointsetError) as caught:
        table_named(path)
    assert message in str(caught.value)


def test_names_that_do_not_exist_are_answered_with_those_that_do() -> None:
    assert "did you mean 'zinc'" in invoke("zimc").stderr
    assert invoke("zimc").exit_code == 1
    spec = table_named("zinc-full")
    with pytest.raises(SpecError, match=r"no model 'pdst'; expected some of pst, psds.*did you mean 'pst'"):
        plan_table(spec, "small", Selection(models=["pdst"]))
    with pytest.raises(SpecError, match="no column 'mae'; expected some of zinc-full"):
        plan_table(spec, "small", Selection(columns=["mae"]))


# --- the command


def test_the_list_says_what_each_budget_does() -> None:
    shown = invoke()
    assert shown.exit_code == 0
    for name in table_names():
        spec = table_named(name)
        assert f"{name}  {spec.paper_table}: {spec.title}" in shown.stdout
        for plan in spec.budgets.values():
            assert plan.scope.split()[0] in shown.stdout
    assert "GPU" in shown.stdout


def test_parameters_are_counted_and_near_the_papers(tmp_path: Path) -> None:
    done = invoke("parameters", "--run-dir", tmp_path)
    assert done.exit_code == 0, done.stderr
    result = read_table(tmp_path / "parameters-small.json")
    assert result.complete
    rows = {(row.source, row.title): row.cells for row in result.rows}
    ours, paper = rows["ours", "PST"], rows["paper", "PST"]
    assert len(ours) == 12
    for key, cell in ours.items():
        assert cell.mean == pytest.approx(paper[key].mean, rel=0.15)
        assert cell.mean != paper[key].mean
    assert "961" in done.stdout and "950" in done.stdout
