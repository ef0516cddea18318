"""Recipes: those that are shipped are the paper's, own ones are checked, and every wrong key gets a clear answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pointset.datasets.card import Card, Metric
from pointset.datasets.loading import benchmark_named
from pointset.errors import FileFormatError, MissingDataError, PointsetError, SpecError
from pointset.registry import preset_names
from pointset.runs.recipe import (
    Recipe,
    check_ready,
    check_schedule,
    choices,
    expectation,
    is_group,
    known_keys,
)
from pointset.runs.recipe_files import from_yaml, read_recipe, recipe_names, to_yaml
from tests import command_line

GUIDE = Path(__file__).parents[1] / "docs" / "recipes.md"
SMALLEST: dict[str, Any] = {"name": "mine", "trainer": {"epochs": 3, "batch_size": 4}}
OWN = ("molecules", "graphs", "nodes", "links")
WITHIN_A_GRAPH = ("cora", "citeseer", "pubmed", "tolokers", "minesweeper", "actor", "squirrel", "cora-links",
                  "minesweeper-grid", "luxembourg")  # fmt: skip
FOR_CHEMISTS = ("solubility", "lipophilicity", "hydration", "bbb", "tox21")  # of models that are shipped
FOR_HOURS = (
    *("counting-hours", "counting-families", "qm9-hours", "qm9-hours-star", "zinc-hours"),
    *(f"{name}-hours{kind}" for name in ("ogbg-molhiv", "peptides-func") for kind in ("", "-morgan")),
)


def card_of(recipe: Recipe) -> Card:
    assert recipe.dataset.name is not None
    card = benchmark_named(recipe.dataset.name).card
    return card if recipe.dataset.targets is None else card.with_targets(recipe.dataset.targets)


def message_of(name: str | Path, *overrides: str, error: type[PointsetError] = SpecError) -> str:
    with pytest.raises(error) as caught:
        read_recipe(name, overrides)
    return str(caught.value)


# --- what is shipped


def test_every_target_and_every_user_has_a_recipe() -> None:
    names = recipe_names()
    targets = benchmark_named("qm9").card.target_names
    assert all(f"qm9-{target}{kind}" in names for target in targets for kind in ("", "-psds", "-star"))
    assert {
        *OWN,
        *FOR_CHEMISTS,
        *FOR_HOURS,
        *WITHIN_A_GRAPH,
        "counting-small",
        "counting-fast",
        "counting-fast-wide",
    } <= set(names)
    assert (
        len(names)
        == len(set(names))
        == 11 * 2 + 12 * 3 + 3 + sum(map(len, (OWN, FOR_CHEMISTS, FOR_HOURS, WITHIN_A_GRAPH)))
    )


@pytest.mark.parametrize("name", recipe_names())
def test_a_shipped_recipe_is_complete(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name
    assert recipe.title
    assert Recipe.from_dict(yaml.safe_load(recipe.as_yaml())) == recipe  # any reader of YAML gets the same
    check_schedule(recipe.schedule, recipe.trainer.epochs)
    if name in OWN:
        return
    check_ready(recipe)
    if name in FOR_CHEMISTS:
        as_molecules = read_recipe("molecules", ["trainer.threads=1"])
        differ = {"name", "title", "dataset"}
        assert recipe.model_dump(exclude=differ) == as_molecules.model_dump(exclude=differ)
        assert recipe.dataset.file and recipe.dataset.targets
        assert recipe.dataset.options == {"split": "scaffold", "seed": 0}
        return
    card = card_of(recipe)
    assert recipe.dataset.weighted_edges is None or card.edge is not None
    if (expected := recipe.expected) is not None:
        assert expected.metric == (recipe.metric or card.metric.value)
        assert expected.table
        assert re.search("PSDS|pst-released|larger", expected.note)
        for values in [expected.per_target or {}, *(expected.others or {}).values()]:
            assert set(values) in (set(), set(card.target_names))


@pytest.mark.parametrize("epochs", [1, 2, 20])
@pytest.mark.parametrize("name", ["molecules", "counting-small", "zinc", "mutag", "peptides-struct"])
def test_a_schedule_is_shortened_where_the_epochs_leave_no_room(name: str, epochs: int) -> None:
    recipe = read_recipe(name, [f"trainer.epochs={epochs}"])
    check_schedule(recipe.schedule, epochs)
    as_it_was = read_recipe(name)
    shorter = recipe.schedule.warmup / as_it_was.schedule.warmup
    assert shorter in (1, pytest.approx(epochs / as_it_was.trainer.epochs))


def test_a_schedule_that_fits_or_was_chosen_stays() -> None:
    assert read_recipe("zinc", ["trainer.epochs=100"]).schedule.warmup == 17
    assert read_recipe("zinc", ["trainer.epochs=20", "schedule.warmup=12"]).schedule.warmup == 12


def test_names_that_need_torch_are_those_of_the_encoders_and_datasets() -> None:
    assert choices("model.preset") == preset_names()
    assert {metric.value for metric in Metric} <= set(choices("metric"))


# --- key=value


def test_values_are_read_as_people_write_them() -> None:
    recipe = read_recipe(
        "molecules",
        [
            "optimizer.lr=1e-3",
            "model.noise=1",
            "dataset.file=2024",
            "dataset.targets=NO",
            "trainer.precision=64",
            "trainer.tensorboard=true",
            "trainer.patience=null",
            "dataset.options.split=scaffold",
            "dataset.options.seed=7",
            "seed=3",
            "seed=4",
        ],
    )
    assert (recipe.optimizer.lr, recipe.model.noise, recipe.seed) == (0.001, 1.0, 4)
    assert (recipe.dataset.file, recipe.dataset.targets) == ("2024", ["NO"])
    assert (recipe.trainer.precision, recipe.trainer.tensorboard, recipe.trainer.patience) == ("64", True, None)
    assert recipe.dataset.options == {"split": "scaffold", "seed": 7}
    assert read_recipe("molecules", ["dataset.targets=[logS, 007, on]"]).dataset.targets == ["logS", "007", "on"]
    assert read_recipe("molecules", ["dataset.options={split: [0.7, 0.2, 0.1]}"]).dataset.options == {
        "split": [0.7, 0.2, 0.1]
    }
    assert read_recipe("molecules", ["dataset.file=a=b.csv"]).dataset.file == "a=b.csv"


def test_a_recipe_changed_by_overrides_leaves_the_shipped_one_alone() -> None:
    before = read_recipe("zinc")
    read_recipe("zinc", ["model.dim=7", "dataset.options.anything=1"])
    assert read_recipe("zinc") == before


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("model.dmi=3", "model.dim"),
        ("lr=1e-3", "optimizer.lr"),
        ("learning_rate=1e-3", "optimizer.lr"),
        ("epochs=3", "trainer.epochs"),
        ("optimizer.epochs=3", "trainer.epochs"),
        ("model.width=3", "model.dim"),
        ("batchsize=3", "trainer.batch_size"),
        ("Model.Dim=3", "model.dim"),
        ("dataset.target=a", "dataset.targets"),
        ("model.dim.x=3", "model.dim"),
        ("gn=1e-4", "model.noise"),
        ("dataset.sheet=Data", "dataset.options.sheet"),
        ("dataset.split=random", "dataset.options.split"),
        ("dataset.max_rejected=1", "dataset.options.max_rejected"),
        ("dataset.seed=1", "dataset.options.seed"),
        ("dataset.weights=trust", "dataset.weight_column"),
        ("dataset.columns=a", "dataset.targets"),
        ("task=binary", "dataset.options.task"),
    ],
)
def test_an_unknown_key_names_the_nearest(override: str, nearest: str) -> None:
    key = override.partition("=")[0]
    assert message_of("zinc", override) == f"there is no key {key!r}; did you mean {nearest!r}?"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.dim=-3", "got model.dim=-3; expected a whole number, at least 1"),
        ("model.dim=wide", "got model.dim='wide'; expected a whole number, at least 1"),
        ("model.dim=true", "got model.dim=true; expected a whole number, at least 1"),
        ("model.dim=", "got model.dim=null; expected a whole number, at least 1"),
        ("model.noise=-1e-6", "got model.noise=-1e-06; expected a number, at least 0"),
        ("model.noise=.inf", "got model.noise='.inf'; expected a number, at least 0"),
        ("trainer.epochs=0", "got trainer.epochs=0; expected a whole number, at least 1"),
        ("trainer.epochs=2.5", "got trainer.epochs=2.5; expected a whole number, at least 1"),
        ("trainer.ema=1", "got trainer.ema=1; expected a number, at least 0, below 1, or null"),
        ("trainer.tensorboard=yes", "got trainer.tensorboard='yes'; expected true or false"),
        ("trainer.memory_budget=much", "got trainer.memory_budget='much'; expected text such as 2GB, or null"),
        ("optimizer.lr=0", "got optimizer.lr=0; expected a number, above 0"),
        (
            "model.pooling=men",
            "got model.pooling='men'; expected one of mean, sum, max, scaled_sum; did you mean 'mean'?",
        ),
        ("dataset.targets=[]", "got dataset.targets=[]; expected a list of names or numbers of columns, or null"),
        (
            "dataset.targets=[a, [b]]",
            'got dataset.targets[1]=["b"]; expected the name of a column, or its number counted from 0',
        ),
        ("dataset.options=3", "got dataset.options=3; expected a mapping"),
        ("model.dim", "got 'model.dim'; expected key=value, such as trainer.epochs=20"),
        ("=3", "got '=3'; expected key=value, such as trainer.epochs=20"),
        ("zzz=3", f"there is no key 'zzz'; expected one of {', '.join(Recipe.model_fields)}"),
        (
            "optimizer={lr: 3}",
            "got optimizer='{lr: 3}'; expected the keys method, lr, weight_decay, clip one by one, such as "
            "optimizer.method=…",
        ),
    ],
)
def test_a_wrong_value_says_got_and_expected(override: str, message: str) -> None:
    assert message_of("zinc", override) == message


@pytest.mark.parametrize("key", ["model.preset", "metric", "loss", "schedule.shape", "trainer.precision"])
def test_an_unknown_choice_lists_all(key: str) -> None:
    message = message_of("zinc", f"{key}=nonsense")
    assert message.startswith(f"got {key}='nonsense'; expected one of ")
    assert expectation(key) in message


def test_what_hangs_together_is_checked_together() -> None:
    both = message_of("zinc", "dataset.file=my.csv")
    assert both.startswith("got dataset.name='zinc' and dataset.file='my.csv'; expected one of them")
    assert read_recipe("zinc", ["dataset.name=null", "dataset.file=my.csv"]).dataset.file == "my.csv"
    assert "did you mean 'zinc'?" in message_of("zinc", "dataset.name=zink")
    assert "expected one of counting, " in message_of("zinc", "dataset.name=???")
    assert "from 0 to 9" in message_of("mutag", "dataset.fold=10")
    assert message_of("zinc", "model.dim=0", "seed=-1").count("\n") == 1


@pytest.mark.parametrize("value", ["{", "[1", "*x", "!!python/name:os.system", "\x00", "[" * 5000, "9" * 5000])
def test_a_value_that_is_no_yaml_is_refused(value: str) -> None:
    assert "got dataset.options.x=" in message_of("zinc", f"dataset.options.x={value}")


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_override_gives_a_foreign_error(key: str, value: str) -> None:
    for override in (f"{key}={value}", f"model.{key}={value}", f"dataset.options.{key}={value}", f"model.dim={value}"):
        try:
            recipe = read_recipe("molecules", [override])
        except PointsetError:
            continue
        assert Recipe.from_dict(from_yaml(recipe.as_yaml())) == recipe


def test_the_paper_says_nothing_about_other_data() -> None:
    assert read_recipe("zinc", ["model.dim=8"]).expected is not None
    assert read_recipe("zinc", ["dataset.name=zinc-full"]).expected is None
    assert read_recipe("counting", ["dataset.targets=3-cycle"]).expected is None


def test_training_needs_data() -> None:
    for name in OWN:
        with pytest.raises(SpecError, match=r"add dataset\.file=my\.csv"):
            check_ready(read_recipe(name))
        check_ready(read_recipe(name, ["dataset.file=my.csv"]))


# --- files


words = st.text(min_size=1, max_size=20)
numbers = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def recipe_values(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "name": draw(words),
        "title": draw(st.text(max_size=200)),
        "dataset": {
            "file": draw(st.none() | words),
            "targets": draw(st.none() | st.lists(words, min_size=1, max_size=4)),
            "options": draw(st.dictionaries(st.text(max_size=5), plain, max_size=3)),
        },
        "model": {"preset": draw(st.sampled_from(preset_names())), "noise": draw(numbers)},
        "optimizer": {"lr": draw(numbers.filter(bool)), "clip": draw(st.none() | numbers.filter(bool))},
        "trainer": {"epochs": draw(st.integers(1)), "batch_size": draw(st.integers(1))},
        "metric": draw(st.none() | st.sampled_from(choices("metric"))),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


@given(recipe_values())
def test_yaml_is_read_back_exactly(values: dict[str, Any]) -> None:
    recipe = Recipe.from_dict(values)
    assert Recipe.from_dict(from_yaml(recipe.as_yaml())) == recipe
    assert Recipe.from_dict(json.loads(json.dumps(recipe.as_dict()))) == recipe


@given(st.lists(st.text(max_size=12) | st.sampled_from(["1e-3", "NO", "on", "0x1F", "1_0", "1:30", "~", "", "-", "="])))
def test_text_stays_text(texts: list[str]) -> None:
    assert from_yaml(to_yaml({"texts": texts})) == {"texts": texts}


def test_yaml_is_pleasant_to_read() -> None:
    text = read_recipe("qm9-mu").as_yaml()
    keys = re.findall(r"^(\w+):", text, flags=re.MULTILINE)
    assert keys == list(Recipe.model_fields)
    assert "  targets: [mu]\n" in text and "  noise: 1.0e-05\n" in text
    assert max(map(len, text.splitlines())) <= 120


def test_columns_by_number_are_kept_through_yaml_and_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: molecules\ndataset: {targets: [1, logS, '007', 12]}\n")
    for recipe in (read_recipe(file), read_recipe("molecules", ["dataset.targets=[1, logS, 007, 12]"])):
        assert recipe.dataset.targets == ["1", "logS", "007", "12"]
        assert Recipe.from_dict(from_yaml(recipe.as_yaml())) == recipe
        assert Recipe.from_dict(json.loads(json.dumps(recipe.as_dict()))) == recipe
    assert read_recipe("molecules", ["dataset.targets=2"]).dataset.targets == ["2"]


def test_an_own_file_extends_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "wide.yaml").write_text("extends: zinc\nmodel: {dim: 96}\ndataset: {options: {a: 1e-3}}\n")
    (tmp_path / "wider.yml").write_text("extends: wide.yaml\nname: wider than wide\nmodel:\n  dim: 128\n")
    wide, wider, zinc = (
        read_recipe(tmp_path / "wide.yaml"),
        read_recipe(str(tmp_path / "wider.yml")),
        read_recipe("zinc"),
    )
    assert wide.model == zinc.model.model_copy(update={"dim": 96})
    assert (wide.name, wider.name, wider.model.dim) == ("wide", "wider than wide", 128)
    assert wide.dataset.options == wider.dataset.options == {"a": 0.001}
    assert wide.trainer == zinc.trainer and wide.expected == zinc.expected
    assert read_recipe(tmp_path / "wide.yaml", ["model.dim=3"]).model.dim == 3


def test_an_own_file_with_fewer_epochs_shortens_the_schedule(tmp_path: Path) -> None:
    file, second, chosen = (tmp_path / name for name in ("short.yaml", "shorter.yaml", "chosen.yaml"))
    file.write_text("extends: zinc\ntrainer: {epochs: 8}\n")
    second.write_text("extends: short.yaml\ntrainer: {epochs: 4}\n")
    chosen.write_text("extends: zinc\ntrainer: {epochs: 20}\nschedule: {warmup: 12}\n")
    zinc = read_recipe("zinc").schedule
    assert read_recipe(file).schedule.warmup == pytest.approx(zinc.warmup * 8 / 800)
    assert read_recipe(second).schedule == read_recipe(file).schedule  # which has room in 4 epochs too
    assert read_recipe(chosen).schedule == zinc.model_copy(update={"warmup": 12.0})


def test_a_run_is_repeated_by_its_folder(tmp_path: Path) -> None:
    recipe = read_recipe("counting-small", ["seed=5", "model.noise=1e-6"])
    (tmp_path / "recipe.yaml").write_text(recipe.as_yaml())
    assert read_recipe(tmp_path) == read_recipe(str(tmp_path)) == read_recipe(tmp_path / "recipe.yaml") == recipe


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it holds nothing; expected keys such as"),
        (b"# only a comment\n", "it holds nothing; expected keys such as"),
        (b"- a\n- b\n", "it holds a list; expected keys such as"),
        (b"just words", "it holds a str; expected keys such as"),
        (b"model: {dim: 3}\nmodel: {dim: 4}\n", "line 2, column 1: the key 'model' stands twice"),
        (b"model:\n  dim: 3\n  dim: 4\n", "line 3, column 3: the key 'dim' stands twice"),
        (b"1: 2\n", "the key 1 is not text"),
        (b"[a]: 2\n", "the key ['a'] is not text"),
        (b"title: \xff\n", "byte 7 is not UTF-8"),
        (b"title: 'open\n", "cannot be read as YAML: line 2"),
        (b"a: &x 1\nb: *x\n", "anchors (&, *) are not read"),
        (b"a: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
        (b"a: 1\n---\nb: 2\n", "expected a single document"),
        (b"a: " + b"[" * 5000, "nested too deeply"),
        (b"a: " + b"9" * 5000, "cannot be read as YAML"),
        (b"a: " + b"x" * 1_000_001, "more than 1,000,000 bytes"),
        (b"extends: 3\n", "got extends=3; expected the name of a recipe"),
        (b"extends: bad.yaml\n", "extends itself"),
    ],
    ids=lambda value: value[:20].decode("latin1") if isinstance(value, bytes) else "",
)
def test_a_damaged_file_is_told_from_a_recipe(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    text = message_of(tmp_path / "bad.yaml", error=FileFormatError)
    assert message in text and "bad.yaml" in text
    assert len(text) < 400


def test_wrong_keys_of_a_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("modle: {dim: 3}\ntrainer: {epochs: 1}\n")
    assert message_of(file) == (
        f"{file}: trainer.batch_size is missing; expected a whole number, at least 1\n"
        "there is no key 'modle'; did you mean 'model'?"
    )
    file.write_text("extends: znic\n")
    assert message_of(file).startswith(f"{file}: extends: there is no recipe 'znic'; did you mean 'zinc'?")
    file.write_text("extends: zinc\ndataset: {targets: [1.5, true]}\nmodel: 3\n")
    for at, value in enumerate(("1.5", "true")):
        expected = f"got dataset.targets[{at}]={value}; expected the name of a column (in quotes), or its number"
        assert expected in message_of(file)
    assert "got model=3; expected the keys preset, dim," in message_of(file)


def test_what_is_no_recipe_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.csv").write_text("smiles,logS\n")
    assert "pointset train molecules dataset.file=my.csv" in message_of("my.csv", error=FileFormatError)
    assert "there is no file other.yaml" in message_of("other.yaml", error=MissingDataError)
    assert "has no recipe.yaml" in message_of(tmp_path, error=MissingDataError)
    assert message_of("znic").startswith("there is no recipe 'znic'; did you mean 'zinc'?")
    assert message_of("").startswith("there is no recipe ''")
    for unreadable in ("x" * 5000, "a/" * 5000, "a\0.yaml", "\udcff.yaml"):
        assert len(message_of(unreadable, error=MissingDataError)) < 20_000


def test_plain_values_only() -> None:
    for options in ({"a": object()}, {"a": float("nan")}, {"a": [{"b": {1: 2}}]}, {"a": (1, 2)}):
        with pytest.raises(SpecError, match=r"dataset\.options"):
            Recipe.from_dict(SMALLEST | {"dataset": {"options": options}})
    with pytest.raises(SpecError, match="there is no key 'modle'; did you mean 'model'"):
        Recipe.from_dict(SMALLEST | {"modle": {}})


# --- the command

invoke = partial(command_line.invoke, "recipes")


def test_the_list_has_all_recipes_and_the_papers_results() -> None:
    lines = invoke()[0].splitlines()
    for name in recipe_names():
        assert any(line.startswith(f"{name} ") for line in lines), name
    (zinc,) = [line.split() for line in lines if line.startswith("zinc ")]
    assert zinc == ["zinc", "ZINC-12k", "pst-released-zinc", "6×80", "800", "MAE", "0.063", "±", "0.003"]
    assert any("macro F1 0.4010 ± 0.0072" in line for line in lines)
    assert any("normalised MAE 0.0034" in line for line in lines)


def test_a_word_filters_the_list() -> None:
    entries = json.loads(invoke("star", "--json")[0])
    assert [entry["name"] for entry in entries] == [name for name in recipe_names() if name.endswith("-star")]
    assert json.loads(invoke("--json", "STAR")[0]) == entries
    assert {entry["dataset"] for entry in json.loads(invoke("peptides-func", "--json")[0])} == {"peptides-func"}
    assert "did you mean 'zinc'?" in invoke("znic", code=1)[1]


def test_show_prints_a_recipe_that_can_be_read_again(tmp_path: Path) -> None:
    printed = invoke("show", "qm9-gap", "model.dim=96", "seed=3")[0]
    assert "# The paper (Table 2): MAE 0.0846 ± 0.0007, over 8 seeds, 1,587k parameters.\n" in printed
    file = tmp_path / "copy.yaml"
    file.write_text(printed)
    assert read_recipe(file) == read_recipe("qm9-gap", ["model.dim=96", "seed=3"])
    assert Recipe.from_dict(json.loads(invoke("show", "qm9-gap", "--json")[0])) == read_recipe("qm9-gap")
    assert "dataset.file=FILE" in invoke("show", "molecules")[0]


def test_mistakes_get_one_message() -> None:
    assert invoke("show", "znic", code=1)[1].startswith("Error: there is no recipe 'znic'; did you mean 'zinc'?")
    assert invoke("show", "zinc", "lr=3", code=1)[1] == "Error: there is no key 'lr'; did you mean 'optimizer.lr'?"
    assert "put the options after 'show'" in invoke("--json", "show", "zinc", code=2)[1]


def test_listing_does_not_wait_for_torch() -> None:
    program = (
        "import sys, pointset.cli.recipes\n"
        "assert not {'torch', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "from pointset.cli.recipes import find_recipes\n"
        "print(len(find_recipes()), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(recipe_names())), "False"]


def test_the_guide_names_every_key_and_recipe() -> None:
    guide = GUIDE.read_text()
    keys = [key for key in known_keys() if not is_group(key)]
    assert [key for key in keys if f"`{key}`" not in guide] == []
    families = [name for name in recipe_names() if not re.search(r"-psds$|-star$|^qm9-(?!mu)", name)]
    assert [name for name in families if f"`{name}`" not in guide] == []


def test_small_data_gets_enough_steps_unless_epochs_are_asked_for() -> None:
    from pointset.runs.recipe_files import with_enough_epochs

    recipe = read_recipe("molecules", ["dataset.file=my.csv", "trainer.min_steps=500"])
    assert with_enough_epochs(recipe, 4).trainer.epochs == 125
    assert with_enough_epochs(recipe, 100).trainer.epochs == recipe.trainer.epochs
    asked = read_recipe("molecules", ["dataset.file=my.csv", "trainer.epochs=2"])
    assert with_enough_epochs(asked, 4).trainer.epochs == 2
    both = read_recipe("molecules", ["dataset.file=my.csv", "trainer.epochs=2", "trainer.min_steps=40"])
    assert with_enough_epochs(both, 4).trainer.epochs == 10
