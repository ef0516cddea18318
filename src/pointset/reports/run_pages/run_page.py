"""What the page of one run says, section by section (:func:`page_of`); the template only sets it in type."""

from __future__ import annotations

from typing import Any

from pointset.reports.run_pages.attention_figures import attention_figures
from pointset.reports.run_pages.function_chart import function_figure
from pointset.reports.run_pages.headline import lead, tiles, verdict_of
from pointset.reports.run_pages.learning_charts import learning_curves
from pointset.reports.run_pages.prediction_section import prediction_section
from pointset.reports.run_pages.recipe_words import recipe_sentences
from pointset.reports.run_pages.record import RunRecord
from pointset.reports.run_pages.run_facts import commands, environment, timings
from pointset.reports.run_pages.target_table import score_table, target_table
from pointset.reports.run_pages.worst_graphs import error_words, worst_graphs


def page_of(run: RunRecord) -> dict[str, Any]:
    """The values of the template ``run.html.j2``; a section that has nothing to show is None or empty."""
    verdict, notes = verdict_of(run)
    examples, result = run.examples, run.result
    started = str(run.environment.get("started", ""))[:16].replace("T", " ")  # to the minute
    return {
        "title": run.title,
        "eyebrow": " · ".join(filter(None, ("pointset run", run.recipe.name, started))),
        "lead": lead(run),
        "verdict": verdict,
        "table": result.expected.table if result is not None and result.expected is not None else "",
        "notes": notes,
        "tiles": tiles(run, verdict),
        "recipe": recipe_sentences(run),
        "recipe_text": run.recipe_text,
        "curves": learning_curves(run),
        "predictions": prediction_section(run),
        "scores": score_table(result) if result is not None else None,
        "targets": target_table(result) if result is not None else None,
        "worst": worst_graphs(examples.worst) if examples.worst else None,
        "worst_intro": error_words(result),
        "functions": function_figure(examples.functions) if examples.functions is not None else None,
        "attention": attention_figures(examples.attention) if examples.attention is not None else None,
        "finished": result is not None,
        "timings": timings(run),
        "environment": environment(run),
        "test_scored": result.test_scored if result is not None and result.test else "",
        "commands": commands(run),
    }
