"""The tables of the page that compares runs."""

from __future__ import annotations

from pointset.reports.run_pages.experiments import Comparison, Experiment, as_text, flat, mean_and_std
from pointset.reports.run_pages.figure import Cell, Table
from pointset.reports.run_pages.headline import main_metric
from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.words import duration, metric_name, number, with_spread

_MOST_COLUMNS = 5  # of changed settings; more stand together in one


def experiment_table(found: Comparison, best: Experiment | None) -> Table:
    """A row for each recipe: mean ± standard deviation over its seeds or folds."""
    metric = found.metric
    in_paper = any(one.expected is not None for one in found.experiments)
    rows = []
    for one in found.experiments:
        score = with_spread(*mean_and_std(one.values(metric))) if metric is not None else _own_scores(one)
        row = [Cell(one.name), Cell(_finished(one)), Cell(score, "good" if one is best else "")]
        rows.append([*row, *([_paper(one)] if in_paper else []), Cell(_parameters(one.runs[0]))])
    head = f"test {metric_name(metric)}" if metric is not None else "test"
    heads = ["recipe", "runs", head, *(["paper"] if in_paper else []), "parameters"]
    return Table(heads, rows, "Mean ± standard deviation over seeds or folds.")


def run_table(found: Comparison) -> Table:
    """A row for each run, with only those settings that differ."""
    separate = found.changed if len(found.changed) <= _MOST_COLUMNS else []
    together = [] if separate else found.changed
    head = ["run", *separate, *(["settings that differ"] if together else [])]
    head += [f"test {metric_name(found.metric)}" if found.metric is not None else "test", "best epoch"]
    rows = []
    for run in found.runs:
        values = flat(run.recipe_values)
        row = [Cell(_name(run)), *(Cell(as_text(values.get(key))) for key in separate)]
        if together:
            row.append(Cell(", ".join(f"{key}={as_text(values.get(key))}" for key in together), "long"))
        row += [Cell(_score(run, found.metric)), Cell(_epoch(run)), Cell(_parameters(run)), Cell(_time(run))]
        rows.append(row)
    return Table([*head, "parameters", "time"], rows)


def target_comparison(found: Comparison) -> Table | None:
    """Every target of every recipe; None where runs have one target, or are not scored alike."""
    metric = found.metric
    finished = [run.result for run in found.runs if run.result is not None]
    targets = list(dict.fromkeys(target for result in finished for target in result.per_target))
    if metric is None or len(targets) < 2:
        return None
    paper = next((one.expected.per_target for one in found.experiments if one.expected and one.expected.per_target), {})
    rows = []
    for target in targets:
        spreads = [with_spread(*mean_and_std(one.target_values(target, metric))) for one in found.experiments]
        rows.append([Cell(target), *map(Cell, spreads), *([Cell(number((paper or {}).get(target)))] if paper else [])])
    head = ["target", *(one.name for one in found.experiments), *(["paper"] if paper else [])]
    return Table(head, rows, f"Test {metric_name(metric)}, mean ± standard deviation over seeds or folds.")


def _paper(one: Experiment) -> Cell:
    paper = one.expected
    return Cell("" if paper is None else f"{metric_name(paper.metric)} {with_spread(paper.value, paper.std)}")


def _finished(one: Experiment) -> str:
    done = sum(run.result is not None for run in one.runs)
    return str(done) if done == len(one.runs) else f"{done} of {len(one.runs)}"


def _own_scores(one: Experiment) -> str:
    result = next((run.result for run in one.runs if run.result is not None), None)
    if result is None:
        return "–"
    metric = main_metric(result)
    return f"{metric_name(metric)} {with_spread(*mean_and_std(one.values(metric)))}"


def _name(run: RunRecord) -> str:
    """The last parts of the path, which tell seeds of one folder and folders of one name apart."""
    return "/".join(run.folder.resolve().parts[-2:])


def _score(run: RunRecord, metric: str | None) -> str:
    if run.result is None:
        return "not finished"
    if metric is not None:
        return number(run.result.test.get(metric))
    own = main_metric(run.result)
    return f"{metric_name(own)} {number(run.result.test.get(own))}"


def _epoch(run: RunRecord) -> str:
    return "–" if run.result is None or run.result.best_epoch is None else f"{run.result.best_epoch:,}"


def _parameters(run: RunRecord) -> str:
    return "–" if run.result is None or run.result.parameters is None else f"{run.result.parameters:,}"


def _time(run: RunRecord) -> str:
    return "–" if run.result is None else duration(run.result.seconds)
