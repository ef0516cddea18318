"""What ``pointset tune`` searches: the paper's ranges, others instead, within the recipe's epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointset.errors import SpecError
from pointset.registry import is_baseline, preset_names
from pointset.runs.recipe import Recipe, check_schedule
from pointset.tuning.ranges import PAPER_RANGES, Range, read_range, search_space, value_at
from tests.small_training import changed, small_recipe


def long_recipe(**changes: Any) -> Recipe:
    return changed(small_recipe(Path("data"), trainer__epochs=100), **changes)


def test_by_default_the_papers_seven_hyperparameters_are_searched() -> None:
    space = search_space(long_recipe())
    ends = {key: (one.low, one.high) for key, one in space.ranges.items()}
    assert ends == {
        "model.layers": (4, 8),
        "model.dim": (64, 256),
        "optimizer.lr": (0.0001, 0.003),
        "schedule.warmup": (0, 40),
        "schedule.cosine": (1, 20),
        "model.noise": (1e-6, 1e-4),
        "optimizer.weight_decay": (1e-6, 1e-1),
    }
    assert not space.notes
    for key in ("optimizer.lr", "model.noise", "optimizer.weight_decay"):
        assert space.ranges[key].log


def test_noise_is_searched_only_for_models_that_have_coordinates() -> None:
    for name in preset_names():
        space = search_space(long_recipe(model__preset=name))
        assert ("model.noise" in space.ranges) == (not is_baseline(name))
        assert not is_baseline(name) or space.notes == (
            f"model.noise is not searched: {name} has no coordinates to add it to",
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.dim=16:64", Range(16, 64, step=16, whole=True)),
        ("model.dim=8:20", Range(8, 20, step=4, whole=True)),
        ("model.dim=16:64:24", Range(16, 64, step=24, whole=True)),
        ("model.layers = 2:8:2", Range(2, 8, step=2, whole=True)),
        ("optimizer.lr=1e-4:1e-3", Range(1e-4, 1e-3, log=True)),
        ("optimizer.lr=0:1e-3:linear", Range(0, 1e-3)),
        ("optimizer.clip=0.1:10:log", Range(0.1, 10, log=True)),
        ("schedule.warmup=0.5:2", Range(0.5, 2)),
        ("trainer.batch_size=8:64:log", Range(8, 64, log=True, whole=True)),
    ],
)
def test_a_range_as_it_is_typed(text: str, expected: Range) -> None:
    assert read_range(text) == (text.partition("=")[0].strip(), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.dim", "expected KEY=LOW:HIGH"),
        ("model.dim=64", "expected KEY=LOW:HIGH"),
        ("model.dim=1:2:3:4", "expected KEY=LOW:HIGH"),
        ("model.dim=64:16", "the lower one first"),
        ("model.dim=16:many", "'many' is not a number"),
        ("model.dim=16:inf", "'inf' is not a number"),
        ("model.dim=16:64:fast", "'fast' is not a number"),
        ("model.dim=16:64:0", "expected one above 0"),
        ("model.dim=1.5:3", "whole"),
        ("optimizer.lr=0:1", "above 0"),
        ("model.dmi=1:2", "did you mean 'model.dim'"),
        ("lr=1e-4:1e-3", "optimizer.lr"),
        ("model.preset=1:2", "cannot be searched"),
        ("seed=0:9", "cannot be searched"),
        ("trainer.epochs=1:9", "cannot be searched"),
    ],
)
def test_a_wrong_range_is_explained(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_range(text)


def test_ranges_are_replaced_added_and_taken_out() -> None:
    space = search_space(long_recipe(), {"model.dim": "8:16", "optimizer.clip": Range(0.1, 1)}, ["model.layers"])
    assert space.ranges["model.dim"] == Range(8, 16, step=8, whole=True)
    assert "optimizer.clip" in space.ranges and "model.layers" not in space.ranges
    assert space.recipe_for(space.own_values()).model.layers == 2
    with pytest.raises(SpecError, match="both fixed and given a range"):
        search_space(long_recipe(), {"model.dim": "8:16"}, ["model.dim"])
    with pytest.raises(SpecError, match="nothing is left"):
        search_space(long_recipe(), {}, list(PAPER_RANGES))
    with pytest.raises(SpecError, match=r"optimizer\.clip"):
        search_space(long_recipe(), {"optimizer.clip": "-1:1"})


@given(
    epochs=st.integers(1, 80),
    shape=st.sampled_from(["anneal", "restarts", "cosine", "constant"]),
    fixed=st.sampled_from([(), ("schedule.warmup",), ("schedule.cosine",)]),
)
def test_whatever_is_drawn_fits_the_epochs(epochs: int, shape: str, fixed: tuple[str, ...]) -> None:
    cosine = 1.0 if shape in ("anneal", "restarts") else 0.0
    recipe = long_recipe(trainer__epochs=epochs, schedule__shape=shape, schedule__cosine=cosine)
    space = search_space(recipe, None, fixed)
    for end in ("low", "high"):
        drawn = space.recipe_for({key: one.nearest(getattr(one, end)) for key, one in space.ranges.items()})
        check_schedule(drawn.schedule, epochs)
    cut = epochs < 60 and shape in ("anneal", "restarts") and not fixed
    assert any("to fit" in note for note in space.notes) or not cut
    assert ("schedule.cosine" in space.ranges) <= (shape in ("anneal", "restarts"))


def test_what_cannot_fit_is_refused_and_what_is_cut_is_told() -> None:
    space = search_space(long_recipe(trainer__epochs=31))
    assert space.ranges["schedule.warmup"].high == 20 and space.ranges["schedule.cosine"].high == 10
    assert space.notes[0] == "schedule.warmup: 0 to 20 instead of 0 to 40, to fit 31 epochs"
    with pytest.raises(SpecError, match=r"schedule\.warmup and schedule\.cosine cannot fit 5 epochs"):
        search_space(long_recipe(trainer__epochs=5), {"schedule.warmup": "4:8", "schedule.cosine": "2:3"})


@given(value=st.floats(-1e3, 1e3), key=st.sampled_from(sorted(PAPER_RANGES)))
def test_the_nearest_value_lies_in_the_range(value: float, key: str) -> None:
    one = PAPER_RANGES[key]
    near = one.nearest(value)
    assert one.low <= near <= one.high
    if one.whole:
        assert isinstance(near, int) and (near - one.low) % (one.step or 1) == 0
    if one.low <= value <= one.high and not one.whole:
        assert near == value


def test_a_range_with_one_value_is_that_value() -> None:
    space = search_space(long_recipe(), {"model.dim": "32:32"})
    assert "model.dim" not in space.ranges and value_at(space.recipe, "model.dim") == 32
    assert "model.dim is 32: its range has no other value" in space.notes
