"""Which graphs are in which batch: each once in an epoch, the same after a break, shared by devices."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointset.runs.recipe import Recipe
from pointset.training.batches import EpochBatches, training_batches


def batches(count: int, rank: int = 0, processes: int = 1, **trainer: Any) -> EpochBatches:
    sizes = 3 + np.arange(count) % 4
    plain = {"name": "batches", "trainer": {"epochs": 2, "batch_size": 4} | trainer, "seed": 3}
    return training_batches(sizes, sizes - 1, Recipe.from_dict(plain), rank=rank, processes=processes)


MODES = [{}, {"memory_budget": "600kB"}, {"size_window": 3}]
NAMES = ["plain", "budget", "sorted"]


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
@given(count=st.integers(1, 40), epoch=st.integers(0, 3))
def test_each_graph_once_in_an_epoch(mode: dict[str, Any], count: int, epoch: int) -> None:
    planned = batches(count, **mode)
    planned.start(epoch, 0)
    drawn = list(planned)
    assert sorted(graph for batch in drawn for graph in batch) == list(range(count))
    assert len(drawn) == len(planned)


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
def test_an_epoch_goes_on_where_it_stopped(mode: dict[str, Any]) -> None:
    planned = batches(30, **mode)
    planned.start(1, 0)
    whole = list(planned)
    planned.start(1, 3)
    assert list(planned) == whole[3:]
    planned.start(2, 0)
    assert list(planned) != whole


@given(count=st.integers(1, 60), window=st.integers(2, 20))
def test_windows_bring_like_sizes_together(count: int, window: int) -> None:
    planned, plain = batches(count, size_window=window), batches(count)
    for one in (planned, plain):
        one.start(0, 0)
    drawn, as_usual = list(planned), list(plain)
    assert [len(batch) for batch in drawn] == [len(batch) for batch in as_usual]
    for first in range(0, len(drawn), window):  # within a window the same graphs, in other batches
        together, usual = (list(chain.from_iterable(one[first : first + window])) for one in (drawn, as_usual))
        assert sorted(together) == sorted(usual)
        size = sorted(3 + graph % 4 for graph in usual)
        ranges = sorted(sorted(3 + graph % 4 for graph in batch) for batch in drawn[first : first + window])
        assert list(chain.from_iterable(ranges)) == size  # cut from the sorted window


@given(count=st.integers(1, 40), devices=st.integers(2, 5))
def test_devices_share_each_batch(count: int, devices: int) -> None:
    alone = batches(count)
    alone.start(0, 0)
    together = [batches(count, rank, devices) for rank in range(devices)]
    for one in together:
        one.start(0, 0)
    for batch, *shares in zip(alone, *together, strict=True):
        words = [one.handed_out.popleft() for one in together]
        counting = [share for share, word in zip(shares, words, strict=True) if not word.idle]
        assert sorted(graph for share in counting for graph in share) == sorted(batch)
        assert all(shares) and all(word.graphs == len(batch) for word in words)
        assert len(counting) == min(devices, len(batch))
