"""Recipes of the paper: hyperparameters and results as printed, models as the authors' released code has them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from pointset.datasets.card import Card
from pointset.datasets.dataset import Dataset, Provenance
from pointset.datasets.loading import benchmark_named
from pointset.datasets.table import GraphTable
from pointset.encoders.model import PointModel
from pointset.runs.recipe import Recipe
from pointset.runs.recipe_files import read_recipe, recipe_names
from pointset.training.data import build_model, with_choices

TABLE_7 = {  # the paper's names of the rows, and ours
    "Synthetic": "counting",
    "qm9": "qm9-mu",
    "ZINC": "zinc",
    "ZINC-full": "zinc-full",
    "ogbg-molhiv": "ogbg-molhiv",
    "MUTAG": "mutag",
    "PTC-MR": "ptc-mr",
    "PROTEINS": "proteins",
    "IMDB-BINARY": "imdb-binary",
    "PascalVOC-SP": "pascalvoc-sp",
    "Peptide-func": "peptides-func",
    "Peptide-struct": "peptides-struct",
}
WITH_PARAMETERS = [*TABLE_7.values(), "qm9-cv", "qm9-mu-star"]


def card_of(recipe: Recipe) -> Card:
    assert recipe.dataset.name is not None
    card = benchmark_named(recipe.dataset.name).card
    return card if recipe.dataset.targets is None else card.with_targets(recipe.dataset.targets)


# --- models


def test_every_dataset_of_the_paper_has_recipes_for_its_models() -> None:
    assert all({row, f"{row}-psds"} <= set(recipe_names()) for row in TABLE_7.values())


@pytest.mark.parametrize(
    ("name", "preset", "pooling"),
    [
        ("zinc", "pst-released-zinc", "mean"),
        ("zinc-full", "pst-released-zinc", "mean"),
        ("qm9-mu", "pst-released-qm9", "mean"),
        ("qm9-mu-star", "pst-released-qm9-star", "mean"),
        ("pascalvoc-sp", "pst-released", "mean"),
        ("peptides-func", "pst-released-peptides", "max"),
        ("peptides-struct", "pst-released-struct", "mean"),
        ("mutag", "pst-released-qm9", "mean"),  # types of bonds as columns of zeros and ones
    ],
)
def test_models_have_the_options_of_the_commands_that_the_authors_published(
    name: str, preset: str, pooling: str
) -> None:
    recipe = read_recipe(name)
    assert (recipe.model.preset, recipe.model.pooling) == (preset, pooling)


@pytest.mark.parametrize("name", ["zinc", "zinc-psds", "zinc-full", "zinc-full-psds"])
def test_zincs_edges_weigh_the_type_of_their_bond_plus_1(name: str) -> None:
    table = GraphTable(
        num_nodes=np.array([4]),
        num_edges=np.array([3]),
        edges=np.array([[0, 1, 2], [1, 2, 3]]),
        x=np.zeros((4, 1)),
        edge_attr=np.array([[1], [2], [3]]),
        y=np.zeros(1),
    )
    dataset = Dataset.from_table(table, benchmark_named("zinc").card, Provenance("here", "made here"))
    weighted = with_choices(dataset, read_recipe(name).dataset)
    assert weighted.arrays[0].weights is not None and weighted.arrays[0].weights.tolist() == [2, 3, 4]


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_a_model_that_does_not_see_the_graph_says_so(name: str) -> None:
    """The released model leaves nothing of categories of edges."""
    recipe = read_recipe(name)
    with torch.device("meta"):
        pairs = build_model(recipe, card_of(recipe)).coordinates.pairs
    assert recipe.expected is not None
    assert getattr(pairs, "vanishes", False) == ("does not see the graph" in recipe.expected.note)


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_the_parameters_are_those_of_the_paper_within_15_percent(name: str) -> None:
    recipe = read_recipe(name)
    card, choice = card_of(recipe), recipe.model
    model = PointModel.from_preset(
        choice.preset,
        node=card.node,
        edge=None if recipe.dataset.weighted_edges is not None else card.edge,
        out=card.outputs,
        level="node" if card.level == "node" else "graph",
        dim=choice.dim,
        layers=choice.layers,
        pooling=choice.pooling,
    )
    ours = sum(parameter.numel() for parameter in model.parameters())
    assert recipe.expected is not None
    assert ours == pytest.approx(recipe.expected.parameters, rel=0.15)


def test_models_of_psds_differ_in_the_preset_only() -> None:
    for name in recipe_names():
        if not name.endswith("-psds"):
            continue
        deepset, transformer = read_recipe(name), read_recipe(name.removesuffix("-psds"))
        assert deepset.model == transformer.model.model_copy(update={"preset": "psds"})
        for part in ("dataset", "optimizer", "schedule", "trainer", "loss", "metric"):
            assert getattr(deepset, part) == getattr(transformer, part)


# --- as printed in the paper


@pytest.fixture(scope="module")
def paper(shared_data: Path) -> str:
    source = shared_data.parent / "paper" / "graph_as_point_set.tex"
    if not source.is_file():
        pytest.skip("the paper's source is not there")
    return source.read_text()


def table_rows(paper: str, label: str) -> dict[str, list[str]]:
    """Cells of a table, by the first of each row, as plain text."""
    start = paper.index(rf"\label{{{label}}}")
    text = paper[start : paper.index(r"\end{tabular}", start)]
    text = re.sub(r"\\(countablecolor|textbf|mathbf|underline|small|pm|midrule|toprule|bottomrule)\b", " ", text)
    rows = (re.sub(r"[{}$_\s]+", " ", row).split("&") for row in text.split(r"\\"))
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in rows if len(cells) > 1}


def number(cell: str) -> list[float]:
    """The mean, and the deviation where there is one."""
    return [float(part) for part in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", cell)]


def test_hyperparameters_are_those_printed(paper: str) -> None:
    rows = table_rows(paper, "tab::hyperparam")
    for row, name in TABLE_7.items():
        recipe = read_recipe(name)
        warm, cosine, wd, noise, layers, dim, batch, lr, epochs = (number(cell)[0] for cell in rows[row][:9])
        assert recipe.expected is not None
        assert (recipe.expected.parameters or 0) / 1000 == number(rows[row][9])[0]
        assert (recipe.schedule.warmup, recipe.optimizer.weight_decay, recipe.model.noise) == (warm, wd, noise)
        assert (recipe.model.layers, recipe.model.dim, recipe.trainer.batch_size) == (layers, dim, batch)
        assert (recipe.optimizer.lr, recipe.trainer.epochs) == (lr, epochs)
        assert recipe.schedule.cosine == (cosine if warm + cosine <= epochs else 0)


def test_results_are_those_printed(paper: str) -> None:
    found: dict[str, list[float]] = {}
    graphs, folds = table_rows(paper, "tab::zinc"), table_rows(paper, "tab:tu")
    long_range = table_rows(paper.replace("Encoding~\\citep{benchmarkingGNN}. }\n", "\\label{lrgb}"), "lrgb")
    for ending, model in (("", "PST"), ("-psds", "PSDS")):
        for name, cell in zip(("zinc", "zinc-full", "ogbg-molhiv"), graphs[model], strict=True):
            found[f"{name}{ending}"] = [value / (100 if "hiv" in name else 1) for value in number(cell)]
        for name, cell in zip(("pascalvoc-sp", "peptides-func", "peptides-struct"), long_range[model], strict=True):
            found[f"{name}{ending}"] = number(cell)
    for name, cell in zip(("mutag", "ptc-mr", "proteins", "imdb-binary"), folds["PST"], strict=True):
        found[name] = [value / 100 for value in number(cell)]
    energies = table_rows(paper, "tab::qm9")
    for target, cells in zip(benchmark_named("qm9").card.target_names, list(energies.values())[-12:], strict=True):
        unit = 10.0 ** int((re.findall(r"10 ?\^ ?(-\d)", cells[0]) or ["0"])[0])
        for ending, column in (("", 6), ("-psds", 5), ("-star", 11)):
            found[f"qm9-{target}{ending}"] = [value * unit for value in number(cells[column])]
    for name, (value, deviation) in found.items():
        expected = read_recipe(name).expected
        assert expected is not None
        assert [expected.value, expected.std] == pytest.approx([value, deviation]), name
    assert len(found) == 6 + 6 + 4 + 36


def test_results_of_counting_are_those_printed(paper: str) -> None:
    rows = table_rows(paper, "tab::subgcount")
    printed = {model: [number(cell)[0] / 1000 for cell in rows[model]] for model in ("MPNN", "PSDS", "PST")}
    for name, model, others in (("counting", "PST", ["PSDS", "MPNN"]), ("counting-psds", "PSDS", ["PST", "MPNN"])):
        expected = read_recipe(name).expected
        assert expected is not None and expected.per_target is not None and expected.others is not None
        assert list(expected.per_target) == list(benchmark_named("counting").card.target_names)
        assert list(expected.per_target.values()) == pytest.approx(printed[model])
        assert expected.value == pytest.approx(sum(printed[model]) / 13, abs=1e-6)
        assert list(expected.others) == others
        for other in others:
            assert list(expected.others[other].values()) == pytest.approx(printed[other])
